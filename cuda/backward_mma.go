package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type attendBackMMAFunc func(d *Device, l launch, dq, dk, dv, stats, dy, q, k, v tensor.Tensor,
	span, heads, kvHeads, dim, window int32, lddq, lddk, lddv, lddy, ldq, ldk, ldv int64, scale, softcap float32)

// attendBackMMAVariants are kernels of tensor cores, and the dimensions of a head that
// they are made for.
var attendBackMMAVariants = []struct {
	rows, keys attendBackMMAFunc
	dim        int
}{
	{(*Device).attend_back_mma_rows_64, (*Device).attend_back_mma_keys_64, 64},
	{(*Device).attend_back_mma_rows_128, (*Device).attend_back_mma_keys_128, 128},
}

// attendBackMMA is AttendBack by tensor cores. It reports whether it can.
func (d *Device) attendBackMMA(dq, dk, dv, dy, q, k, v tensor.Tensor, a device.Attend, b device.Batch) bool {
	if d.major < 8 || a.HeadDim > 128 || a.Latent > 0 || a.Temperature != 0 || !a.Sinks.Nil() {
		return false
	}
	w := attendBackMMAVariants[0]
	if a.HeadDim > w.dim {
		w = attendBackMMAVariants[1]
	}
	halves, floats := 2*(w.dim+8), 4*(w.dim+8)
	stats := d.scratch(scratchStats, tensor.F32, q.Rows*a.Heads, 2)
	run := func(f attendBackMMAFunc, heads, shared int) {
		l := launch{blocks: dim{x: q.Rows / b.Span * pieces(b.Span, attend_back_tiles_side), y: heads}, threads: dim{x: 32 * attend_back_tiles_warps}, shared: shared}
		f(d, l, dq, dk, dv, stats, dy, q, k, v, int32(b.Span), int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(a.Window),
			int64(dq.Stride), int64(dk.Stride), int64(dv.Stride), int64(dy.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), a.Scale, a.Softcap)
	}
	const side, tile, stages = attend_back_tiles_side, attend_back_tiles_tile, 2
	run(w.rows, a.Heads, side*(halves+floats)+stages*2*tile*halves)
	run(w.keys, a.KVHeads, 2*side*halves+stages*tile*(halves+floats+8))
	return true
}
