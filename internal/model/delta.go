package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// delta makes linear attention (arch.Delta): the norm, which all of its matrices read, what goes from
// position to position, normalized and gated, which o reads, and the sum.
func (b *builder) delta(m *Module) {
	n := b.Spec.Names
	in, out := b.input(m, NormIn), b.output(m, NormOut)
	d := &delta{GatedDelta: deltaOf(b.Spec), norm: b.norm(m, NormDelta), layer: b.Spec.Kept(m.Layer)}
	for i, t := range []*tensor.Tensor{&d.Conv, &d.Decay, &d.Bias} {
		*t = b.own(m, b.numbers(m.Vectors[i]))
	}
	q, k, v, z, o := b.linear(m, n.DeltaQ), b.linear(m, n.DeltaK), b.linear(m, n.DeltaV), b.linear(m, n.DeltaZ), b.linear(m, n.DeltaO)
	d.a, d.b = b.linear(m, n.DeltaA), b.linear(m, n.DeltaB)
	d.rates = b.joint(m, d.a, d.b)
	m.fixed = append(m.fixed, d.a, d.b)
	read := in.step(Site{Reads: Normed, Linears: []*Linear{q, k, v, z}, Writes: []Slot{DeltaQuery, DeltaKey, DeltaValue, DeltaGate}})
	read.norm = Norm{} // what is normalized is read once more: not with the products alone
	mix := Step{Run: d.run, Back: d.back, Sites: []Site{{Reads: DeltaOut, Linears: []*Linear{o}, Writes: []Slot{Out}, Adds: out.plain()}}}
	m.Steps = []Step{read, mix, out.step()}
}

// delta is what linear attention has beside the linears that are quantized.
type delta struct {
	device.GatedDelta
	norm  Norm // of heads
	a, b  *Linear
	rates tensor.Tensor // both matrices, or none
	layer int           // among those that have a state
}

// joint has two matrices lie one below the other, if both are dense, of one type, and returns them.
func (b *builder) joint(m *Module, x, y *Linear) tensor.Tensor {
	p, ok := x.W.(Dense)
	q, too := y.W.(Dense)
	if b.err != nil || !ok || !too || p.Type != q.Type {
		return tensor.Tensor{}
	}
	t := b.own(m, b.dev.Alloc(p.Type, p.Rows+q.Rows, p.Cols))
	for _, part := range []struct {
		l  *Linear
		to tensor.Tensor
	}{{x, t.Slice(0, p.Rows)}, {y, t.Slice(p.Rows, t.Rows)}} {
		b.dev.Copy(part.to, part.l.W.(Dense).Tensor)
		part.l.Borrow(b.dev, Dense{part.to})
		b.dense[m.table(part.l)] = part.to
	}
	return t
}

// ratesOf returns what a slot has of decay and of β.
func ratesOf(s *State) (decay, beta tensor.Tensor) {
	t := s.At(DeltaRates)
	return t.Columns(0, t.Cols/2), t.Columns(t.Cols/2, t.Cols)
}

func (d *delta) run(s *State) {
	decay, beta := ratesOf(s)
	if !d.rates.Nil() {
		s.Dev.MatMul(s.At(DeltaRates), s.At(Normed), d.rates, tensor.Tensor{})
	} else {
		d.a.W.mul(s.Dev, decay, s.At(Normed), d.a.Bias)
		d.b.W.mul(s.Dev, beta, s.At(Normed), d.b.Bias)
	}
	s.Dev.GatedDelta(s.At(DeltaMixed), s.At(DeltaColumns), s.At(DeltaQuery), s.At(DeltaKey), s.At(DeltaValue), decay, beta, d.GatedDelta, s.cache.delta(d.layer), s.Batch)
	s.Dev.HeadNormGated(s.At(DeltaOut), s.At(DeltaMixed), s.At(DeltaGate), d.norm.W, d.norm.Norm)
}

// heads has a row for each head of x.
func (d *delta) heads(x tensor.Tensor) tensor.Tensor {
	return x.Reshape(x.Rows*d.ValueHeads, d.ValueDim)
}

// back takes the rows for whole sequences.
func (d *delta) back(s, g *State, _ []tensor.Tensor) {
	dev, y := backward(g), s.At(DeltaMixed)
	normed, dy := dev.Alloc(dev.Activation(), y.Rows, y.Cols), dev.Alloc(tensor.F32, y.Rows, y.Cols)
	defer func() { dev.Free(normed); dev.Free(dy) }()
	dev.Norm(d.heads(normed), d.heads(y), d.norm.W, d.norm.Bias, d.norm.Norm)
	dev.ActMulBack(g.At(DeltaGate), dy, g.At(DeltaOut), s.At(DeltaGate), normed, device.SiLU)
	dev.NormBack(d.heads(g.At(DeltaMixed)), d.heads(dy), d.heads(y), d.norm.W, d.norm.Norm)
	decay, beta := ratesOf(s)
	ddecay, dbeta := ratesOf(g)
	dev.GatedDeltaBack(g.At(DeltaQuery), g.At(DeltaKey), g.At(DeltaValue), ddecay, dbeta, g.At(DeltaColumns), g.At(DeltaMixed),
		s.At(DeltaColumns), s.At(DeltaQuery), s.At(DeltaKey), s.At(DeltaValue), decay, beta, d.GatedDelta, s.Batch)
	dev.MatMulBack(g.At(Normed), ddecay, d.a.W.(Dense).Tensor)
	dev.MatMulBack(g.At(Normed), dbeta, d.b.W.(Dense).Tensor)
}

// BackBytes is what the way back through linear attention takes beside gradients, of so many runs.
func BackBytes(d device.Device, spec arch.Spec, runs, span int) int {
	b, ok := d.(device.Backward)
	if !ok || !spec.Recurrent() {
		return 0
	}
	g := deltaOf(spec)
	return runs*span*g.Values()*(d.Activation().Size()+tensor.F32.Size()) + b.GatedDeltaBackBytes(g, runs, span)
}

// states makes what the layers of a cache that have linear attention know of sequences.
func (c *Cache) states(spec arch.Spec) {
	if c.Recurrent == 0 {
		return
	}
	shape, rows := deltaOf(spec), c.Recurrent*c.Sequences
	c.state.State = c.dev.Alloc(tensor.F32, rows, shape.StateSize())
	if shape.Kernel > 1 {
		c.state.Inputs = c.dev.Alloc(c.dev.Activation(), rows, (shape.Kernel-1)*shape.Columns())
	}
}

// delta returns what a layer knows, its number being one of those with linear attention.
func (c *Cache) delta(layer int) device.DeltaState {
	i, s := layer%c.Recurrent, c.state
	s.State = s.State.Slice(i*c.Sequences, (i+1)*c.Sequences)
	if !s.Inputs.Nil() {
		s.Inputs = s.Inputs.Slice(i*c.Sequences, (i+1)*c.Sequences)
	}
	return s
}

// StateBytes is what the states of a sequence take, in all layers of the cache that have linear attention.
func (c *Cache) StateBytes() int {
	return (c.state.State.Bytes() + c.state.Inputs.Bytes()) / max(c.Sequences, 1)
}

// stateBytes returns the memory of states.
func (z CacheSize) stateBytes(d device.Device, spec arch.Spec) int {
	shape := deltaOf(spec)
	return z.Recurrent * z.Sequences * (4*shape.StateSize() + d.Activation().Size()*(shape.Kernel-1)*shape.Columns())
}

func deltaOf(spec arch.Spec) device.GatedDelta {
	d := spec.Delta
	return device.GatedDelta{KeyHeads: d.KeyHeads, ValueHeads: d.ValueHeads, KeyDim: d.KeyDim, ValueDim: d.ValueDim, Kernel: d.Kernel}
}
