package model

import (
	"hash/fnv"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// attention makes the first half of a block: the norm, which q, k and v read,
// the mixing of positions, which o reads, and the sum.
func (b *builder) attention(m *Module) {
	if b.Spec.Recurs(m.Layer) {
		b.recurrent(m)
		return
	}
	if b.Spec.Latent.KVRank > 0 {
		b.latent(m)
		return
	}
	read, mix, add := b.attentionSteps(m)
	m.Steps, m.Chained = []Step{read, mix, add}, true
}

// attentionSteps returns the three steps of attention.
func (b *builder) attentionSteps(m *Module) (read, mix, add Step) {
	n := b.Spec.Names
	in, out := b.input(m, NormIn), b.output(m, NormOut)
	a := &attention{query: b.norm(m, NormQuery), key: b.norm(m, NormKey), late: b.Spec.Attn.QKNorm.AfterRope, clip: b.Spec.Attn.Clip, attend: b.attend(m), layer: b.Spec.Kept(m.Layer)}
	a.loadRope(b, m)
	q, k, v, o := b.linear(m, n.Q), b.linear(m, n.K), b.linear(m, n.V), b.linear(m, n.O)
	read = in.step(Site{Reads: Normed, Linears: []*Linear{q, k, v}, Writes: []Slot{Query, Key, Value}})
	mix = Step{Run: a.mix, Sites: []Site{{Reads: Mixed, Linears: []*Linear{o}, Writes: []Slot{Out}, Adds: out.plain()}}}
	mix.Back, mix.Keep, mix.mixes = a.mixBack, a.keeps(), a
	if b.Spec.Attn.Gated {
		read.Sites[0].Linears, read.Sites[0].Writes = append(read.Sites[0].Linears, b.linear(m, n.AttnGate)), append(read.Sites[0].Writes, AttnGate)
		a.gate(&mix)
	}
	return read, mix, out.step()
}

// gate has o read what attention gives behind its gate.
func (a *attention) gate(mix *Step) {
	mix.Sites[0].Reads, mix.mixes = Gated, nil
	mix.Run = func(s *State) {
		a.mix(s)
		s.Dev.ActMul(s.At(Gated), s.At(AttnGate), s.At(Mixed), device.Logistic)
	}
	mix.Back = func(s, g *State, kept []tensor.Tensor) {
		g.Dev.Clear(g.At(Mixed)) // which no linear reads
		backward(g).ActMulBack(g.At(AttnGate), g.At(Mixed), g.At(Gated), s.At(AttnGate), s.At(Mixed), device.Logistic)
		a.mixBack(s, g, kept)
	}
}

// input is the first step of a sublayer: the norm of the stream, or, without
// one, the stream itself.
type input struct{ norm Norm }

func (b *builder) input(m *Module, p Place) *input { return &input{b.norm(m, p)} }

func (i *input) step(sites ...Site) Step {
	return Step{Run: i.run, Back: i.back, Keep: []Slot{Stream}, Sites: sites, norm: i.norm}
}

func (i *input) run(s *State) { i.norm.apply(s, Normed, Stream) }

func (i *input) back(s, g *State, kept []tensor.Tensor) { i.norm.back(g, Normed, Stream, kept[0]) }

// attention is what an attention module has beside its linears.
type attention struct {
	query, key Norm // of heads, or none
	late       bool // norms of heads follow RoPE
	clip       float32
	layer      int
	freqs      tensor.Tensor
	which      uint64 // of all frequencies
	rope       device.Rope
	attend     device.Attend
}

func (b *builder) attend(m *Module) device.Attend {
	s, a := b.Spec, b.Spec.Attn
	out := device.Attend{Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Scale: a.Scale, Softcap: a.Softcap, Temperature: a.Temperature, TemperatureSpan: a.TemperatureSpan}
	if s.Window != nil {
		out.Window = s.Window(m.Layer)
	}
	if a.Sinks {
		out.Sinks = b.own(m, b.vector(s.Names.Layer(m.Layer, s.Names.Sinks), a.Heads))
	}
	return out
}

func (a *attention) loadRope(b *builder, m *Module) {
	if b.Spec.Rope == nil {
		return
	}
	r := b.Spec.Rope(m.Layer)
	if r.Dims == 0 {
		return
	}
	freqs, scale := r.Frequencies()
	a.rope = device.Rope{Dims: r.Dims, Interleaved: r.Interleaved, Scale: scale}
	a.freqs = b.own(m, b.upload(tensor.F32, 1, len(freqs), tensor.BytesOf(freqs)))
	h := fnv.New64a()
	h.Write(tensor.BytesOf(freqs))
	a.which = h.Sum64() | 1
}

// mixing returns what a device does between the products, with norms of heads that it
// can do there.
func (a *attention) mixing(s *State) device.Mixing {
	m := device.Mixing{Freqs: a.freqs, Cache: s.Cache, Layer: s.layer(a.layer), Rope: a.rope, Attend: a.attend, Batch: s.Batch}
	if a.together() {
		m.Heads = device.Heads{Norm: a.query.Norm, Q: a.query.W, K: a.key.W}
	}
	return m
}

// fused does the products of p and mixes them on a device that can.
func (a *attention) fused(f device.Fuser, s *State, p device.Products) bool {
	if a.late || a.clip > 0 || !a.together() && !(a.query.none() && a.key.none()) {
		return false
	}
	m := a.mixing(s)
	m.Attend.Reader = s.reader
	return f.Attention(s.At(Mixed), p, m)
}

func (a *attention) mix(s *State) {
	d, layer := s.Dev, s.layer(a.layer)
	if a.clip > 0 {
		for _, slot := range []Slot{Query, Key, Value} {
			d.Clip(s.At(slot), a.clip)
		}
	}
	if !a.late && !s.apart {
		m := a.mixing(s)
		if !a.together() {
			a.norms(s)
		}
		m.Attend.Reader = s.reader
		d.Mix(s.At(Mixed), s.At(Query), s.At(Key), s.At(Value), m.Freqs, m.Cache, m.Layer, m.Heads, m.Rope, m.Attend, m.Batch)
		return
	}
	if !a.late {
		a.norms(s)
	}
	if a.rope.Dims > 0 {
		d.Rope(s.At(Query), s.At(Key), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if a.late {
		a.norms(s)
	}
	d.Store(s.Cache, layer, s.At(Key), s.At(Value), s.Batch)
	d.Attend(s.At(Mixed), s.At(Query), s.Cache, layer, a.attend, s.Batch)
}

// turns reports whether attention only rotates and stores before it attends.
func (a *attention) turns() bool {
	return a.clip == 0 && a.query.none() && a.key.none() && a.rope.Dims > 0
}

// turning says where queries and keys turn, and keys and values go, in a pass.
func (a *attention) turning(s *State) device.Turning {
	return device.Turning{Freqs: a.freqs, Which: a.which, HeadDim: a.attend.HeadDim, Rope: a.rope, Cache: s.Cache, Layer: s.layer(a.layer), Batch: s.Batch}
}

func (a *attention) norms(s *State) {
	if q, k := a.query, a.key; a.together() {
		s.Dev.HeadNorms(s.At(Query), s.At(Key), q.W, k.W, q.Norm)
		return
	}
	a.query.heads(s, Query, a.attend.Heads)
	a.key.heads(s, Key, a.attend.KVHeads)
}

// together reports whether all heads, of queries and of keys, have one kind of norm,
// with weights that they share.
func (a *attention) together() bool {
	q, k, dim := a.query, a.key, a.attend.HeadDim
	return !q.none() && !k.none() && q.Norm == k.Norm && q.shared() && k.shared() && q.W.Cols == dim && k.W.Cols == dim
}

// keeps lists what mixBack needs that mix overwrites.
func (a *attention) keeps() []Slot {
	switch {
	case a.clip > 0:
		return []Slot{Query, Key, Value}
	case a.query.none():
		return nil
	}
	return []Slot{Query, Key}
}

// mixBack takes the rows for whole sequences.
func (a *attention) mixBack(s, g *State, kept []tensor.Tensor) {
	d := backward(g)
	if t, ok := d.(device.Train); ok && g.Half {
		t.AttendBackHalf(g.At(Query), g.At(Key), g.At(Value), g.At(Mixed), s.At(Mixed), s.At(Query), s.At(Key), s.At(Value), a.attend, s.Batch)
	} else {
		d.AttendBack(g.At(Query), g.At(Key), g.At(Value), g.At(Mixed), s.At(Query), s.At(Key), s.At(Value), a.attend, s.Batch)
	}
	if a.clip == 0 {
		a.turnBack(s, g, kept)
		return
	}
	var clipped []tensor.Tensor
	for _, x := range kept {
		c := clone(d, x)
		defer d.Free(c)
		d.Clip(c, a.clip)
		clipped = append(clipped, c)
	}
	a.turnBack(s, g, clipped)
	for i, slot := range a.keeps() {
		d.ClipBack(g.At(slot), kept[i], a.clip)
	}
}

// turnBack goes back through norms of heads and RoPE; of the values of queries and
// keys in front of them nothing is left.
func (a *attention) turnBack(s, g *State, values []tensor.Tensor) {
	d := backward(g)
	turns := a.rope.Dims > 0
	if a.late && turns && !a.query.none() {
		d.Rope(values[0], values[1], a.freqs, a.attend.HeadDim, a.rope, s.Batch) // what was normalized
		a.normsBack(g, values)
	}
	if turns {
		d.RopeBack(g.At(Query), g.At(Key), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if !(a.late && turns) && !a.query.none() {
		a.normsBack(g, values)
	}
}

func (a *attention) normsBack(g *State, kept []tensor.Tensor) {
	a.query.headsBack(g, Query, kept[0], a.attend.Heads)
	a.key.headsBack(g, Key, kept[1], a.attend.KVHeads)
}
