package model

import (
	"exl2/internal/arch"
	"exl2/internal/tensor"
)

// gates are those of what attention gives.
type gates struct {
	*attention
	like arch.Attn // the layer has
}

// put has o read what attention gives behind its gates.
func (g gates) put(mix *Step) {
	mix.Sites[0].Reads, mix.Run, mix.Back, mix.mixes = Gated, g.mix, g.mixBack, nil
}

func (g gates) of(s *State) tensor.Tensor { return within(s.At(AttnGate), g.like.Gates()) }

func (g gates) mix(s *State) {
	reader := s.reader // of what is gated
	s.reader = nil
	g.attention.mix(s)
	y, x := g.attention.of(s, Gated), g.attention.of(s, Mixed)
	if g.like.Gate == arch.EachHeadOne {
		s.Dev.HeadGates(y, x, g.of(s), g.like.GateAct)
		return
	}
	s.actMul(y, g.of(s), x, g.like.GateAct, reader)
}

// mixBack takes the rows for whole sequences.
func (g gates) mixBack(s, to *State, kept []tensor.Tensor) {
	d, a := backward(to), g.attention
	d.Clear(to.At(Mixed)) // which no linear reads
	dx, dy, x := a.of(to, Mixed), a.of(to, Gated), a.of(s, Mixed)
	if g.like.Gate == arch.EachHeadOne {
		d.HeadGatesBack(dx, g.of(to), dy, x, g.of(s), g.like.GateAct)
	} else {
		d.ActMulBack(g.of(to), dx, dy, g.of(s), x, g.like.GateAct)
	}
	a.mixBack(s, to, kept)
}
