package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// mlp makes the second half of a block: the norm, which gate and up read, the
// product of the two, which down reads, and the sum.
func (b *builder) mlp(m *Module) {
	p := &mlp{in: b.norm(m, NormIn), act: b.Spec.MLP.Act}
	gate, up, down := b.linear(m, arch.Gate), b.linear(m, arch.Up), b.linear(m, arch.Down)
	out := b.output(m)
	m.Steps = []Step{
		{Run: p.norm, Back: p.normBack, Keep: []Slot{Stream}, Sites: []Site{{Reads: Normed, Linears: []*Linear{gate, up}, Writes: []Slot{Gate, Up}}}},
		{Run: p.activate, Back: p.activateBack, Sites: []Site{{Reads: Acted, Linears: []*Linear{down}, Writes: []Slot{Out}, Adds: out.plain()}}},
		{Run: out.add, Back: out.addBack, Keep: out.keeps()},
	}
}

// mlp is what an MLP has beside its linears.
type mlp struct {
	in  Norm
	act device.Act
}

func (p *mlp) norm(s *State) { p.in.apply(s, Normed, Stream) }

func (p *mlp) normBack(s, g *State, kept []tensor.Tensor) { p.in.back(g, Normed, Stream, kept[0]) }

func (p *mlp) activate(s *State) { s.Dev.ActMul(s.At(Acted), s.At(Gate), s.At(Up), p.act) }

func (p *mlp) activateBack(s, g *State, _ []tensor.Tensor) {
	backward(g).ActMulBack(g.At(Gate), g.At(Up), g.At(Acted), s.At(Gate), s.At(Up), p.act)
}

// output is the last step of a half-block: its output, normalized or not, joins
// the stream.
type output struct {
	norm     Norm // or none
	residual float32
}

func (b *builder) output(m *Module) *output {
	return &output{norm: b.norm(m, NormOut), residual: orOne(b.Spec.Residual)}
}

// plain reports whether the product is added as it is.
func (o *output) plain() bool { return o.residual == 1 && o.norm.none() }

// keeps lists what addBack needs that add overwrites.
func (o *output) keeps() []Slot {
	if o.norm.none() {
		return nil
	}
	return []Slot{Out}
}

func (o *output) add(s *State) {
	if !o.norm.none() {
		o.norm.apply(s, Out, Out)
	}
	s.Dev.AddScaled(s.At(Stream), s.At(Out), o.residual)
}

func (o *output) addBack(_, g *State, kept []tensor.Tensor) {
	g.Dev.AddScaled(g.At(Out), g.At(Stream), o.residual)
	if !o.norm.none() {
		o.norm.backInPlace(g, Out, kept[0], 1)
	}
}
