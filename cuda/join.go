package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// join is Join of kernels/join_row.cuh.
type join struct {
	given, sums, left, stream, y, weights uint64
	eps, offset, times, then              float32
	parts, cols, each                     int32
}

// joinProduct is JoinProduct of kernels/join_row.cuh.
type joinProduct struct {
	packedProduct
	join join
}

// takesJoin reports whether p is a product of a row that leaves what it gives, and the stream, for the readers of their sum, and these can
// join them.
func (d *Device) takesJoin(p *packed) bool {
	s := p.joins
	if p.x.Rows != 1 || p.n != 1 || p.then != device.Put || s.With != nil || s.Scale.Nil() || !linkable(s.Norm, s.Shift) || s.Reader == nil || s.X.Type != tensor.F32 {
		return false
	}
	want(p.list[0].out == s.X.Cols && s.X.Rows == 1 && s.Scale.Cols == s.X.Cols, "Products", p.x, s.X, s.Scale)
	if !p.ordered && !d.mixedFor(p) || p.list[0].tiles() > join_row_most_parts || !d.planJoins(p) {
		return false
	}
	_, ok := d.readsIn(s.X, s.Reader)
	return ok && (s.Reader.Scale.Nil() || d.leavable(s.X, s.Reader)) && d.joinable(*s.Reader)
}

// planJoins reports whether there is room for p, whose row is in order, by the kernel that joins.
func (d *Device) planJoins(p *packed) bool {
	plan, ok := d.planInOrder(p)
	return ok && plan.name == kernel_qmatmul_one
}

// joinable reports whether products can join a row while they bring it: all of them by one launch, whose warps have so little of it each
// that it is all on its way at a time, and whose blocks have enough threads to store it.
func (d *Device) joinable(r device.Products) bool {
	parts, ok := d.parts(r)
	if !ok || len(parts) != 1 || r.Then == device.Turn || r.Then == device.Add || r.Joins != nil || !d.planJoins(&parts[0]) {
		return false
	}
	p := &parts[0]
	portions, _ := p.portions()
	for w := range few_rows_many_warps {
		if portions[w+1].at-portions[w].at > join_row_most_blocks {
			return false
		}
	}
	blocks := max(1, min(d.sms, p.list[0].tiles())/2) // or more, whatever is done with the products
	return p.list[0].in <= blocks*few_rows_many_warps*32
}

// mixedFor reports whether attention, or a unit, has left x of p in its order.
func (d *Device) mixedFor(p *packed) bool {
	return p.left && p.list[0].sorted != 0 && d.mixed == mixed{d.addressOrNull(p.x), p.x.Rows, p.list[0].sorted}
}

// linkJoin has p leave both parts of a sum.
func (d *Device) linkJoin(p *packed) {
	d.settle()
	s := *p.joins
	var to left
	if parts := p.list[0].tiles(); s.Reader.Scale.Nil() {
		to = d.leavesPlain(s.X, s.Reader)
		to.squares = d.linkedSquares(d.linked.side)
		d.linked.parts = parts
	} else {
		to = d.leaves(s.X, s.Reader, parts)
	}
	d.linked.joins = true
	p.link = d.linkOf(to)
	y, part := d.given(s.X.Cols)
	s.Y, p.y[0] = y, y
	p.join = d.joinOf(s)
	p.join.left = d.addressOrNull(part)
	d.unjoined = s
}

// given is where so many columns of what a sublayer gives go, and, in as many bytes, what is left of them beside the stream's (join_row.cuh).
func (d *Device) given(cols int) (y, part tensor.Tensor) {
	both := d.scratch(scratchGiven, tensor.F32, 2, cols)
	return both.Slice(0, 1), both.Slice(1, 2)
}

// joinOf describes a sum.
func (d *Device) joinOf(s device.Sum) join {
	at := d.addressOrNull
	return join{stream: at(s.X), y: at(s.Y), weights: at(s.Scale), eps: s.Norm.Eps, offset: s.Norm.Offset, times: s.Times, then: s.Then, cols: int32(s.X.Cols)}
}

// joinFor has p, for which both parts of a sum were left, join them.
func (d *Device) joinFor(p *packed) {
	s := &d.linked
	_, part := d.given(s.cols)
	p.join = d.joinOf(d.unjoined)
	p.join.given, p.join.sums, p.join.parts = d.addressOrNull(part), d.addressOrNull(d.linkedSquares(s.side)), int32(s.parts)
	d.unjoined = device.Sum{}
}

// settle adds to a stream what was to join it, for all but its reader.
func (d *Device) settle() {
	if d.unjoined.X.Nil() {
		return
	}
	s := d.unjoined
	d.unjoined = device.Sum{}
	s.Reader = nil
	d.Sum(s)
}
