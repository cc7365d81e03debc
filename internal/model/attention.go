package model

import (
	"hash/fnv"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// attention makes the first half of a block: the norm, which q, k and v read,
// the mixing of positions, which o reads, and the sum.
func (b *builder) attention(m *Module) {
	switch {
	case !b.Spec.Caches(m.Layer):
		b.recurrent(m)
		return
	case b.Spec.Beside:
		b.besideAttention(m)
		return
	}
	if b.Spec.Latent.KVRank > 0 {
		b.latent(m)
		return
	}
	read, mix, add := b.attentionSteps(m)
	m.Steps, m.Chained = []Step{read, mix, add}, !b.Spec.Lends(m.Layer) // or the stream is changed before the last step
}

// attentionSteps returns the three steps of attention.
func (b *builder) attentionSteps(m *Module) (read, mix, add Step) {
	n := b.Spec.Names
	in, out := b.input(m, NormIn), b.output(m, NormOut)
	spec := b.Spec.AttnOf(m.Layer)
	a := &attention{query: b.norm(m, NormQuery), key: b.norm(m, NormKey), value: b.norm(m, NormValue), late: spec.QKNorm.AfterRope && b.Spec.HeadNorms(m.Layer), clip: spec.Clip, attend: b.attend(m), layer: m.Layer}
	a.loadRope(b, m)
	a.lend(b.Spec, m.Layer)
	site := Site{Reads: Normed, Linears: []*Linear{b.linear(m, n.Q)}, Writes: []Slot{Query}}
	if !a.borrows {
		site.Linears, site.Writes = append(site.Linears, b.linear(m, n.K)), append(site.Writes, Key)
	}
	if a.keyValues = spec.KeyValues && !a.borrows; !a.keyValues && !a.borrows {
		site.Linears, site.Writes = append(site.Linears, b.linear(m, n.V)), append(site.Writes, Value)
	}
	o := b.linear(m, n.O)
	out.residual *= orOne(b.Spec.Attn.ValueScale)
	read = in.step(site)
	mix = Step{Run: a.mix, Sites: []Site{{Reads: Mixed, Linears: []*Linear{o}, Writes: []Slot{Out}, Adds: out.plain()}}}
	mix.Back, mix.Keep, mix.mixes = a.mixBack, a.keeps(), a
	if spec.ValueWidth() != spec.HeadDim {
		a.widen(spec.ValueWidth(), &read, &mix)
	}
	if spec.Gate != arch.NoGates {
		read.Sites[0].Linears, read.Sites[0].Writes = append(read.Sites[0].Linears, b.linear(m, n.AttnGate)), append(read.Sites[0].Writes, AttnGate)
		gates{a, spec}.put(&mix)
	}
	return read, mix, out.step()
}

// input is the first step of a sublayer: the norm of the stream, or, without
// one, the stream itself.
type input struct{ norm Norm }

func (b *builder) input(m *Module, p Place) *input { return &input{b.norm(m, p)} }

func (i *input) step(sites ...Site) Step {
	return Step{Run: i.run, Back: i.back, Keep: []Slot{Residual}, Sites: sites, in: i}
}

func (i *input) run(s *State) { i.norm.apply(s, Normed, Residual) }

func (i *input) back(s, g *State, kept []tensor.Tensor) { i.norm.back(g, Normed, Residual, kept[0]) }

// attention is what an attention module has beside its linears.
type attention struct {
	query, key, value Norm // of heads, or none
	late              bool // norms of queries and keys follow RoPE
	keyValues         bool // values are the keys before all that
	lends, borrows    bool // keys and values, by columns of the stream from lent on
	lent              int
	clip              float32
	layer             int
	freqs             tensor.Tensor
	which             uint64 // of all frequencies
	rope              device.Rope
	attend            device.Attend
}

// of returns the columns of a slot that the layer has.
func (a *attention) of(s *State, slot Slot) tensor.Tensor { return a.part(slot, s.At(slot)) }

// part returns the columns of what is like a slot that the layer has.
func (a *attention) part(slot Slot, t tensor.Tensor) tensor.Tensor {
	if slot == Key || slot == Value {
		return within(t, a.attend.KVHeads*a.attend.HeadDim)
	}
	return within(t, a.attend.Heads*a.attend.HeadDim)
}

func (b *builder) attend(m *Module) device.Attend {
	s, a := b.Spec, b.Spec.AttnOf(m.Layer)
	out := device.Attend{Heads: a.Heads, KVHeads: a.KVHeads, HeadDim: a.HeadDim, Scale: a.Scale, Softcap: a.Softcap, Temperature: a.Temperature, TemperatureSpan: a.TemperatureSpan}
	if s.Window != nil {
		out.Window = s.Window(m.Layer)
	}
	if s.Sinks(m.Layer) {
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
// can do there: of values, too, where it is that of queries.
func (a *attention) mixing(s *State) device.Mixing {
	m := device.Mixing{Freqs: a.freqs, Rope: a.rope, Attend: a.attend, Batch: s.Batch}
	m.Cache, m.Layer = s.cache.of(a.layer)
	if a.together() {
		m.Heads = device.Heads{Norm: a.query.Norm, Q: a.query.W, K: a.key.W, Late: a.late, Whole: !a.headwise() && a.whole()}
		if a.value.Norm == a.query.Norm && a.value.shared() && a.value.W.Cols == a.attend.HeadDim {
			m.Heads.V = a.value.W
		}
	}
	return m
}

// fused does the products of p and mixes them on a device that can.
func (a *attention) fused(f device.Fuser, s *State, p device.Products) bool {
	m := a.mixing(s)
	if a.clip > 0 || a.keyValues || a.lends || a.borrows || !a.value.none() && m.Heads.V.Nil() || !a.together() && !(a.query.none() && a.key.none()) {
		return false
	}
	m.Attend.Reader = s.reader
	return f.Attention(a.of(s, Mixed), p, m)
}

func (a *attention) mix(s *State) {
	d, q, k, v := s.Dev, a.of(s, Query), a.of(s, Key), a.of(s, Value)
	if a.clip > 0 {
		for _, x := range []tensor.Tensor{q, k, v} {
			d.Clip(x, a.clip)
		}
	}
	if a.keyValues {
		d.Copy(v, k)
	}
	there := !s.cache.stores(a.layer)
	switch {
	case s.apart || a.lends || a.borrows && !there || a.late && !a.together():
		a.mixApart(s)
	case there:
		a.mixAtOnce(s, tensor.Tensor{}, tensor.Tensor{})
	default:
		a.mixAtOnce(s, k, v)
	}
}

// mixAtOnce mixes by one operation; keys and values may be absent, as the cache has them.
func (a *attention) mixAtOnce(s *State, k, v tensor.Tensor) {
	m := a.mixing(s)
	if !a.together() {
		a.norms(s)
	}
	if m.Heads.V.Nil() {
		a.value.heads(s.Dev, v, a.attend.KVHeads)
	}
	m.Attend.Reader = s.reader
	s.Dev.Mix(a.of(s, Mixed), a.of(s, Query), k, v, m.Freqs, m.Cache, m.Layer, m.Heads, m.Rope, m.Attend, m.Batch)
}

// mixApart mixes by one operation after the other.
func (a *attention) mixApart(s *State) {
	d, q, k, v := s.Dev, a.of(s, Query), a.of(s, Key), a.of(s, Value)
	a.value.heads(d, v, a.attend.KVHeads)
	if !a.late {
		a.norms(s)
	}
	if a.rope.Dims > 0 {
		d.Rope(q, a.own(k), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if a.late {
		a.norms(s)
	}
	cache, layer := s.cache.of(a.layer)
	if s.cache.stores(a.layer) {
		a.hand(s, k, v)
		d.Store(cache, layer, k, v, s.Batch)
	}
	d.Attend(a.of(s, Mixed), q, cache, layer, a.attend, s.Batch)
}

// turns reports whether attention only rotates and stores before it attends.
func (a *attention) turns() bool {
	return a.clip == 0 && a.query.none() && a.key.none() && a.value.none() && !a.keyValues && !a.lends && !a.borrows && a.rope.Dims > 0
}

// turning says where queries and keys turn, and keys and values go, in a pass.
func (a *attention) turning(s *State) device.Turning {
	t := device.Turning{Freqs: a.freqs, Which: a.which, HeadDim: a.attend.HeadDim, Rope: a.rope, Batch: s.Batch}
	t.Cache, t.Layer = s.cache.of(a.layer)
	return t
}

func (a *attention) norms(s *State) {
	if q, k := a.query, a.key; a.headwise() {
		s.Dev.HeadNorms(a.of(s, Query), a.of(s, Key), q.W, k.W, q.Norm)
		return
	}
	a.query.heads(s.Dev, a.of(s, Query), a.attend.Heads)
	a.key.heads(s.Dev, a.of(s, Key), a.attend.KVHeads)
}

// headwise reports whether heads, of queries and of keys, have one kind of norm, with weights that all share or with their own.
func (a *attention) headwise() bool {
	q, k, dim := a.query, a.key, a.attend.HeadDim
	return !q.none() && !k.none() && q.Norm == k.Norm && q.W.Cols == dim && k.W.Cols == dim && q.ofHeads(a.attend.Heads) && k.ofHeads(a.attend.KVHeads)
}

// together reports whether all heads, of queries and of keys, if these are not borrowed, have one kind of norm,
// with weights that they share, or a row of them.
func (a *attention) together() bool {
	if a.borrows {
		return a.query.shared() && a.query.W.Cols == a.attend.HeadDim
	}
	return a.query.shared() && a.key.shared() && (a.headwise() || a.whole())
}

// whole reports whether rows of queries and of keys have one kind of norm.
func (a *attention) whole() bool {
	q, k, dim := a.query, a.key, a.attend.HeadDim
	return q.Norm == k.Norm && q.W.Cols == a.attend.Heads*dim && k.W.Cols == a.attend.KVHeads*dim
}

// keeps lists what mixBack needs that mix overwrites.
func (a *attention) keeps() []Slot {
	switch {
	case a.borrows:
		return []Slot{Query}
	case a.keyValues:
		return []Slot{Query, Key}
	case a.clip > 0 || !a.value.none():
		return []Slot{Query, Key, Value}
	case a.query.none():
		return nil
	}
	return []Slot{Query, Key}
}

// KeptColumns is how many columns attention keeps of a position for the way back, at most, and, beside an MLP with a norm
// of its own, what it has read.
func KeptColumns(spec arch.Spec) int {
	queries, keys := spec.Widest()
	columns := 2 * queries
	if spec.Attn.ValueNorm {
		columns += keys
	}
	if spec.Parallel && spec.Names.NormMLPIn != "" {
		columns += spec.Hidden
	}
	return columns
}

// mixBack takes the rows for whole sequences.
func (a *attention) mixBack(s, g *State, kept []tensor.Tensor) {
	d := backward(g)
	for i, slot := range a.keeps() {
		kept[i] = a.part(slot, kept[i])
	}
	if a.keyValues || a.borrows {
		d.Clear(g.At(Value)) // which no linear writes
	}
	if a.borrows {
		d.Clear(g.At(Key))
	}
	q, k, v, dq, dk, dv := a.of(s, Query), a.of(s, Key), a.of(s, Value), a.of(g, Query), a.of(g, Key), a.of(g, Value)
	if t, ok := d.(device.Train); ok && g.Half {
		t.AttendBackHalf(dq, dk, dv, a.of(g, Mixed), a.of(s, Mixed), q, k, v, a.attend, s.Batch)
	} else {
		d.AttendBack(dq, dk, dv, a.of(g, Mixed), q, k, v, a.attend, s.Batch)
	}
	if a.lends || a.borrows {
		a.handedBack(g, dk, dv)
	}
	if !a.value.none() {
		a.value.headsBack(d, dv, kept[len(kept)-1], a.attend.KVHeads)
	}
	if a.clip == 0 {
		a.turnBack(s, g, kept)
	} else {
		a.clipBack(s, g, kept)
	}
	if a.keyValues {
		d.AddScaled(dk, dv, 1)
	}
}

// clipBack goes back through norms of heads, RoPE and limits.
func (a *attention) clipBack(s, g *State, kept []tensor.Tensor) {
	d := backward(g)
	var clipped []tensor.Tensor
	for _, x := range kept {
		c := clone(d, x)
		defer d.Free(c)
		d.Clip(c, a.clip)
		clipped = append(clipped, c)
	}
	a.turnBack(s, g, clipped)
	for i, slot := range a.keeps() {
		d.ClipBack(a.of(g, slot), kept[i], a.clip)
	}
}

// turnBack goes back through norms of heads and RoPE; of the values of queries and
// keys in front of them nothing is left.
func (a *attention) turnBack(s, g *State, values []tensor.Tensor) {
	d := backward(g)
	turns := a.rope.Dims > 0
	if a.late && turns && !a.query.none() {
		d.Rope(values[0], a.own(values[len(values)-1]), a.freqs, a.attend.HeadDim, a.rope, s.Batch) // what was normalized
		a.normsBack(g, values)
	}
	if turns {
		d.RopeBack(a.of(g, Query), a.own(a.of(g, Key)), a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	if !(a.late && turns) && !a.query.none() {
		a.normsBack(g, values)
	}
}

func (a *attention) normsBack(g *State, kept []tensor.Tensor) {
	d := backward(g)
	a.query.headsBack(d, a.of(g, Query), kept[0], a.attend.Heads)
	if !a.borrows {
		a.key.headsBack(d, a.of(g, Key), kept[1], a.attend.KVHeads)
	}
}
