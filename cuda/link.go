package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// link is Link of kernels/link.cuh.
type link struct {
	squares, powers, left, leftSquares, places, scale uint64
	offset, eps                                       float32
	parts, cols                                       int32
}

// mostLinked is the most rows that links have.
const mostLinked = batch_rows_most

// stream is what there is of the stream that a norm was made of last, or products have been
// added to since: powers, and, for products that were named then, the stream in their order
// and its squares. It says nothing of what has been written to the stream since: those who ask
// for it know.
type stream struct {
	x          uint64 // where the stream is
	rows, cols int
	parts      int    // of the squares of a row
	side       int    // where they are, and what was left
	sorted     uint64 // for matrices of this order, or 0
	scale      uint64 // of the norm
	norm       device.Norm
	powers     bool // of its rows are there
	joins      bool // what was left is two parts (join.go)
}

// linkable reports whether such a norm can be left out.
func linkable(norm device.Norm, shift tensor.Tensor) bool {
	return norm.Kind == device.RMS && shift.Nil()
}

// linkedSquares and linkedRows are where squares, and rows of a stream, are on a side, and
// linkedPowers where powers are.
func (d *Device) linkedSquares(side int) tensor.Tensor {
	return d.allSquares().Slice(side*mostLinked, (side+1)*mostLinked)
}

func (d *Device) linkedPowers() tensor.Tensor {
	return d.allSquares().Slice(2*mostLinked, 2*mostLinked+1).Columns(0, mostLinked)
}

func (d *Device) allSquares() tensor.Tensor {
	return d.scratch(scratchSquares, tensor.F32, 2*mostLinked+1, link_squares_stride)
}

func (d *Device) linkedRows(side, rows, cols int) tensor.Tensor {
	all := d.scratch(scratchLinked, tensor.F16, 2*mostLinked, cols)
	return all.Slice(side*mostLinked, side*mostLinked+rows)
}

// mixed is what attention, or a unit, has left last in the order of a matrix.
type mixed struct {
	y      uint64
	rows   int
	sorted uint64
}

// placesFor returns where columns of y go, which attention computes: where the products that
// read it like them, if those do not have to put them in order then.
func (d *Device) placesFor(y tensor.Tensor, a device.Attend) tensor.Tensor {
	if a.HeadDim%4 != 0 || !d.together(a, y.Rows) {
		return tensor.Tensor{}
	}
	return d.placesOf(y, a.Reader, false)
}

// placesOf is placesFor of a reader: of one row, if the products in front took what was left for them, or, where that is
// enough, if there is a norm in front of them of which something could have been.
func (d *Device) placesOf(y tensor.Tensor, reader device.Matrix, could bool) tensor.Tensor {
	m, ok := reader.(*matrix)
	if !ok || m.order.Nil() || m.places.Nil() || m.sorted == 0 || m.in != y.Cols || y.Rows > qmatmul_rows_most || !atSixteenBytes(y) {
		return tensor.Tensor{}
	}
	p := packed{x: y, then: device.Add, n: 1}
	p.list[0] = m
	if y.Rows == 1 && !((d.took || could && d.couldTake) && d.takesParts(&p)) || !d.takesPacked(&p) {
		return tensor.Tensor{}
	}
	d.mixed = mixed{d.addressOrNull(y), y.Rows, m.sorted}
	return m.places
}

// link finds what was left for p, if it may be there, and where p leaves something.
func (d *Device) link(p *packed) {
	if d.mixedFor(p) {
		p.ordered = true
		d.mixed = mixed{} // which nobody else reads
	}
	if p.then == device.Add || p.joins != nil {
		d.mixed = mixed{}
	}
	if !p.scale.Nil() {
		d.took, d.couldTake = false, linkable(p.norm, p.shift)
	}
	switch {
	case p.joins != nil:
		d.linkJoin(p)
	case d.links(p):
		d.linkNormed(p)
	case p.plain():
		d.linkPlain(p)
	case !p.scale.Nil():
		d.unlink(p.x)
	case p.then == device.Add:
		d.added(p.y[0])
		if p.reader != nil && (p.x.Rows > 1 || p.ordered) && d.linkTakes(p) {
			parts := p.list[0].tiles()
			if !d.fewTake(p) {
				parts *= 2
			}
			p.link = d.linkOf(d.leaves(p.y[0], p.reader, parts))
		}
	}
}

// added says that something has been added to a stream: what has been left is as it was before.
func (d *Device) added(x tensor.Tensor) {
	if d.linked.x == d.addressOrNull(x) {
		d.linked.sorted = 0
	}
}

// linkTakes reports whether the kernel that makes p has links, if its x is in order.
func (d *Device) linkTakes(p *packed) bool {
	if p.x.Rows == 1 {
		return d.takesParts(p)
	}
	return d.fewTake(p) || d.batchTakes(p)
}

// takesParts reports whether there is room for the row of p as warps bring what they need of one in order.
func (d *Device) takesParts(p *packed) bool {
	plan, ok := d.planInOrder(p)
	return ok && plan.parted()
}

// planInOrder returns how p is made if its rows lie in order.
func (d *Device) planInOrder(p *packed) (plan packedPlan, ok bool) {
	q := *p
	q.ordered = true
	return d.plan(q.needs(d.sms), q.x.Rows)
}

// unlink forgets a stream that a kernel normalizes which stores no powers: those of the norm before may be of anything.
func (d *Device) unlink(x tensor.Tensor) {
	if d.linked.x == d.addressOrNull(x) {
		d.linked = stream{side: d.linked.side}
	}
}

// leftFor reports whether what p is to normalize was left for it.
func (d *Device) leftFor(p *packed) bool {
	s, at, m := &d.linked, d.addressOrNull, p.list[0]
	return p.left && *s == stream{at(p.x), p.x.Rows, p.x.Cols, s.parts, s.side, m.sorted, at(p.scale), p.norm, s.powers, s.joins} && m.sorted != 0
}

// links reports whether p is normalized by a norm that may be left out, by a kernel that can do so.
func (d *Device) links(p *packed) bool {
	return !p.scale.Nil() && p.x.Type == tensor.F32 && linkable(p.norm, p.shift) && d.linkTakes(p)
}

// plain reports whether p multiplies the stream as it is.
func (p *packed) plain() bool { return p.scale.Nil() && p.x.Type == tensor.F32 }

// takesPlain reports whether what p multiplies, the stream as it is, was left for it, for a kernel that there is.
func (d *Device) takesPlain(p *packed) bool { return d.leftFor(p) && d.linkTakes(p) }

// linkPlain has p read the stream as it was left for it.
func (d *Device) linkPlain(p *packed) {
	s := &d.linked
	if s.joins {
		d.joinFor(p)
	}
	p.x, p.ordered = d.linkedRows(s.side, s.rows, s.cols), true
	d.took, d.couldTake = true, true
}

// linkNormed has p read what was left for it, if anything, and store the powers of its rows.
func (d *Device) linkNormed(p *packed) {
	s, at := &d.linked, d.addressOrNull
	if d.leftFor(p) {
		if s.joins {
			d.joinFor(p)
		}
		p.link = link{squares: at(d.linkedSquares(s.side)), powers: at(d.linkedPowers()), eps: p.norm.Eps, parts: int32(s.parts), cols: int32(s.cols)}
		p.x, p.ordered, p.scale = d.linkedRows(s.side, s.rows, s.cols), true, tensor.Tensor{}
		s.powers, d.took = true, true
		return
	}
	*s = stream{x: at(p.x), rows: p.x.Rows, cols: p.x.Cols, side: s.side, powers: true}
	p.powers = d.linkedPowers()
}

// left is where what adds to a stream leaves it, and its squares, for products that normalize it; or nothing.
type left struct {
	rows, squares, powers, places, scale tensor.Tensor
	norm                                 device.Norm
}

// leaves has what adds to a stream leave it for its readers, with so many sums of squares, if they can read that and there are powers,
// without which large rows had no room.
func (d *Device) leaves(y tensor.Tensor, r *device.Products, parts int) (l left) {
	s, at := &d.linked, d.addressOrNull
	m, ok := d.readsIn(y, r)
	if !ok || parts >= link_squares_stride || !d.leavable(y, r) {
		return l
	}
	side := s.side ^ 1
	*s = stream{x: at(y), rows: y.Rows, cols: y.Cols, parts: parts, side: side, sorted: m.sorted, scale: at(r.Scale), norm: r.Norm, powers: true}
	return left{d.linkedRows(side, y.Rows, y.Cols), d.linkedSquares(side), d.linkedPowers(), m.places, r.Scale, r.Norm}
}

// leavable reports whether the readers' norm can be left out, and the powers that what is left for them takes are there.
func (d *Device) leavable(y tensor.Tensor, r *device.Products) bool {
	s := &d.linked
	return !r.Scale.Nil() && linkable(r.Norm, r.Shift) && s.powers && s.x == d.addressOrNull(y) && s.rows == y.Rows && s.cols == y.Cols
}

// leavesPlain has what adds to a stream leave it for readers that multiply it as it is, if it is those that read it.
func (d *Device) leavesPlain(y tensor.Tensor, r *device.Products) (l left) {
	m, ok := d.readsIn(y, r)
	if !ok || !r.Scale.Nil() {
		return l
	}
	side := d.linked.side ^ 1
	d.linked = stream{x: d.addressOrNull(y), rows: y.Rows, cols: y.Cols, side: side, sorted: m.sorted}
	return left{rows: d.linkedRows(side, y.Rows, y.Cols), places: m.places}
}

// readsIn returns the first matrix of what reads a stream, in whose order it may be left.
func (d *Device) readsIn(y tensor.Tensor, r *device.Products) (m *matrix, ok bool) {
	m, ok = r.List[0].W.(*matrix)
	return m, ok && !m.places.Nil() && m.sorted != 0 && d.addressOrNull(r.X) == d.addressOrNull(y) && m.in == y.Cols
}

// linkOf is l as products take it.
func (d *Device) linkOf(l left) link {
	at := d.addressOrNull
	return link{leftSquares: at(l.squares), left: at(l.rows), powers: at(l.powers), places: at(l.places), scale: at(l.scale), offset: l.norm.Offset, eps: l.norm.Eps, cols: int32(l.rows.Cols)}
}
