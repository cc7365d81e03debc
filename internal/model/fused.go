package model

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// fused computes the steps on a device that makes products with what is around them,
// and reports whether s is a pass for that: of what a step leaves for the next one, only
// the stream and the cache are written for sure. The module before may have left something
// for a step.
func (m *Module) fused(s *State, left *Step) bool {
	f, ok := s.Dev.(device.Fuser)
	if !ok || s.apart {
		return false
	}
	for i := 0; i < len(m.Steps); {
		n, reader := fuse(f, s, m.Steps[i:], left, m.follower)
		i, left = i+n, reader
	}
	s.left = left
	return true
}

// ForwardFor is Forward of which only rows of parts of s are read later, none of the first
// unread ones, and the cache: a device that turns queries and keys with their products leaves
// out the rest of the stream.
func (m *Module) ForwardFor(s *State, parts []*State, unread int) {
	f, ok := s.Dev.(device.Fuser)
	if !ok || s.apart || m.Kind != Attention || len(m.Steps) < 2 {
		m.Forward(s)
		return
	}
	p, ok := m.Steps[0].normed(s)
	p.Left = s.left == &m.Steps[0]
	if !ok || !turned(f, s, p, &m.Steps[1], parts, unread) {
		m.Forward(s)
		return
	}
	s.left = nil
	for _, part := range parts {
		n, _ := finish(f, part, m.Steps[1:], nil, false)
		for i := 1 + n; i < len(m.Steps); i += n {
			n, _ = fuse(f, part, m.Steps[i:], nil, nil)
		}
	}
}

// fuse computes the first of some steps, with those behind it that go with it, and
// returns how many, and the step for which something has been left then, or nil. Follower
// runs behind the last of them.
func fuse(f device.Fuser, s *State, steps []Step, left, follower *Step) (n int, reader *Step) {
	t := &steps[0]
	if t.joins != nil {
		return 1, t.join(f, s, steps[1:], follower)
	}
	if t.latents != nil {
		return t.latents.fused(f, s, steps, follower)
	}
	if n, reader = fuseMLP(f, s, steps, left, follower); n > 0 {
		return n, reader
	}
	if n, reader = fuseParallel(f, s, steps, left, follower); n > 0 {
		return n, reader
	}
	if p, ok := t.normed(s); ok {
		p.Left = left == t
		if len(steps) > 1 && turned(f, s, p, &steps[1], []*State{s}, 0) {
			n, reader = finish(f, s, steps[1:], follower, false)
			return 1 + n, reader
		}
		if names, ok := mixed(f, s, p, steps[1:]); ok {
			n, reader = finish(f, s, steps[1:], follower, names)
			return 1 + n, reader
		}
		switch {
		case t.recurs == nil:
			if f.Products(p) {
				return 1, nil
			}
		case t.recurs.fused(f, s, p, steps[1:]):
			n, reader = finish(f, s, steps[1:], follower, true)
			return 1 + n, reader
		}
	}
	names := t.named(s, steps[1:])
	t.Run(s)
	s.reader = nil
	return finish(f, s, steps, follower, names)
}

// named tells attention, or a unit, who alone reads its result, if that is a product which is added to
// the stream by the step behind, and reports whether it is.
func (t *Step) named(s *State, behind []Step) bool {
	if len(t.Sites) == 1 && slices.Contains([]Slot{Mixed, Gated, Acted}, t.Sites[0].Reads) {
		s.reader = t.reader(s, behind)
	}
	return s.reader != nil
}

// reader returns who alone reads what the step computes, if that is a product which the step behind adds to the stream, or nil.
func (t *Step) reader(s *State, behind []Step) device.Matrix {
	if p, n, _ := t.last(s, behind, nil); n > 0 {
		return p.List[0].W
	}
	return nil
}

// turned computes products that attention reads, and attention of parts of s, if it is nothing but
// rotation, storing and attention proper, as the step's Run would. The first unread rows are in
// none of them.
func turned(f device.Fuser, s *State, p device.Products, t *Step, parts []*State, unread int) bool {
	a := t.mixes
	if a == nil || !a.turns() || s.Batch.Span == 1 {
		return false
	}
	p.Then, p.Turn = device.Turn, a.turning(s)
	p.Turn.Unread = unread
	if !f.Products(p) {
		return false
	}
	for _, x := range parts {
		s.Dev.Attend(a.of(x, Mixed), a.of(x, Query), p.Turn.Cache, p.Turn.Layer, a.attend, x.Batch)
	}
	return true
}

// mixed computes products that attention reads, and attention, the first of some steps, at once. It
// reports whether attention knew who reads its result, and whether it was done.
func mixed(f device.Fuser, s *State, p device.Products, steps []Step) (names, ok bool) {
	if len(steps) == 0 || steps[0].mixes == nil {
		return false, false
	}
	names = steps[0].named(s, steps[1:])
	ok = steps[0].mixes.fused(f, s, p)
	s.reader = nil
	return names, ok
}

// finish multiplies what a step has computed, with the sum behind it, if that is one with
// the products, and returns how many steps that were, and for which something is left. What
// the step has computed may be left for the product.
func finish(f device.Fuser, s *State, steps []Step, follower *Step, left bool) (n int, reader *Step) {
	t := &steps[0]
	n, reader = t.ends(s, steps[1:], follower, func(p device.Products) bool {
		p.Left = left
		return (left || p.Then == device.Add || p.Joins != nil) && f.Products(p)
	})
	if n > 0 {
		return n, reader
	}
	t.Multiply(s)
	return 1, nil
}

// fuseMLP computes the norm, gate, if there is one, up and the unit, and if the steps allow it, down and
// the sum. A stream that no norm is in front of may have to be of the activation type first.
func fuseMLP(f device.Fuser, s *State, steps []Step, left, follower *Step) (n int, reader *Step) {
	if len(steps) < 2 || steps[1].unit == nil {
		return 0, nil
	}
	u := steps[1].unit
	first, ok := steps[0].normed(s)
	if !ok || u.firsts() == 0 || len(first.List) != u.firsts() {
		return 0, nil
	}
	first.Left = left == &steps[0]
	u.activate(&first, u.of(s.At(Acted)))
	if n, reader = multiplyMLP(f, s, first, steps, follower); n == 0 && steps[0].in.norm.none() {
		steps[0].Run(s)
		first.X, first.Left = s.At(Normed), false
		n, reader = multiplyMLP(f, s, first, steps, follower)
	}
	return n, reader
}

// multiplyMLP computes the first products, and what is behind them, of such steps.
func multiplyMLP(f device.Fuser, s *State, first device.Products, steps []Step, follower *Step) (n int, reader *Step) {
	n, reader = steps[1].ends(s, steps[2:], follower, func(down device.Products) bool {
		ordered := first
		ordered.Next, down.Sorted = down.List[0].W, true
		return f.Products(ordered, down)
	})
	if n > 0 {
		return 1 + n, reader
	}
	if !f.Products(first) {
		return 0, nil
	}
	steps[1].Multiply(s)
	return 2, nil
}

// fuseParallel computes attention and an MLP that read one norm, the MLP first: queries, keys and values are of the stream as it was.
func fuseParallel(f device.Fuser, s *State, steps []Step, left, follower *Step) (n int, reader *Step) {
	if len(steps) != 5 || steps[3].unit == nil {
		return 0, nil
	}
	u := steps[3].unit
	p, ok := steps[0].normed(s)
	down, added, _ := steps[3].last(s, steps[4:], nil)
	if !ok || u.firsts() == 0 || len(p.List) != 3+u.firsts() || added != 2 {
		return 0, nil
	}
	p.Left = left == &steps[0]
	first := p
	p.List, first.List = p.List[:3], p.List[3:]
	u.activate(&first, u.of(s.At(Acted)))
	first.Next, down.Sorted = down.List[0].W, true
	if !f.Products(p, first, down) {
		return 0, nil
	}
	mix, sum := &steps[1], &steps[2]
	names := mix.named(s, steps[2:3])
	mix.Run(s)
	s.reader = nil
	if n, reader = finish(f, s, steps[1:3], follower, names); n == 1 {
		sum.Run(s)
	}
	return len(steps), reader
}

// readBy returns what reads the sum next, which is the first of the steps behind, or what
// follows them, and that step, or nil.
func readBy(s *State, behind []Step, follower *Step) (*device.Products, *Step) {
	if len(behind) > 0 {
		follower = &behind[0]
	}
	return follower.reads(s)
}

// join is Run of a step that adds an output to the stream, and what the layer's input gives, if there is one, and returns for which step
// something is left.
func (t *Step) join(f device.Fuser, s *State, behind []Step, follower *Step) *Step {
	if t.behind == nil {
		return t.joins.join(f, s, Out, behind, follower)
	}
	t.joins.join(f, s, Out, nil, nil)
	return t.behind.join(f, s, behind, follower)
}

// join adds a sublayer's output, in a slot, to the stream, and returns for which step something is left.
func (o *output) join(f device.Fuser, s *State, from Slot, behind []Step, follower *Step) *Step {
	next, reader := readBy(s, behind, follower)
	if !o.joins(f, s, device.Sum{Y: s.At(from), Reader: next}) {
		o.addOf(s, from)
		return nil
	}
	return reader
}

// joins does what add does of what a sum says, on a device that can.
func (o *output) joins(f device.Fuser, s *State, p device.Sum) bool {
	return !o.sums && f.Sum(o.sum(s, p))
}

// sum is what a sum says, and what the output does with it, as add does if the norm is not of the stream.
func (o *output) sum(s *State, p device.Sum) device.Sum {
	p.X, p.Norm, p.Scale, p.Shift, p.Times, p.Then = s.At(Residual), o.norm.Norm, o.norm.W, o.norm.Bias, o.residual, o.then
	return p
}

// ends has try, a device, multiply what the step has computed by its only linear, and have that join the stream by the step behind: with the
// product, or, if try refuses that, by itself. It returns how many steps have been done, and for which something is left.
func (t *Step) ends(s *State, behind []Step, follower *Step, try func(last device.Products) bool) (n int, reader *Step) {
	p, n, reader := t.last(s, behind, follower)
	if n == 1 {
		whole, to := p, (*Step)(nil)
		if whole.Joins, to = behind[0].normedSum(s, behind[1:], follower); to != nil && try(whole) {
			return 2, to
		}
	}
	if n > 0 && try(p) {
		return n, reader
	}
	return 0, nil
}

// normedSum returns the sum that the step is, and who reads it, if that is all it is, of an output that is normalized.
func (t *Step) normedSum(s *State, behind []Step, follower *Step) (p *device.Sum, reader *Step) {
	if t.joins.sums || t.joins.norm.none() || t.joins.apart {
		return nil, nil
	}
	next, reader := readBy(s, behind, follower)
	sum := t.joins.sum(s, device.Sum{Y: s.At(Out), Reader: next})
	return &sum, reader
}

// reads returns the products of the stream that a step is, which may be nil, and the step; or nothing.
func (t *Step) reads(s *State) (*device.Products, *Step) {
	if t == nil {
		return nil, nil
	}
	p, ok := t.normed(s)
	if !ok {
		return nil, nil
	}
	return &p, t
}

// normed returns the step's norm, or none, of the stream, and its products as one; it is not ok if the step is not
// that, or linears are not of codes.
func (t *Step) normed(s *State) (p device.Products, ok bool) {
	if t.in == nil || len(t.Sites) != 1 {
		return p, false
	}
	p = device.Products{X: s.At(Residual), Norm: t.in.norm.Norm, Scale: t.in.norm.W, Shift: t.in.norm.Bias}
	p.List, ok = t.Sites[0].products(s)
	return p, ok
}

// last returns the product of a step's only linear, which is an output that the step behind adds to the stream, and how many steps that
// is: two, if it is added as it is, and so with the product, for whoever reads the sum next, which is returned, too; or 0 if the step is
// not that.
func (t *Step) last(s *State, behind []Step, follower *Step) (p device.Products, n int, reader *Step) {
	if len(behind) == 0 || behind[0].joins == nil || len(t.Sites) != 1 || !slices.Equal(t.Sites[0].Writes, []Slot{Out}) {
		return p, 0, nil
	}
	list, ok := t.Sites[0].products(s)
	if !ok {
		return p, 0, nil
	}
	p = device.Products{X: t.Sites[0].Input(s), List: list}
	if !behind[0].sums() {
		return p, 1, nil
	}
	p.Then, p.List[0].Y = device.Add, s.At(Residual)
	p.Reader, reader = readBy(s, behind[1:], follower)
	return p, 2, reader
}

// sums reports whether the step adds a product to the stream as it is.
func (t *Step) sums() bool { return t.joins != nil && t.joins.plain() && t.behind == nil }

// products lists a site's products and where they go.
func (t *Site) products(s *State) (list []device.Product, ok bool) {
	if t.Routed || len(t.Writes) != len(t.Linears) {
		return nil, false
	}
	for i, l := range t.Linears {
		p, ok := l.product(t.output(s, i))
		if !ok {
			return nil, false
		}
		list = append(list, p)
	}
	return list, true
}

// together computes a site's products on a device that makes such of one x at once, and reports whether it has.
func (t *Site) together(s *State, x tensor.Tensor) bool {
	f, ok := s.Dev.(device.Fuser)
	if !ok || s.apart || len(t.Writes) < 2 {
		return false
	}
	list, ok := t.products(s)
	return ok && f.Products(device.Products{X: x, List: list})
}

// product returns a linear's product into y, if its weight is of codes.
func (l *Linear) product(y tensor.Tensor) (p device.Product, ok bool) {
	q, ok := l.W.(Quantized)
	return device.Product{Y: y, W: q.Matrix, Bias: l.Bias}, ok
}
