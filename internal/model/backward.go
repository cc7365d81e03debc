package model

import (
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

// A Watch sees a linear with the input and the output's gradient of a pass.
type Watch func(l *Linear, x, dy tensor.Tensor)

// Backward runs the module on s, as Forward does, and then back: g's stream, the
// gradient of the stream behind the module (none behind the head), becomes that
// of the stream in front of it. loss, if not nil, is called in between, and may
// set gradients, the head's of the logits, from what s holds. watch, which may be nil, sees every linear,
// the last first. Weights must be dense.
func (m *Module) Backward(s, g *State, loss func(), watch Watch) {
	for slot := Stream + 1; slot < slots; slot++ {
		g.Dev.Clear(g.At(slot))
	}
	kept := make([][]tensor.Tensor, len(m.Steps))
	for i := range m.Steps {
		t := &m.Steps[i]
		for _, slot := range t.Keep {
			kept[i] = append(kept[i], clone(s.Dev, s.At(slot)))
		}
		t.Run(s)
		t.Multiply(s)
	}
	if loss != nil {
		loss()
	}
	for i := len(m.Steps) - 1; i >= 0; i-- {
		t := &m.Steps[i]
		t.multiplyBack(s, g, watch)
		t.Back(s, g, kept[i])
		for _, k := range kept[i] {
			s.Dev.Free(k)
		}
	}
}

// multiplyBack adds the gradients of what the step's linears read.
func (t *Step) multiplyBack(s, g *State, watch Watch) {
	for _, site := range t.Sites {
		for k, l := range site.Linears {
			dy := g.At(site.Writes[k])
			if watch != nil {
				watch(l, s.At(site.Reads), dy)
			}
			backward(g).MatMulBack(g.At(site.Reads), dy, l.W.(Dense).Tensor)
		}
	}
}

func clone(d device.Device, t tensor.Tensor) tensor.Tensor {
	c := d.Alloc(t.Type, t.Rows, t.Cols)
	d.Copy(c, t)
	return c
}
