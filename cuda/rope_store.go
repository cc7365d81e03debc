package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// ropeStore is Rope and Store in one kernel, and reports whether there is one for these
// heads.
func (d *Device) ropeStore(q, k, v, freqs tensor.Tensor, c *cache, layer int, r device.Rope, a device.Attend, b device.Batch) bool {
	const unit = 16 // dimensions: eight pairs
	if a.Latent > 0 || r.Interleaved || r.Dims == 0 || r.Dims%unit != 0 || a.HeadDim%8 != 0 || r.Dims > a.HeadDim || !atSixteenBytes(q) || !atSixteenBytes(k) || !atSixteenBytes(v) {
		return false
	}
	want(q.Rows == b.Pos.Cols && k.Rows == q.Rows && v.Rows == q.Rows && b.Seq.Cols == q.Rows && q.Cols == a.Heads*a.HeadDim && k.Cols == a.KVHeads*a.HeadDim &&
		v.Cols == k.Cols && c.shape.K == k.Cols && c.shape.V == k.Cols && freqs.Cols == r.Dims/2, "Mix", q, k, v, freqs, b.Pos)
	l, scale := ropeLaunch(q.Rows, a.Heads, r)
	l.blocks, l.threads = dim{x: q.Rows, y: ropeStoreParts(q.Rows, d.sms, a)}, dim{x: rope_store_threads}
	d.rope_store_f16(l, q, k, v, c.k[layer], c.v[layer], freqs, b.Pos, b.Seq, b.Table, d.fault, int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(r.Dims/2),
		int32(b.Table.Rows), int32(b.Table.Cols), int32(c.shape.Pages), int32(c.shape.PageRows), int64(q.Stride), int64(k.Stride), int64(v.Stride), scale)
	return true
}

// ropeStoreParts returns among how many blocks the heads of a row are divided: more of
// few rows.
func ropeStoreParts(rows, sms int, a device.Attend) int {
	const heads = 8 // of a block at least
	return min(pieces(2*sms, max(rows, 1)), pieces(a.Heads+2*a.KVHeads, heads))
}
