package cpu

import (
	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// group is matrices of one shape, each packed or dense.
type group struct {
	in, out int
	packed  []product // nil where they are dense
	dense   []tensor.Tensor
	biases  []tensor.Tensor
}

func (g *group) In() int  { return g.in }
func (g *group) Out() int { return g.out }
func (g *group) Len() int { return max(len(g.packed), len(g.dense)) }

// isPacked reports whether a matrix is packed.
func (g *group) isPacked(e int) bool { return g.packed != nil && g.packed[e] != nil }

// few is up to how many rows a matrix's weights are read once for each.
func (g *group) few(e int) int {
	if g.isPacked(e) {
		return fewQRows
	}
	return fewRows
}

// Group keeps the list.
func (d *Device) Group(list []device.Matrix, dense, biases []tensor.Tensor) device.Group {
	g := &group{dense: dense, biases: biases}
	for _, m := range list {
		p, _ := m.(product)
		if g.packed = append(g.packed, p); p != nil {
			g.in, g.out = p.In(), p.Out()
		}
	}
	var first tensor.Tensor // dense
	for _, w := range dense {
		if !w.Nil() && first.Nil() {
			first, g.in, g.out = w, w.Cols, w.Rows
		}
	}
	for e := range g.Len() {
		want(len(biases) == 0 || len(biases) == g.Len() && biases[e].Cols == g.out, "Group")
		if g.isPacked(e) {
			want((dense == nil || dense[e].Nil()) && g.packed[e].In() == g.in && g.packed[e].Out() == g.out, "Group")
		} else {
			want(dense[e].Cols == g.in && dense[e].Rows == g.out && dense[e].Type == first.Type, "Group", dense[e])
		}
	}
	return g
}

// GroupsAffine is true.
func (d *Device) GroupsAffine() bool { return true }

// GroupsMany is false.
func (d *Device) GroupsMany() bool { return false }

// FreeGroup leaves the memory to the garbage collector.
func (d *Device) FreeGroup(device.Group) {}

// A share is the rows of one expert in one product.
type share struct {
	*group
	expert, rows int
	to           tensor.Tensor
	y, x         strided
}

// GroupMul multiplies rows by the matrices of their experts: those that see few
// rows all together, the others one by one.
func (d *Device) GroupMul(ys []tensor.Tensor, x, rows tensor.Tensor, groups []device.Group, r device.Routes) {
	const op = "GroupMul"
	first, n := ints(op, r.First), r.Rows.Cols
	want(len(ys) == len(groups) && (rows.Nil() && x.Rows == n || rows.Cols == n), op, x, rows)
	in, release := d.gathered(x, rows)
	defer release()
	var all, few []share
	for i, of := range groups {
		g := of.(*group)
		want(ys[i].Rows == n && ys[i].Cols == g.out && x.Cols == g.in && g.Len() == len(first)-1, op, ys[i], x)
		for e := range g.Len() {
			lo, hi := int(first[e]), int(first[e+1])
			if lo == hi {
				continue
			}
			to := ys[i].Slice(lo, hi)
			s := share{group: g, expert: e, rows: hi - lo, to: to, y: rowsOf(op, to), x: strided{in.data[lo*in.stride:], in.stride, in.cols}}
			if all = append(all, s); s.rows <= g.few(e) {
				few = append(few, s)
			} else {
				s.multiply(d)
			}
		}
	}
	d.multiplyFew(few)
	for _, s := range all {
		if len(s.biases) > 0 {
			addBias(s.to, s.biases[s.expert])
		}
	}
}

// gathered returns rows of x, in scratch memory if they are not all in order.
func (d *Device) gathered(x, rows tensor.Tensor) (strided, func()) {
	from := rowsOf("GroupMul", x)
	if rows.Nil() {
		return from, func() {}
	}
	list := ints("GroupMul", rows)
	data, release := d.borrowed(len(list) * x.Cols)
	to := strided{data, x.Cols, x.Cols}
	parallel.Runs(len(list), rowTile, func(lo, hi int) {
		for i := lo; i < hi; i++ {
			copy(to.row(i), from.row(int(list[i])))
		}
	})
	return to, release
}

// multiply computes a share by itself.
func (s share) multiply(d *Device) {
	if s.isPacked(s.expert) {
		s.packed[s.expert].multiply(d, s.y, s.x, s.rows)
	} else {
		d.denseProduct(s.y, s.x, s.dense[s.expert], s.rows)
	}
}

// multiplyFew computes shares of few rows, some columns of each at a time.
func (d *Device) multiplyFew(list []share) {
	type tile struct {
		share
		in     []float32 // rows in stored order
		lo, hi int
	}
	var tiles []tile
	for _, s := range list {
		t := tile{share: s}
		if s.isPacked(s.expert) {
			in, release := d.borrowed(s.rows * s.in)
			defer release()
			permuteRows(in, s.x, s.rows, s.packed[s.expert].order())
			t.in = in
		}
		for lo := 0; lo < s.out; lo += gemvSet {
			t.lo, t.hi = lo, min(lo+gemvSet, s.out)
			tiles = append(tiles, t)
		}
	}
	parallel.For(len(tiles), func(i int) {
		t := tiles[i]
		if t.isPacked(t.expert) {
			t.packed[t.expert].columns(t.y, t.in, t.rows, t.lo, t.hi)
		} else {
			dotRows(t.y, t.x, t.dense[t.expert], t.rows, t.lo, t.hi)
		}
	})
}
