package model

import (
	"sync"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// latent makes latent attention, in its absorbed form
// (DeepSeek-V2, arXiv 2405.04434, section 2.1.2): the cache has one head of keys,
// RoPE(kr) and norm(c), and the second part is what values are, too. Queries go
// through the part of KV2 that would make keys, what comes out of attention through
// the one that would make values.
func (b *builder) latent(m *Module) {
	n, l := b.Spec.Names, b.Spec.Latent
	in, out := b.input(m, NormIn), b.output(m, NormOut)
	a := latent{
		attention: attention{layer: m.Layer, attend: b.attend(m)}, qNorm: b.norm(m, NormQLatent), kvNorm: b.norm(m, NormKVLatent),
		heads: b.Spec.Attn.Heads, nope: l.Nope, rope: l.Rope, rank: l.KVRank, value: l.Value,
	}
	a.loadRope(b, m)
	a.attend.KVHeads, a.attend.HeadDim, a.attend.Latent = 1, l.Rope+l.KVRank, l.KVRank
	var q1, q2 *Linear
	if l.QRank > 0 {
		q1, q2 = b.linear(m, n.Q1), b.linear(m, n.Q2)
	} else {
		q1 = b.linear(m, n.Q)
	}
	kv1, kv2, o := b.linear(m, n.KV1), b.linear(m, n.KV2), b.linear(m, n.O)
	m.assemble = func(m *Module, get func(*Linear) *Linear) []Step {
		a := a
		a.kv = &absorbed{linear: get(kv2), latent: &a}
		m.onFree = append(m.onFree, a.kv.free)
		if w := a.kv.linear.W; w != nil && w.Bytes() > 0 { // or it could not be loaded
			a.kv.refresh(m.dev) // not while a pass is recorded
		}
		first := Site{Reads: Normed, Linears: []*Linear{get(q1), get(kv1)}, Writes: []Slot{RawQuery, LatentKV}}
		second := []Site{{Reads: Latent, Linears: []*Linear{a.kv.linear}}}
		if q2 != nil {
			first.Writes[0] = LatentQuery
			second = append([]Site{{Reads: LatentQuery, Linears: []*Linear{get(q2)}, Writes: []Slot{RawQuery}}}, second...)
		}
		mixed := Site{Reads: Mixed, Linears: []*Linear{get(o)}, Writes: []Slot{Out}, Adds: out.plain()}
		norms := Step{Run: a.norms, Sites: second, Back: a.normsBack, latents: &a}
		if !a.qNorm.none() {
			norms.Keep = []Slot{LatentQuery}
		}
		return []Step{in.step(first), norms, {Run: a.mix, Sites: []Site{mixed}, Back: a.mixBack}, out.step()}
	}
	m.Steps = m.assemble(m, same)
}

// latent is what latent attention has beside its linears.
type latent struct {
	attention
	qNorm, kvNorm                  Norm
	heads, nope, rope, rank, value int
	kv                             *absorbed
}

// norms normalizes the latents of queries, and of keys and values.
func (a *latent) norms(s *State) {
	a.queries(s)
	s.Dev.Norm(s.At(Latent), s.At(LatentKV).Columns(0, a.rank), a.kvNorm.W, a.kvNorm.Bias, a.kvNorm.Norm)
}

// queries normalizes those of queries.
func (a *latent) queries(s *State) {
	if !a.qNorm.none() {
		a.qNorm.apply(s, LatentQuery, LatentQuery)
	}
}

// mixing returns what there is beside queries and latents. A head of queries, and the one of keys, has the dimensions with
// positions first.
func (a *latent) mixing(s *State) device.LatentMixing {
	a.kv.refresh(s.Dev)
	m := device.LatentMixing{
		Mixing: a.attention.mixing(s), Norm: a.kvNorm.Norm, Scale: a.kvNorm.W, Shift: a.kvNorm.Bias, Nope: a.nope, Beside: a.rope,
		Keys: a.kv.keys, Values: a.kv.dense(), Latent: s.At(Latent), Key: s.At(Key), Query: s.At(Query), Context: s.At(Context),
	}
	m.Attend.Reader = s.reader
	return m
}

// mix is attention, of normalized latents.
func (a *latent) mix(s *State) {
	m, y, q, kv := a.mixing(s), s.At(Mixed), s.At(RawQuery), s.At(LatentKV)
	f, ok := s.Dev.(device.Fuser)
	switch {
	case s.apart:
		a.mixApart(s, m)
	case !ok || !f.MixLatent(y, q, kv, m):
		m.ByNormed(s.Dev, y, q, kv)
	}
}

// mixApart mixes by one operation after the other.
func (a *latent) mixApart(s *State, m device.LatentMixing) {
	d, k := s.Dev, m.Key
	m.Prepare(d, s.At(RawQuery), s.At(LatentKV))
	if m.Rope.Dims > 0 {
		d.Rope(m.Query, k, m.Freqs, m.Attend.HeadDim, m.Rope, s.Batch)
	}
	d.Store(m.Cache, m.Layer, k, k.Columns(0, 0), s.Batch)
	d.Attend(m.Context, m.Query, m.Cache, m.Layer, a.attend, s.Batch)
	m.Finish(d, s.At(Mixed))
}

// fused does the norms, which are the first of some steps, and attention, the second, and what is behind it that a device can, and returns how many
// steps that is.
func (a *latent) fused(f device.Fuser, s *State, steps []Step, follower *Step) (n int, reader *Step) {
	a.queries(s)
	steps[0].Multiply(s)
	names := steps[1].named(s, steps[2:])
	m, y, q, kv := a.mixing(s), s.At(Mixed), s.At(RawQuery), s.At(LatentKV)
	s.reader = nil
	done := f.MixLatent(y, q, kv, m)
	if !done {
		m.By(s.Dev, y, q, kv)
	}
	n, reader = finish(f, s, steps[1:], follower, names && done)
	return 1 + n, reader
}

// normsBack leaves the gradient of the latents before they were normalized.
func (a *latent) normsBack(s, g *State, kept []tensor.Tensor) {
	if !a.qNorm.none() {
		a.qNorm.backInPlace(backward(g), g.At(LatentQuery), kept[0], 1)
	}
	backward(g).NormBack(g.At(LatentKV).Columns(0, a.rank), g.At(Latent), s.At(LatentKV).Columns(0, a.rank), a.kvNorm.W, a.kvNorm.Norm)
}

// mixBack takes the rows for whole sequences.
func (a *latent) mixBack(s, g *State, _ []tensor.Tensor) {
	d, dim := backward(g), a.rope+a.rank
	for h := range a.heads {
		d.MatMulBack(g.At(Context).Columns(h*a.rank, (h+1)*a.rank), g.At(Mixed).Columns(h*a.value, (h+1)*a.value), a.kv.valueOf(h))
	}
	q, k := s.At(Query), s.At(Key)
	dq, dk := g.At(Query), g.At(Key)
	d.AttendBack(dq, dk, dk.Columns(a.rope, dim), g.At(Context), q, k, k.Columns(a.rope, dim), a.attend, s.Batch)
	if a.attention.rope.Dims > 0 {
		d.RopeBack(dq, dk, a.freqs, dim, a.attention.rope, s.Batch)
	}
	d.AddScaled(g.At(LatentKV).Columns(a.rank, a.rank+a.rope), dk.Columns(0, a.rope), 1)
	d.AddScaled(g.At(Latent), dk.Columns(a.rope, dim), 1)
	for h := range a.heads {
		raw, dq := g.At(RawQuery).Columns(h*(a.nope+a.rope), (h+1)*(a.nope+a.rope)), dq.Columns(h*dim, (h+1)*dim)
		d.AddScaled(raw.Columns(a.nope, a.nope+a.rope), dq.Columns(0, a.rope), 1)
		d.MatMulBack(raw.Columns(0, a.nope), dq.Columns(a.rope, dim), a.kv.key(h))
	}
}

// absorbed is the matrix that makes keys and values of latents, by heads. It
// follows the linear's weight when that is replaced.
type absorbed struct {
	linear *Linear
	latent *latent

	making  sync.Mutex    // states side by side share the parts
	of      Weight        // what the rest was made from
	decoded tensor.Tensor // [heads·(nope+value), rank] if that is quantized
	keys    tensor.Tensor // [heads·rank, nope]
	release func()
}

// key returns a head's part that makes keys, transposed, [rank, nope].
func (k *absorbed) key(h int) tensor.Tensor {
	return k.keys.Slice(h*k.latent.rank, (h+1)*k.latent.rank)
}

// valueOf returns a head's part that makes values, [value, rank].
func (k *absorbed) valueOf(h int) tensor.Tensor {
	a := k.latent
	at := h*(a.nope+a.value) + a.nope
	return k.dense().Slice(at, at+a.value)
}

// dense returns the matrix as it is multiplied by.
func (k *absorbed) dense() tensor.Tensor {
	if w, ok := k.of.(Dense); ok {
		return w.Tensor
	}
	return k.decoded
}

// refresh makes the parts anew if the linear has another weight.
func (k *absorbed) refresh(d device.Device) {
	k.making.Lock()
	defer k.making.Unlock()
	if k.of == k.linear.W {
		return
	}
	k.free()
	a := k.latent
	k.of = k.linear.W
	if w, ok := k.of.(Quantized); ok {
		k.decoded = d.Alloc(tensor.F16, k.linear.Out, k.linear.In)
		d.Decode(k.decoded, w.Matrix)
	}
	w := k.dense()
	k.keys = d.Alloc(w.Type, a.heads*a.rank, a.nope)
	k.release = func() { d.Free(k.decoded); d.Free(k.keys) }
	data, size := make([]byte, w.Bytes()), w.Type.Size()
	d.Download(data, w)
	turned := make([]byte, 0, k.keys.Bytes())
	for h := range a.heads {
		for r := range a.rank {
			for i := range a.nope {
				at := ((h*(a.nope+a.value)+i)*a.rank + r) * size
				turned = append(turned, data[at:at+size]...)
			}
		}
	}
	d.Upload(k.keys, turned)
}

// free frees what was made of the weight, which is the linear's.
func (k *absorbed) free() {
	if k.release != nil {
		k.release()
	}
	k.of, k.release, k.decoded, k.keys = nil, nil, tensor.Tensor{}, tensor.Tensor{}
}
