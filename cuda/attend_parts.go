package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type partsFunc func(d *Device, l launch, out, stats, q, k, v, table, pos, seq tensor.Tensor,
	tableCols, pageRows, heads, kvHeads, dim, splits int32, ldq int64, scale, softcap float32, window int32)

// partsVariants are kernels by the heads that a block takes.
var partsVariants = []struct {
	kernel partsFunc
	heads  int
}{{(*Device).attend_parts_1, 1}, {(*Device).attend_parts_4, 4}, {(*Device).attend_parts_8, 8}}

// partsTake reports whether attend_parts.cu can attend, and is faster than
// attend_decode.cu.
func partsTake(a device.Attend, rows int) bool {
	return fewHeads(a, rows) && a.Sinks.Nil() && a.Temperature == 0
}

// attendParts is attention of few single rows and heads of keys: the positions of each
// row are divided among as many blocks as keep the GPU busy, whatever the positions
// are.
func (d *Device) attendParts(y, q tensor.Tensor, c *cache, layer int, a device.Attend, b device.Batch) {
	const blocksAnSM, most = 6, 64
	group, v := a.Heads/a.KVHeads, partsVariants[0]
	for _, w := range partsVariants {
		if v = w; group <= v.heads {
			break
		}
	}
	sets := a.KVHeads * ((group + v.heads - 1) / v.heads)
	capacity := b.Table.Cols * c.shape.PageRows
	splits := min(pieces(blocksAnSM*d.sms, sets*q.Rows), pieces(capacity, attend_parts_positions), most)
	sums := d.scratch(scratchSums, tensor.F32, q.Rows*a.Heads*splits, a.HeadDim)
	stats := d.scratch(scratchStats, tensor.F32, q.Rows*a.Heads*splits, 2)
	l := launch{blocks: dim{x: splits, y: sets, z: q.Rows}, threads: dim{x: attend_parts_threads}}
	v.kernel(d, l, sums, stats, q, c.k[layer], c.v[layer], b.Table, b.Pos, b.Seq, int32(b.Table.Cols), int32(c.shape.PageRows),
		int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(splits), int64(q.Stride), a.Scale, a.Softcap, int32(a.Window))
	join := launch{blocks: dim{x: a.Heads, y: q.Rows}, threads: dim{x: min(attend_parts_threads, pieces(a.HeadDim, 32)*32)}}
	d.attend_parts_join(join, y, sums, stats, int32(a.Heads), int32(a.HeadDim), int32(splits), int64(y.Stride))
}
