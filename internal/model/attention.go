package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// attention makes the first half of a block: the norm, which q, k and v read,
// the mixing of positions, which o reads, and the sum.
func (b *builder) attention(m *Module) {
	a := &attention{in: b.norm(m, NormIn), query: b.norm(m, NormQuery), key: b.norm(m, NormKey), attend: b.attend(m.Layer), layer: m.Layer}
	a.loadRope(b, m)
	q, k, v, o := b.linear(m, arch.Q), b.linear(m, arch.K), b.linear(m, arch.V), b.linear(m, arch.O)
	out := b.output(m)
	m.Steps = []Step{
		{Run: a.norm, Back: a.normBack, Keep: []Slot{Stream}, Sites: []Site{{Reads: Normed, Linears: []*Linear{q, k, v}, Writes: []Slot{Query, Key, Value}}}},
		{Run: a.mix, Back: a.mixBack, Keep: a.keeps(), Sites: []Site{{Reads: Mixed, Linears: []*Linear{o}, Writes: []Slot{Out}, Adds: out.plain()}}},
		{Run: out.add, Back: out.addBack, Keep: out.keeps()},
	}
}

// attention is what an attention module has beside its linears.
type attention struct {
	in         Norm
	query, key Norm // of heads, or none
	layer      int
	freqs      tensor.Tensor
	rope       device.Rope
	attend     device.Attend
}

func (b *builder) attend(layer int) device.Attend {
	s, a := b.Spec, b.Spec.Attn
	out := device.Attend{Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Scale: a.Scale, Softcap: a.Softcap}
	if s.Window != nil {
		out.Window = s.Window(layer)
	}
	return out
}

func (a *attention) loadRope(b *builder, m *Module) {
	if b.Spec.Rope == nil {
		return
	}
	r := b.Spec.Rope(m.Layer)
	freqs, scale := r.Frequencies()
	a.rope = device.Rope{Dims: r.Dims, Interleaved: r.Interleaved, Scale: scale}
	a.freqs = b.own(m, b.upload(tensor.F32, 1, len(freqs), tensor.BytesOf(freqs)))
}

func (a *attention) norm(s *State) { a.in.apply(s, Normed, Stream) }

func (a *attention) normBack(s, g *State, kept []tensor.Tensor) {
	a.in.back(g, Normed, Stream, kept[0])
}

func (a *attention) mix(s *State) {
	d, layer := s.Dev, s.layer(a.layer)
	if !a.query.none() {
		d.HeadNorm(s.At(Query), a.query.W, a.attend.Heads, a.query.Norm)
		d.HeadNorm(s.At(Key), a.key.W, a.attend.KVHeads, a.key.Norm)
	}
	if a.rope.Dims > 0 {
		d.Rope(s.At(Query), s.At(Key), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	d.Store(s.Cache, layer, s.At(Key), s.At(Value), s.Batch)
	d.Attend(s.At(Mixed), s.At(Query), s.Cache, layer, a.attend, s.Batch)
}

// keeps lists what mixBack needs that mix overwrites.
func (a *attention) keeps() []Slot {
	if a.query.none() {
		return nil
	}
	return []Slot{Query, Key}
}

// mixBack takes the rows for whole sequences.
func (a *attention) mixBack(s, g *State, kept []tensor.Tensor) {
	d := backward(g)
	d.AttendBack(g.At(Query), g.At(Key), g.At(Value), g.At(Mixed), s.At(Query), s.At(Key), s.At(Value), a.attend, s.Batch)
	if a.rope.Dims > 0 {
		d.RopeBack(g.At(Query), g.At(Key), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if !a.query.none() {
		a.query.backInPlace(g, Query, kept[0], a.attend.Heads)
		a.key.backInPlace(g, Key, kept[1], a.attend.KVHeads)
	}
}
