package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type prefillFunc func(d *Device, l launch, y, q, k, v, table, pos, seq tensor.Tensor,
	tableCols, pageRows, span, heads, kvHeads, dim int32, ldy, ldq int64, scale, softcap float32, window int32)

// A prefillVariant is a kernel, the dimensions of a head that it is made for,
// and the positions that it takes at a time.
type prefillVariant struct {
	kernel    prefillFunc
	dim, keys int
}

var prefillVariants = []prefillVariant{
	{(*Device).attend_prefill_32, 32, attend_prefill_keys},
	{(*Device).attend_prefill_64, 64, attend_prefill_keys},
	{(*Device).attend_prefill_96, 96, attend_prefill_keys},
	{(*Device).attend_prefill_128, 128, attend_prefill_keys},
	{(*Device).attend_prefill_256, 256, attend_prefill_keys_256},
}

// MaxHeadDim is the largest dimension of a head that attention takes; it must
// be even, too.
const MaxHeadDim = 256

// Attend is softmax(scale·q·Kᵀ)·V by heads.
func (d *Device) Attend(y, q tensor.Tensor, of device.Cache, layer int, a device.Attend, b device.Batch) {
	if a.Latent > 0 {
		d.lacks("latent attention")
		return
	}
	c := of.(*cache)
	width := a.Heads * a.HeadDim
	want(y.Rows == q.Rows && q.Rows == b.Pos.Cols && q.Rows == b.Seq.Cols && y.Cols == width && q.Cols == width &&
		c.shape.K == a.KVHeads*a.HeadDim && c.shape.V == c.shape.K && a.Heads%a.KVHeads == 0, "Attend", y, q, c.k[layer], c.v[layer], b.Pos)
	if !a.Sinks.Nil() || a.Temperature != 0 {
		d.lacks("attention with sinks or a temperature")
		return
	}
	if a.HeadDim > MaxHeadDim || a.HeadDim%2 != 0 {
		d.failWith("Attend: heads of %d dimensions, want an even number up to %d; --devices cpu has no such limit", a.HeadDim, MaxHeadDim)
		return
	}
	if q.Rows == 0 {
		return
	}
	if b.Span == 1 {
		d.attendRows(y, q, c, layer, a, b)
	} else {
		d.attendRuns(y, q, c, layer, a, b)
	}
}

// attendRuns is attention of runs of more than one row.
func (d *Device) attendRuns(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	v := prefillVariants[0]
	for _, w := range prefillVariants {
		if v = w; a.HeadDim <= v.dim {
			break
		}
	}
	const rows = attend_prefill_rows_a_block
	l := launch{
		blocks: dim{x: q.Rows / b.Span * pieces(b.Span, rows), y: a.Heads}, threads: dim{x: attend_prefill_threads},
		shared: max(rows, 2*v.keys) * (v.dim + attend_prefill_padding) * tensor.F16.Size(),
	}
	v.kernel(d, l, y, q, c.k[layer], c.v[layer], b.Table, b.Pos, b.Seq, int32(b.Table.Cols), int32(c.shape.PageRows), int32(b.Span),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int64(y.Stride), int64(q.Stride), a.Scale, a.Softcap, int32(a.Window))
}

type decodeAttendFunc func(d *Device, l launch, out, stats, q, k, v, table, pos, seq tensor.Tensor,
	tableCols, pageRows, heads, kvHeads, dim, splits int32, ldq int64, scale, softcap float32, window int32)

// decodeVariants are kernels by the heads that a block takes.
var decodeVariants = []struct {
	kernel decodeAttendFunc
	heads  int
}{{(*Device).attend_decode_1, 1}, {(*Device).attend_decode_4, 4}, {(*Device).attend_decode_8, 8}}

// attendRows is attention of single rows: the positions of each are divided
// among as many blocks as keep the GPU busy, whatever the positions are.
func (d *Device) attendRows(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	const blocksAnSM, most = 6, 64
	group, v := a.Heads/a.KVHeads, decodeVariants[0]
	for _, w := range decodeVariants {
		if v = w; group <= v.heads {
			break
		}
	}
	sets := a.KVHeads * ((group + v.heads - 1) / v.heads)
	capacity := b.Table.Cols * c.shape.PageRows
	splits := min(pieces(blocksAnSM*d.sms, sets*q.Rows), pieces(capacity, attend_decode_positions), most)
	sums := d.scratch(scratchSums, tensor.F32, q.Rows*a.Heads*splits, a.HeadDim)
	stats := d.scratch(scratchStats, tensor.F32, q.Rows*a.Heads*splits, 2)
	l := launch{blocks: dim{x: splits, y: sets, z: q.Rows}, threads: dim{x: attend_decode_threads}}
	v.kernel(d, l, sums, stats, q, c.k[layer], c.v[layer], b.Table, b.Pos, b.Seq, int32(b.Table.Cols), int32(c.shape.PageRows),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(splits), int64(q.Stride), a.Scale, a.Softcap, int32(a.Window))
	join := launch{blocks: dim{x: a.Heads, y: q.Rows}, threads: dim{x: min(attend_decode_threads, pieces(a.HeadDim, 32)*32)}}
	d.attend_decode_join(join, y, sums, stats, int32(a.Heads), int32(a.HeadDim), int32(splits), int64(y.Stride))
}
