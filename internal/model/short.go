package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// short makes gated convolutions (arch.Short): the norm, which all first matrices read, what goes from position to
// position, which the last one reads, and the sum.
func (b *builder) short(m *Module) {
	n := b.Spec.Names
	in, out := b.input(m, NormIn), b.output(m, NormOut)
	c := &short{ShortConv: device.ShortConv{Kernel: b.Spec.Short.Kernel}, layer: b.Spec.Kept(m.Layer)}
	c.Conv = b.own(m, b.numbers(m.Vectors[0]))
	if b.Spec.Short.Bias {
		c.Bias = b.own(m, b.numbers(m.Vectors[1]))
	}
	first := []*Linear{b.linear(m, n.ShortB), b.linear(m, n.ShortC), b.linear(m, n.ShortX)}
	read := in.step(Site{Reads: Normed, Linears: first, Writes: []Slot{ShortB, ShortC, ShortX}})
	mix := Step{Run: c.run, Back: c.back, Sites: []Site{{Reads: ShortOut, Linears: []*Linear{b.linear(m, n.ShortO)}, Writes: []Slot{Out}, Adds: out.plain()}}}
	m.Steps, m.Chained = []Step{read, mix, out.step()}, true
}

// short is what gated convolutions have beside their linears.
type short struct {
	device.ShortConv
	layer int // among those that have a state
}

func (c *short) run(s *State) {
	s.Dev.ShortConv(s.At(ShortOut), s.At(ShortB), s.At(ShortC), s.At(ShortX), c.ShortConv, s.cache.recurrent(c.layer).Inputs, s.Batch)
}

// back takes the rows for whole sequences.
func (c *short) back(s, g *State, _ []tensor.Tensor) {
	d, dy := backward(g), g.At(ShortOut)
	room := d.Alloc(tensor.F32, dy.Rows, dy.Cols)
	defer d.Free(room)
	d.ShortConvBack(g.At(ShortB), g.At(ShortC), g.At(ShortX), room, dy, s.At(ShortB), s.At(ShortC), s.At(ShortX), c.ShortConv, s.Batch)
}
