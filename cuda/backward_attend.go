package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type attendBackFunc func(d *Device, l launch, dq, dk, dv, stats, dy, q, k, v, sinks tensor.Tensor,
	span, heads, kvHeads, dim, width, window int32, lddq, lddk, lddv, lddy, ldq, ldk, ldv int64,
	scale, softcap, temperature float32, temperatureSpan int32)

// An attendBackVariant is kernels, the dimensions of a head that they are made for,
// and the rows and positions of their tiles.
type attendBackVariant struct {
	rows, keys attendBackFunc
	dim, side  int
}

var attendBackVariants = []attendBackVariant{
	{(*Device).attend_back_rows_128, (*Device).attend_back_keys_128, 128, attend_back_side_128},
	{(*Device).attend_back_rows_256, (*Device).attend_back_keys_256, 256, attend_back_side_256},
	{(*Device).attend_back_rows_576, (*Device).attend_back_keys_576, 576, attend_back_side_576},
}

// shared is what a block has of its tiles: q, k and v, dy, weights and gradients.
func (v attendBackVariant) shared() int {
	return v.side * (3*2*(v.dim+2) + 4*(v.dim+1) + 2*4*(v.side+1))
}

// checkAttendBack panics unless shapes match, and returns the dimensions of a head of
// values.
func checkAttendBack(dq, dk, dv, dy, q, k, v tensor.Tensor, a device.Attend, b device.Batch) (width int) {
	width = a.HeadDim
	if a.Latent > 0 {
		width = a.Latent
	}
	for _, x := range []struct {
		t    tensor.Tensor
		cols int
	}{
		{q, a.Heads * a.HeadDim}, {dq, a.Heads * a.HeadDim}, {k, a.KVHeads * a.HeadDim}, {dk, a.KVHeads * a.HeadDim},
		{v, a.KVHeads * width}, {dv, a.KVHeads * width}, {dy, a.Heads * width},
	} {
		want(x.t.Rows == q.Rows && x.t.Cols == x.cols, "AttendBack", x.t, q)
	}
	want((a.Latent == 0 || a.KVHeads == 1) && (a.Sinks.Nil() || a.Sinks.Cols == a.Heads) && q.Rows == b.Pos.Cols && q.Rows%b.Span == 0, "AttendBack", q, k, b.Pos)
	return width
}

// AttendBack is the gradient of Attend over whole sequences.
func (d *Device) AttendBack(dq, dk, dv, dy, q, k, v tensor.Tensor, a device.Attend, b device.Batch) {
	width := checkAttendBack(dq, dk, dv, dy, q, k, v, a, b)
	w := attendBackVariants[len(attendBackVariants)-1]
	if a.HeadDim > w.dim || a.HeadDim%2 != 0 || width%2 != 0 {
		d.failWith("AttendBack: heads of %d dimensions, want an even number up to %d; --devices cpu has no such limit", a.HeadDim, w.dim)
		return
	}
	if q.Rows == 0 || d.attendBackMMA(dq, dk, dv, dy, q, k, v, a, b) {
		return
	}
	for _, v := range attendBackVariants {
		if w = v; a.HeadDim <= v.dim {
			break
		}
	}
	stats := d.scratch(scratchStats, tensor.F32, q.Rows*a.Heads, 2)
	l := launch{blocks: dim{x: q.Rows / b.Span * pieces(b.Span, w.side), y: a.Heads}, threads: dim{x: attend_back_threads}, shared: w.shared()}
	run := func(f attendBackFunc) {
		f(d, l, dq, dk, dv, stats, dy, q, k, v, a.Sinks, int32(b.Span), int32(a.Heads), int32(a.KVHeads), int32(a.HeadDim), int32(width), int32(a.Window),
			int64(dq.Stride), int64(dk.Stride), int64(dv.Stride), int64(dy.Stride), int64(q.Stride), int64(k.Stride), int64(v.Stride), a.Scale, a.Softcap, a.Temperature, int32(max(a.TemperatureSpan, 1)))
	}
	run(w.rows)
	l.blocks.y = a.KVHeads
	run(w.keys)
}
