package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// group is matrices of one shape, as a table of where they are (Matrix in
// kernels/qmatmul_group.cu and kernels/gemv_group.cu).
type group struct {
	in, out, count int
	groups         int         // of scales of a packed matrix, at most
	dense          tensor.Type // if not packed
	packed         bool
	table          tensor.Tensor // I32 [count, words of a Matrix]
}

func (g *group) In() int  { return g.in }
func (g *group) Out() int { return g.out }
func (g *group) Len() int { return g.count }

// tiles returns how many blocks a row's product takes.
func (g *group) tiles() int {
	if g.packed {
		return pieces(g.out, exl2_tile_columns)
	}
	return pieces(g.out, gemv_group_warps)
}

// Group makes the table of a list.
func (d *Device) Group(list []device.Matrix, dense, biases []tensor.Tensor) device.Group {
	g := &group{count: max(len(list), len(dense)), packed: len(list) > 0}
	want(len(biases) == 0 || len(biases) == g.count, "Group", biases...)
	var table []uint64
	for i := range g.count {
		bias := tensor.Tensor{}
		if len(biases) > 0 {
			bias = biases[i]
		}
		if g.packed {
			table = g.addPacked(d, table, list[i].(*matrix), bias)
		} else {
			table = g.addDense(d, table, dense[i], bias)
		}
		want(bias.Nil() || bias.Cols == g.out, "Group", bias)
	}
	if g.count > 0 && d.err == nil {
		g.table = load(d, tensor.I32, g.count, 2*len(table)/g.count, table)
	}
	return g
}

func (g *group) addPacked(d *Device, table []uint64, m *matrix, bias tensor.Tensor) []uint64 {
	if len(table) == 0 {
		g.in, g.out = m.in, m.out
	}
	want(m.in == g.in && m.out == g.out && !m.order.Nil(), "Group", m.words)
	g.groups = max(g.groups, m.groups)
	for _, t := range []tensor.Tensor{m.words, m.scales, m.units, m.order, bias, m.table} {
		table = append(table, d.addressOrNull(t))
	}
	pair := func(low, high int) uint64 { return uint64(uint32(low)) | uint64(high)<<32 }
	return append(table, pair(len(m.regions), m.chunks), pair(m.groups, 4*exl2_chunk_words*m.widest))
}

func (g *group) addDense(d *Device, table []uint64, w, bias tensor.Tensor) []uint64 {
	if len(table) == 0 {
		g.in, g.out, g.dense = w.Cols, w.Rows, w.Type
	}
	want(w.Cols == g.in && w.Rows == g.out && w.Type == g.dense && w.Dense(), "Group", w)
	return append(table, d.addressOrNull(w), d.addressOrNull(bias))
}

// addressOrNull returns where a tensor begins, 0 for an absent one.
func (d *Device) addressOrNull(t tensor.Tensor) uint64 {
	if t.Nil() {
		return 0
	}
	return uint64(d.address("Group", t))
}

// GroupsAffine is false: grouped products know the codes of EXL2 alone.
func (d *Device) GroupsAffine() bool { return false }

// FreeGroup frees the table.
func (d *Device) FreeGroup(g device.Group) { d.Free(g.(*group).table) }

// GroupMul multiplies rows by the matrices of their experts.
func (d *Device) GroupMul(ys []tensor.Tensor, x, rows tensor.Tensor, groups []device.Group, r device.Routes) {
	n := r.Rows.Cols
	want(len(ys) == len(groups) && (rows.Nil() && x.Rows == n || rows.Cols == n), "GroupMul", x, rows)
	if n == 0 {
		return
	}
	var packed []tensor.Tensor
	var tables []*group
	for i, of := range groups {
		g := of.(*group)
		want(ys[i].Rows == n && ys[i].Cols == g.out && x.Cols == g.in && g.count == r.First.Cols-1, "GroupMul", ys[i], x)
		if g.packed {
			packed, tables = append(packed, ys[i]), append(tables, g)
		} else {
			d.denseGroup(ys[i], x, rows, g, r)
		}
	}
	for ; len(packed) > 1; packed, tables = packed[2:], tables[2:] {
		d.packedGroups(packed[0], packed[1], x, rows, tables[0], tables[1], r)
	}
	if len(packed) > 0 {
		d.packedGroups(packed[0], packed[0], x, rows, tables[0], &group{packed: true}, r)
	}
}

var denseGroups = map[tensor.Type]func(d *Device, l launch, y, x, table, rows, experts, first tensor.Tensor, n, k int32, ldy, ldx int64){
	tensor.F16: (*Device).gemv_group_f16, tensor.BF16: (*Device).gemv_group_bf16, tensor.F32: (*Device).gemv_group_f32,
}

func (d *Device) denseGroup(y, x, rows tensor.Tensor, g *group, r device.Routes) {
	multiply := pick("GroupMul", denseGroups, g.dense, y, x)
	l := launch{blocks: dim{x: g.tiles(), y: y.Rows}, threads: dim{x: 32 * gemv_group_warps}}
	multiply(d, l, y, x, g.table, rows, r.Experts, r.First, int32(g.out), int32(g.in), int64(y.Stride), int64(x.Stride))
}

type packedGroupFunc func(d *Device, l launch, y1, y2, x, table1, table2, rows, experts, first tensor.Tensor,
	tiles, together, in, out1, out2 int32, ldy1, ldy2, ldx int64)

// packedGroupVariants are kernels by the warps of a block.
var packedGroupVariants = []struct {
	kernel packedGroupFunc
	warps  int
}{
	{(*Device).qmatmul_group_2, qmatmul_group_few_warps}, {(*Device).qmatmul_group_4, qmatmul_group_some_warps}, {(*Device).qmatmul_group_8, qmatmul_group_many_warps},
}

// unitsAWarp is how many units a warp of a grouped product asks for at once.
const unitsAWarp = 4

// packedGroups multiplies by the matrices of a, and of b if it has any.
func (d *Device) packedGroups(y1, y2, x, rows tensor.Tensor, a, b *group, r device.Routes) {
	groups := max(a.groups, b.groups)
	v, together, row := packedGroupVariants[0], 0, tensor.F16.Size()*(pieces(a.in, 64)*64+packed_row_padding)
	beside := 16*groups + 4*(pieces(groups, 4)*4+4)
	for _, w := range packedGroupVariants {
		fit := (d.shared - w.warps*qmatmul_group_ring - beside) / row
		if fit < 1 {
			break
		}
		v, together = w, min(qmatmul_group_most, r.Places.Rows, fit)
		if pieces(a.in, exl2_unit_blocks*exl2_block_rows) <= v.warps*unitsAWarp {
			break
		}
	}
	if together < 1 {
		d.failWith("GroupMul: matrices of %d inputs leave no room in shared memory; --devices cpu has it", a.in)
		return
	}
	l := launch{blocks: dim{x: a.tiles() + b.tiles(), y: y1.Rows}, threads: dim{x: 32 * v.warps}, shared: v.warps*qmatmul_group_ring + beside + together*row}
	v.kernel(d, l, y1, y2, x, a.table, b.table, rows, r.Experts, r.First, int32(a.tiles()), int32(together), int32(a.in), int32(a.out), int32(b.out),
		int64(y1.Stride), int64(y2.Stride), int64(x.Stride))
}
