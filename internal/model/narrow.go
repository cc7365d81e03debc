package model

import "exl2/internal/tensor"

// narrowValues is attention whose values are narrower than keys, as caches and devices do not have
// them: heads get zeros behind their values, and what comes of those is left out.
type narrowValues struct {
	*attention
	value int // the width of a head's values
}

// widen has the steps of attention, which has no norms of heads, go through that.
func (a *attention) widen(value int, read, mix *Step) {
	n := narrowValues{a, value}
	read.Sites[0].Writes = []Slot{Query, Key, RawValue}
	mix.Sites[0].Reads, mix.Run, mix.Back, mix.mixes = Narrow, n.mix, n.mixBack, nil
}

func (n narrowValues) mix(s *State) {
	n.each(s, s.Dev.Copy)
	n.attention.mix(s)
	s.Dev.Copy(n.byHead(s, Narrow, n.value), n.byHead(s, Mixed, n.attend.HeadDim))
}

// mixBack takes the rows for whole sequences.
func (n narrowValues) mixBack(s, g *State, kept []tensor.Tensor) {
	for _, slot := range []Slot{Mixed, Value} { // which no linear reads or writes
		g.Dev.Clear(g.At(slot))
	}
	g.Dev.Copy(n.byHead(g, Mixed, n.attend.HeadDim), n.byHead(g, Narrow, n.value))
	n.attention.mixBack(s, g, kept)
	n.each(g, func(value, raw tensor.Tensor) { g.Dev.AddScaled(raw, value, 1) })
}

// each calls f for every head's values, where the cache will have them and as they are.
func (n narrowValues) each(s *State, f func(value, raw tensor.Tensor)) {
	for h := range n.attend.KVHeads {
		f(s.At(Value).Columns(h*n.attend.HeadDim, h*n.attend.HeadDim+n.value), s.At(RawValue).Columns(h*n.value, (h+1)*n.value))
	}
}

// byHead returns the values of a slot's heads, of so many columns each, a row a head.
func (n narrowValues) byHead(s *State, slot Slot, dim int) tensor.Tensor {
	t := s.At(slot)
	return t.Reshape(t.Rows*n.attend.Heads, dim).Columns(0, n.value)
}
