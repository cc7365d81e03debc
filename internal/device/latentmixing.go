package device

import "exl2/internal/tensor"

// LatentMixing is what latent attention, in its absorbed form (DeepSeek-V2, arXiv 2405.04434, section 2.1.2), is told beside queries
// and latents. The rank is that of Attend.Latent; Beside columns have positions, with which cached keys and queries begin.
type LatentMixing struct {
	Mixing         // Heads is nothing
	Norm           Norm
	Scale, Shift   tensor.Tensor // of the norm of latents, F32 [1, rank]; Shift may be absent
	Nope, Beside   int           // columns of a head of queries: without positions, and, behind them, with
	Values         tensor.Tensor // [heads·(nope+value), rank]: what makes keys, and values, of latents
	Keys           tensor.Tensor // [heads·rank, nope]: the first of each head, transposed
	Latent, Key    tensor.Tensor // room for [rows, rank] and [rows, beside+rank], of the activation type
	Query, Context tensor.Tensor // for [rows, heads·(beside+rank)] and [rows, heads·rank]
}

// By is Fuser.MixLatent by other operations.
func (m LatentMixing) By(d Device, y, q, kv tensor.Tensor) {
	d.Norm(m.Latent, kv.Columns(0, m.Attend.Latent), m.Scale, m.Shift, m.Norm)
	m.ByNormed(d, y, q, kv)
}

// ByNormed is By where Latent is there.
func (m LatentMixing) ByNormed(d Device, y, q, kv tensor.Tensor) {
	m.Prepare(d, q, kv)
	m.Attend.Reader = nil
	d.Mix(m.Context, m.Query, m.Key, m.Key.Columns(0, 0), m.Freqs, m.Cache, m.Layer, Heads{}, m.Rope, m.Attend, m.Batch)
	m.Finish(d, y)
}

// Prepare makes Query of q, and Key of kv and Latent, which have not been rotated.
func (m LatentMixing) Prepare(d Device, q, kv tensor.Tensor) {
	rank := m.Attend.Latent
	d.MatMulHeads(m.Query, q, m.Keys, HeadMul{Heads: m.Attend.Heads, In: m.Nope, Beside: m.Beside, Step: rank})
	d.Copy(m.Key.Columns(0, m.Beside), kv.Columns(rank, rank+m.Beside))
	d.Copy(m.Key.Columns(m.Beside, m.Beside+rank), m.Latent)
}

// Finish makes y of Context.
func (m LatentMixing) Finish(d Device, y tensor.Tensor) {
	d.MatMulHeads(y, m.Context, m.Values, m.values(y))
}

// values is the product of heads that makes y of Context.
func (m LatentMixing) values(y tensor.Tensor) HeadMul {
	return HeadMul{Heads: m.Attend.Heads, In: m.Attend.Latent, First: m.Nope, Step: m.Nope + y.Cols/m.Attend.Heads}
}
