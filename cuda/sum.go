package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// sumKernels are those of sum_stream.cu for y of some type.
type sumKernels struct {
	few func(d *Device, l launch, x, y, weights, left, leftSquares, leftPowers, leftPlaces, leftScale tensor.Tensor,
		cols int32, ldx, ldy int64, eps, offset, times, then, leftOffset float32)
	many func(d *Device, l launch, x, y, weights tensor.Tensor, cols int32, ldx, ldy int64, eps, offset, times, then float32)
}

// sumsOf returns those for a type, if there are any.
func sumsOf(t tensor.Type) (k sumKernels, ok bool) {
	switch t {
	case tensor.F16:
		return sumKernels{(*Device).sum_stream_f16, (*Device).sum_stream_many_f16}, true
	case tensor.F32:
		return sumKernels{(*Device).sum_stream_f32, (*Device).sum_stream_many_f32}, true
	}
	return k, false
}

// Sum adds rows to the stream, normalized by their root mean square or as they are, and leaves the stream for its reader.
func (d *Device) Sum(s device.Sum) bool {
	x, y := s.X, s.Y
	kernels, ok := sumsOf(y.Type)
	if !ok || x.Rows == 0 || !s.Scale.Nil() && !linkable(s.Norm, s.Shift) || s.With != nil && (y.Type != tensor.F32 || s.With.Norm.Kind != device.RMS) {
		return false
	}
	want(x.Type == tensor.F32 && y.Rows == x.Rows && y.Cols == x.Cols && (s.Scale.Nil() || s.Scale.Cols == x.Cols), "Sum", x, y, s.Scale)
	d.added(x)
	l := launch{blocks: dim{x: pieces(x.Cols, sum_stream_threads), y: x.Rows}, threads: dim{x: sum_stream_threads}}
	if x.Rows <= mostLinked || s.With != nil {
		d.sumFew(l, s, kernels, d.leavesSum(x, s.Reader, l.blocks.x*sum_stream_threads/32))
		return true
	}
	l.blocks = dim{x: x.Rows}
	kernels.many(d, l, x, y, s.Scale, int32(x.Cols), int64(x.Stride), int64(y.Stride), s.Norm.Eps, s.Norm.Offset, s.Times, s.Then)
	return true
}

// sumFew adds what a sublayer gives, by blocks of some columns of a row.
func (d *Device) sumFew(l launch, s device.Sum, kernels sumKernels, to left) {
	x, y, w := s.X, s.Y, s.With
	if w == nil {
		kernels.few(d, l, x, y, s.Scale, to.rows, to.squares, to.powers, to.places, to.scale,
			int32(x.Cols), int64(x.Stride), int64(y.Stride), s.Norm.Eps, s.Norm.Offset, s.Times, s.Then, to.norm.Offset)
		return
	}
	want(w.Y.Type == tensor.F16 && w.Y.Rows == x.Rows && w.Y.Cols == x.Cols && w.Own.Cols == x.Cols && w.First.Cols == x.Cols, "Sum", x, w.Y, w.Own, w.First)
	d.sum_stream_two(l, x, y, w.Y, w.First, w.Own, s.Scale, to.rows, to.squares, to.powers, to.places, to.scale,
		int32(x.Cols), int64(x.Stride), int64(y.Stride), int64(w.Y.Stride), w.Norm.Eps, w.Norm.Offset, s.Norm.Eps, s.Norm.Offset, s.Times, s.Then, to.norm.Offset)
}

// leavesSum is where a sum leaves the stream for its reader, which may be nil, with so many sums of squares, or nothing.
func (d *Device) leavesSum(x tensor.Tensor, reader *device.Products, parts int) (to left) {
	switch {
	case reader == nil || x.Rows > mostLinked:
		return to
	case reader.Scale.Nil():
		return d.leavesPlain(x, reader)
	}
	return d.leaves(x, reader, parts)
}
