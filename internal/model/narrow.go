package model

import "exl2/internal/tensor"

// padded is attention whose layer has fewer heads of keys than others, or whose values are narrower
// than keys: heads are copied to where the cache has them, each as often as it stands for, values with
// zeros behind them, and what comes of those is left out.
type padded struct {
	*attention
	own, value int // heads of keys of the layer, and the width of their values
}

// pads reports whether a layer needs that.
func (b *builder) pads(layer int) bool {
	return b.Spec.KeyHeads(layer) != b.Spec.AttnOf(layer).KVHeads || b.Spec.ValueDim() != b.Spec.Attn.HeadDim
}

// pad has the steps of attention, which has no norms of heads, go through it.
func (b *builder) pad(m *Module, a *attention, read, mix *Step) {
	p := padded{a, b.Spec.KeyHeads(m.Layer), b.Spec.ValueDim()}
	read.Sites[0].Writes = []Slot{Query, RawKey, RawValue}
	mix.Sites[0].Reads, mix.Run, mix.Back, mix.mixes = Narrow, p.mix, p.mixBack, nil
}

func (p padded) mix(s *State) {
	p.each(s, func(key, rawKey, value, rawValue tensor.Tensor) {
		s.Dev.Copy(key, rawKey)
		s.Dev.Copy(value, rawValue)
	})
	p.attention.mix(s)
	s.Dev.Copy(p.byHead(s, Narrow, p.value), p.byHead(s, Mixed, p.attend.HeadDim))
}

// mixBack takes the rows for whole sequences.
func (p padded) mixBack(s, g *State, kept []tensor.Tensor) {
	for _, slot := range []Slot{Mixed, Key, Value} { // which no linear reads or writes
		g.Dev.Clear(g.At(slot))
	}
	g.Dev.Copy(p.byHead(g, Mixed, p.attend.HeadDim), p.byHead(g, Narrow, p.value))
	p.attention.mixBack(s, g, kept)
	p.each(g, func(key, rawKey, value, rawValue tensor.Tensor) {
		g.Dev.AddScaled(rawKey, key, 1)
		g.Dev.AddScaled(rawValue, value, 1)
	})
}

// each calls f for every head of the cache, with its columns, and those of the layer's own head
// that it is a copy of.
func (p padded) each(s *State, f func(key, rawKey, value, rawValue tensor.Tensor)) {
	dim, times := p.attend.HeadDim, p.attend.KVHeads/p.own
	for h := range p.attend.KVHeads {
		own := h / times
		f(s.At(Key).Columns(h*dim, (h+1)*dim), s.At(RawKey).Columns(own*dim, (own+1)*dim),
			s.At(Value).Columns(h*dim, h*dim+p.value), s.At(RawValue).Columns(own*p.value, (own+1)*p.value))
	}
}

// byHead returns the values of a slot's heads, of so many columns each, a row a head.
func (p padded) byHead(s *State, slot Slot, dim int) tensor.Tensor {
	t := s.At(slot)
	return t.Reshape(t.Rows*p.attend.Heads, dim).Columns(0, p.value)
}
