package model

import (
	"slices"

	"exl2/internal/tensor"
)

// besideAttention makes attention with linear attention beside it (arch.Spec.Beside): both read one norm, and what
// both give is added to the stream.
func (b *builder) besideAttention(m *Module) {
	read, mix, sum := b.attentionSteps(m)
	d, reads, o := b.deltaParts(m)
	first, scale := &read.Sites[0], orOne(b.Spec.Residual)*d.weight()
	first.Linears, first.Writes = append(first.Linears, reads...), slices.Concat(first.Writes, deltaWrites)
	read.in = nil // as of linear attention alone
	attend, attendBack, add, addBack := mix.Run, mix.Back, sum.Run, sum.Back
	mix.Run = func(s *State) { attend(s); d.run(s) }
	mix.Back = func(s, g *State, kept []tensor.Tensor) { attendBack(s, g, kept); d.back(s, g, nil) }
	mix.mixes, mix.Sites[0].Adds = nil, false
	mix.Sites = append(mix.Sites, Site{Reads: DeltaOut, Linears: []*Linear{o}, Writes: []Slot{DeltaResult}})
	sum.joins = nil
	sum.Run = func(s *State) {
		s.Dev.AddScaled(s.At(Residual), s.At(DeltaResult), scale)
		add(s)
	}
	sum.Back = func(s, g *State, kept []tensor.Tensor) {
		addBack(s, g, kept)
		g.Dev.AddScaled(g.At(DeltaResult), g.At(Residual), scale)
	}
	m.Steps = []Step{read, mix, sum}
}
