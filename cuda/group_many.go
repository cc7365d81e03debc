package cuda

import (
	"encoding/binary"
	"hash/fnv"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

type groupProductsFunc func(d *Device, l launch, y1, y2, x1, x2, table1, table2, first tensor.Tensor,
	count, words1, words2, blocks1, blocks2, slot, slots, halves, out1, out2 int32, ldy1, ldy2 int64)

// A groupVariant is grouped products of many rows, on Hopper, by the rows of a set.
type groupVariant struct {
	products groupProductsFunc
	name     kernel
	rows     int
}

var groupVariants = []groupVariant{
	{(*Device).qgemm_group_16, kernel_qgemm_group_16, 16}, {(*Device).qgemm_group_32, kernel_qgemm_group_32, 32},
	{(*Device).qgemm_group_64, kernel_qgemm_group_64, 64}, {(*Device).qgemm_group_128, kernel_qgemm_group_128, 128},
}

// manyOfExpert is how many rows of an expert, on average, are many.
const manyOfExpert = 8

// arranged tells orders apart, and what units they are divided into; 0 is unknown.
func (m *matrix) arranged() uint64 {
	if m.sorted == 0 {
		return 0
	}
	h := fnv.New64a()
	h.Write(binary.LittleEndian.AppendUint64(nil, m.sorted))
	h.Write(tensor.BytesOf(m.unitBlocks))
	return h.Sum64() | 1
}

// GroupsMany reports whether grouped products of many rows are faster than one after the other.
func (d *Device) GroupsMany() bool { return d.hopper() }

// seesMany reports whether rows are multiplied by sets of many, and how, with groups of as many inputs.
func (d *Device) seesMany(r device.Routes, groups ...*group) (v groupVariant, ok bool) {
	n := r.Rows.Cols
	if len(groups) == 0 {
		return v, false
	}
	experts := groups[0].count
	if !d.hopper() || r.Places.Rows <= qmatmul_group_most || n < manyOfExpert*experts {
		return v, false
	}
	for _, g := range groups {
		if !g.packed() || g.unshuffled || qgemm_group_rows_at_once*g.in*tensor.F16.Size() > d.sharedFor(kernel_qgemm_group_order) {
			return v, false
		}
	}
	for _, v = range groupVariants {
		if 3*n/2 <= v.rows*experts { // few experts have more
			break
		}
	}
	_, slots := d.groupStages(v, groups...)
	return v, slots > 1
}

// groupStages returns what a stage takes of shared memory, and how many there is room for.
func (d *Device) groupStages(v groupVariant, groups ...*group) (slot, slots int) {
	widest := 0
	for _, g := range groups {
		widest = max(widest, g.most.widest)
	}
	slot = v.rows*4*qgemm_order_half_rows + qgemm_warps*4*exl2_chunk_words*widest
	return slot, min(qgemm_most_stages, (d.sharedFor(v.name)-groupAlignment-qgemm_warps*qgemm_group_write_bytes)/slot)
}

// groupAlignment is what stages are aligned to.
const groupAlignment = 1024

// groupInput is rows that are put in order for a group: x, or, where there is up, units of x and up.
type groupInput struct {
	x, up, rows tensor.Tensor
	unit        device.Unit
}

// inOrder puts rows in the order in which products with g take them.
func (d *Device) inOrder(xs tensor.Tensor, from groupInput, g *group, halves int, v groupVariant, r device.Routes) {
	n, c := r.Rows.Cols, from.unit.Clamp
	l := launch{blocks: dim{x: v.rows / qgemm_group_rows_at_once, y: min(n, n/v.rows+g.count)}, threads: dim{x: qgemm_order_threads}, shared: qgemm_group_rows_at_once * g.in * tensor.F16.Size()}
	d.qgemm_group_order(l, xs, from.x, from.up, from.rows, g.table, r.First, int32(g.count), int32(v.rows), int32(g.table.Cols), int32(g.in), int32(halves), actOf(from.unit),
		int64(from.x.Stride), int64(from.up.Stride), c.Limit, c.Up, c.Alpha, c.Added)
}

// manyGroups multiplies rows of which experts see many by the matrices of a, and of b if it is another group.
func (d *Device) manyGroups(y1, y2 tensor.Tensor, from groupInput, a, b *group, v groupVariant, r device.Routes) {
	n, halves := r.Rows.Cols, 2*max(a.most.units, b.most.units)
	rows8 := n + 7*min(n, a.count)
	apart := !a.arranged(b)
	size, all := halves*rows8, halves*rows8
	if apart {
		all *= 2
	}
	xs := d.scratch(scratchOrdered, tensor.F16, all, qgemm_order_half_rows)
	x1, x2 := xs.Slice(0, size), xs.Slice(0, size)
	d.inOrder(x1, from, a, halves, v, r)
	if apart {
		x2 = xs.Slice(size, 2*size)
		d.inOrder(x2, from, b, halves, v, r)
	}
	both := a != b
	slot, slots := d.groupStages(v, a, b)
	blocks2 := 0
	if both {
		blocks2 = pieces(b.tiles(), qgemm_warps)
	}
	l := launch{blocks: dim{x: d.sms}, threads: dim{x: qgemm_threads}, shared: slots*slot + groupAlignment + qgemm_warps*qgemm_group_write_bytes}
	v.products(d, l, y1, y2, x1, x2, a.table, b.table, r.First, int32(a.count), int32(a.table.Cols), int32(b.table.Cols), int32(pieces(a.tiles(), qgemm_warps)), int32(blocks2),
		int32(slot), int32(slots), int32(halves), int32(a.out), int32(b.out), int64(y1.Stride), int64(y2.Stride))
}
