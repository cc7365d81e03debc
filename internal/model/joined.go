package model

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Join returns the weights of a step's linears, one below the other, for Onward, and a
// function that frees what that takes; absent where a device has no use for them, or a step is
// not of linears that read the same and are, or become, dense fp16.
func (t *Step) Join(d device.Device) (w tensor.Tensor, free func()) {
	none := func() {}
	if _, ok := d.(device.Joiner); !ok || len(t.Sites) != 1 || t.Sites[0].Routed || len(t.Sites[0].Writes) != len(t.Sites[0].Linears) {
		return w, none
	}
	rows, linears := 0, t.Sites[0].Linears
	for _, l := range linears {
		if !l.halves() {
			return w, none
		}
		rows += l.Out
	}
	if dense, ok := linears[0].W.(Dense); ok && len(linears) == 1 {
		return dense.Tensor, none
	}
	w = device.Blank(d, tensor.F16, rows, linears[0].In)
	rows = 0
	for _, l := range linears {
		l.copyHalves(d, w.Slice(rows, rows+l.Out))
		rows += l.Out
	}
	return w, func() { d.Free(w) }
}

// halves reports whether a linear multiplies by W in fp16.
func (l *Linear) halves() bool {
	switch w := l.W.(type) {
	case Dense:
		return w.Type == tensor.F16
	case Unpacked:
		return true
	}
	return false
}

// copyHalves puts what a linear that halves multiplies by in w.
func (l *Linear) copyHalves(d device.Device, w tensor.Tensor) {
	switch v := l.W.(type) {
	case Dense:
		d.Copy(w, v.Tensor)
	case Unpacked:
		d.Decode(w, v.Matrix)
	}
}

// Onward multiplies what step n has computed, and runs the step after it, at once where the
// device does so by w, which Join of step n has made. Before the latter computes ready is called. What
// linears of step n write is then the device's affair.
func (m *Module) Onward(s *State, n int, w tensor.Tensor, ready func()) {
	now, next := &m.Steps[n], &m.Steps[n+1]
	j, ok := s.Dev.(device.Joiner)
	if p, joins := now.joined(s, next); ok && joins && !w.Nil() {
		ready()
		switch p.Then {
		case device.Gate:
			p.List[0].Y = next.unit.of(s.At(Acted))
			p.List[1].Y = tensor.Tensor{}
		case device.Add:
			p.List[0].Y = s.At(Residual)
		}
		if j.Joined(p, w) {
			if p.Then == device.Turn {
				a := next.mixes
				s.Dev.Attend(a.of(s, Mixed), a.of(s, Query), p.Turn.Cache, p.Turn.Layer, a.attend, s.Batch)
			}
			return
		}
		ready = func() {}
	}
	now.Multiply(s)
	ready()
	next.Run(s)
}

// joined returns the products of a step as those that the next one goes with, if it is
// rotation and attention, an MLP's unit or a sum.
func (t *Step) joined(s *State, next *Step) (p device.Products, ok bool) {
	if len(t.Sites) != 1 || t.Sites[0].Routed {
		return p, false
	}
	site := &t.Sites[0]
	p.X = site.Input(s)
	switch {
	case next.mixes != nil && next.mixes.turns() && s.Batch.Span > 1 && slices.Equal(site.Writes, []Slot{Query, Key, Value}):
		p.Then, p.Turn = device.Turn, next.mixes.turning(s)
	case next.unit != nil && next.unit.gates() && slices.Equal(site.Writes, []Slot{Gate, Up}):
		p.Then, p.Act = device.Gate, next.unit.act
	case next.sums() && site.Adds && slices.Equal(site.Writes, []Slot{Out}):
		p.Then = device.Add
	default:
		return p, false
	}
	for i, l := range site.Linears {
		p.List = append(p.List, device.Product{Y: site.output(s, i), Bias: l.Bias})
	}
	return p, true
}
