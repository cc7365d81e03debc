package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type attendBackHalfFunc func(d *Device, l launch, dq, dk, dv, stats, dy, q, k, v, sinks, largest tensor.Tensor,
	span, heads, kvHeads, dim, window int32, lddq, lddk, lddv, ldq, ldk, ldv int64, scale, softcap, temperature float32, temperatureSpan int32)

// attendBackHalfVariants are kernels, the dimensions of a head that they are made for,
// and the positions that the first goes over at a time.
var attendBackHalfVariants = []struct {
	rows, keys attendBackHalfFunc
	name       kernel // of both: they declare nothing
	dim, tile  int
}{
	{(*Device).attend_back_half_rows_64, (*Device).attend_back_half_keys_64, kernel_attend_back_half_keys_64, 64, attend_back_half_rows_tile_64},
	{(*Device).attend_back_half_rows_128, (*Device).attend_back_half_keys_128, kernel_attend_back_half_keys_128, 128, attend_back_half_rows_tile_128},
}

// AttendBackHalf is AttendBack in fp16, of heads of up to 128 dimensions.
func (d *Device) AttendBackHalf(dq, dk, dv, dy, y, q, k, v tensor.Tensor, a device.Attend, b device.Batch) {
	w := attendBackHalfVariants[0]
	if a.HeadDim > w.dim {
		w = attendBackHalfVariants[1]
	}
	const side, keys, stats = attend_back_half_side, attend_back_half_keys_tile, 12
	row := tensor.F16.Size() * (w.dim + 8)
	forRows, forKeys := 2*(side+2*w.tile)*row, 2*(side+2*keys)*row+2*keys*stats
	if d.major < 8 || max(forRows, forKeys) > d.sharedFor(w.name) || a.HeadDim > w.dim || a.Latent > 0 || q.Rows == 0 {
		d.AttendBack(dq, dk, dv, dy, q, k, v, a, b)
		return
	}
	checkAttendBack(dq, dk, dv, dy, q, k, v, a, b)
	want(y.Rows == q.Rows && y.Cols == q.Cols, "AttendBackHalf", y, q)
	rows := q.Rows
	r := d.newRoom(padded(2*rows*q.Cols) + padded(8*rows*a.Heads) + padded(4))
	defer r.free()
	rounded, sums, most := r.take(tensor.F16, rows, q.Cols), r.take(tensor.F32, rows*a.Heads, 2), r.takeZeros(tensor.F32, 1, 1)
	d.measure(most, dy)
	prepare := launch{blocks: dim{x: pieces(rows*a.Heads, attend_back_half_prepare_warps)}, threads: dim{x: 32 * attend_back_half_prepare_warps}}
	d.attend_back_half_prepare(prepare, rounded, sums, dy, y, most, int32(rows), int32(a.Heads), int32(a.HeadDim), int64(dy.Stride), int64(y.Stride))
	run := func(f attendBackHalfFunc, heads, shared int) {
		l := launch{blocks: dim{x: rows / b.Span * pieces(b.Span, side), y: heads}, threads: dim{x: 32 * attend_back_half_warps}, shared: shared}
		f(d, l, dq, dk, dv, sums, rounded, q, k, v, a.Sinks, most, int32(b.Span), int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(a.Window),
			int64(dq.Stride), int64(dk.Stride), int64(dv.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)))
	}
	run(w.rows, a.Heads, forRows)
	run(w.keys, a.KVHeads, forKeys)
}
