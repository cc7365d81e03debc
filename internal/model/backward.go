package model

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// backward returns the device of a state as one that can run backwards.
func backward(g *State) device.Backward { return g.Dev.(device.Backward) }

// CanRunBack reports whether every step of the module knows its backward pass,
// and the device has its operations.
func (m *Module) CanRunBack() bool {
	_, ok := m.dev.(device.Backward)
	for _, t := range m.Steps {
		ok = ok && t.Back != nil
	}
	return ok
}

// Backward runs the module on s, as Forward does, and then back: g's stream, the
// gradient of the stream behind the module (none behind the head), becomes that
// of the stream in front of it. loss, if not nil, is called in between, and may
// set gradients, the head's of the logits, from what s holds. Weights must be dense.
// The choice of experts, and their weights, are taken as given.
func (m *Module) Backward(s, g *State, loss func()) { m.BackwardThrough(s, g, loss, PassBack) }

// Through passes linears that read the same on the way back: it adds Σ dy·W to dx. x is
// what they have read, dys the gradients of their products, F32, whose dyᵀ·x are those
// of their weights [out, in], which are not used any more in this pass. A linear that a
// later step multiplies is passed by that.
type Through func(d device.Backward, list []*Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor)

// PassBack does no more than that.
func PassBack(d device.Backward, list []*Linear, dx tensor.Tensor, dys []tensor.Tensor, _ tensor.Tensor) {
	for i, l := range list {
		d.MatMulBack(dx, dys[i], l.W.(Dense).Tensor)
	}
}

// BackwardThrough is Backward with another way through linears.
func (m *Module) BackwardThrough(s, g *State, loss func(), through Through) {
	k := m.ForwardKept(s)
	if loss != nil {
		loss()
	}
	m.BackwardKept(s, g, k, through)
}

// Kept is what the way back through a module needs beside a state: what its steps have
// overwritten there, the slots of Keep first, and then what linears of the step have read, where a later step
// has others read something else there.
type Kept [][]tensor.Tensor

// shared lists the slots that linears of step i read, and that a later step's read, too, as where attention and MLP
// have norms of their own of one stream.
func (m *Module) shared(i int) (list []Slot) {
	for _, site := range m.Steps[i].Sites {
		for _, later := range m.Steps[i+1:] {
			if !slices.Contains(list, site.Reads) && slices.ContainsFunc(later.Sites, func(t Site) bool { return t.Reads == site.Reads }) {
				list = append(list, site.Reads)
			}
		}
	}
	return list
}

// ForwardKept is Forward for a way back, on the same state, that may come later.
func (m *Module) ForwardKept(s *State) Kept {
	s.apart = true
	defer func() { s.apart = false }()
	kept := make(Kept, len(m.Steps))
	for i := range m.Steps {
		t := &m.Steps[i]
		for _, slot := range t.Keep {
			kept[i] = append(kept[i], clone(s.Dev, s.At(slot)))
		}
		t.Run(s)
		for _, slot := range m.shared(i) {
			kept[i] = append(kept[i], clone(s.Dev, s.At(slot)))
		}
		t.Multiply(s)
	}
	return kept
}

// BackwardKept is the way back of BackwardThrough. It frees what was kept.
func (m *Module) BackwardKept(s, g *State, kept Kept, through Through) {
	for slot := Residual + 1; slot < slots; slot++ {
		if t := g.At(slot); !t.Nil() && m.passes(slot, len(m.Steps)) && !(slot == Logits && m.Kind == Head) {
			g.Dev.Clear(t)
		}
	}
	for i := len(m.Steps) - 1; i >= 0; i-- {
		t := &m.Steps[i]
		for k, slot := range m.shared(i) {
			s.Dev.Copy(s.At(slot), kept[i][len(t.Keep)+k])
		}
		t.multiplyBack(s, g, through)
		for _, site := range t.Sites { // what the slots held before the products has no gradient
			for _, slot := range site.Writes {
				m.clear(g, slot, i)
			}
		}
		t.Back(s, g, kept[i][:len(t.Keep)])
		for _, site := range t.Sites {
			if !slices.Contains(t.Keep, site.Reads) { // or Back has replaced it
				m.clear(g, site.Reads, i)
			}
		}
		for _, k := range kept[i] {
			s.Dev.Free(k)
		}
	}
}

// passes reports whether the first n steps may have gradients of a slot. In a chain
// only what linears read and write has.
func (m *Module) passes(slot Slot, n int) bool {
	for _, t := range m.Steps[:n] {
		for _, site := range t.Sites {
			if site.Reads == slot || slices.Contains(site.Writes, slot) {
				return true
			}
		}
	}
	return !m.Chained
}

// clear clears a gradient that step number i is done with, if those before it have one
// of the same slot.
func (m *Module) clear(g *State, slot Slot, i int) {
	if m.passes(slot, i) {
		g.Dev.Clear(g.At(slot))
	}
}

// multiplyBack turns the gradients of what the step's linears write into those of
// what they read, which it adds there.
func (t *Step) multiplyBack(s, g *State, through Through) {
	for i := range t.Sites {
		site := &t.Sites[i]
		var dys []tensor.Tensor
		for k := range site.Writes {
			dys = append(dys, site.of(site.output(g, k), s))
		}
		if len(dys) > 0 {
			through(backward(g), site.Linears[:len(dys)], site.of(site.Input(g), s), dys, site.In(s))
		}
	}
}

func clone(d device.Device, t tensor.Tensor) tensor.Tensor {
	c := d.Alloc(t.Type, t.Rows, t.Cols)
	d.Copy(c, t)
	return c
}
