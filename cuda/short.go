package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// ShortConv convolves, and leaves runs' last inputs.
func (d *Device) ShortConv(y, b, c, x tensor.Tensor, s device.ShortConv, inputs tensor.Tensor, batch device.Batch) {
	const op = "ShortConv"
	want(y.Rows == c.Rows && y.Cols == c.Cols && (s.Kernel == 1 || inputs.Cols == (s.Kernel-1)*y.Cols), op, y, c, inputs)
	if !d.canShort(op, b, c, x, s, batch) || y.Rows == 0 {
		return
	}
	sequences := max(inputs.Rows, 1)
	if s.Kernel == 1 {
		inputs, sequences = tensor.Tensor{}, maxSequences
	}
	l := launch{blocks: dim{x: pieces(y.Cols, short_conv_threads), y: pieces(batch.Span, short_conv_rows_of_thread), z: y.Rows / batch.Span}, threads: dim{x: short_conv_threads}}
	d.short_conv(l, y, b, c, x, inputs, s.Conv, s.Bias, batch.Pos, batch.Seq, d.fault, int32(sequences), int32(y.Cols), int32(s.Kernel), int32(batch.Span),
		int64(y.Stride), int64(b.Stride), int64(c.Stride), int64(x.Stride))
	if s.Kernel > 1 && batch.Span > short_conv_rows_of_thread {
		l.blocks.y = 1
		d.short_conv_keep(l, inputs, b, x, batch.Seq, int32(sequences), int32(y.Cols), int32(s.Kernel), int32(batch.Span), int64(b.Stride), int64(x.Stride))
	}
}

// maxSequences is beyond every sequence, where none is looked up.
const maxSequences = 1<<31 - 1

// canShort checks shapes, and refuses what there are no kernels for.
func (d *Device) canShort(op string, b, c, x tensor.Tensor, s device.ShortConv, batch device.Batch) bool {
	for _, t := range []tensor.Tensor{b, x} {
		want(t.Rows == c.Rows && t.Cols == c.Cols, op, t, c)
	}
	want(s.Conv.Rows*s.Conv.Cols == c.Cols*s.Kernel && (s.Bias.Nil() || s.Bias.Cols == c.Cols), op, s.Conv, s.Bias)
	want(c.Rows == batch.Pos.Cols && c.Rows%batch.Span == 0, op, c, batch.Pos)
	if s.Kernel > short_conv_most_kernel {
		d.failWith("%s: a convolution of %d positions, want up to %d: %w; --devices cpu has it", op, s.Kernel, short_conv_most_kernel, device.ErrUnsupported)
		return false
	}
	return true
}

// ShortConvBack adds the gradients of b, c and x.
func (d *Device) ShortConvBack(db, dc, dx, room, dy, b, c, x tensor.Tensor, s device.ShortConv, batch device.Batch) {
	const op = "ShortConvBack"
	for _, t := range []tensor.Tensor{db, dc, dx, room, dy} {
		want(t.Rows == c.Rows && t.Cols == c.Cols, op, t, c)
	}
	if !d.canShort(op, b, c, x, s, batch) || c.Rows == 0 {
		return
	}
	rows, cols, kernel, span := int32(c.Rows), int32(c.Cols), int32(s.Kernel), int32(batch.Span)
	l := launch{blocks: dim{x: pieces(c.Rows*c.Cols, short_conv_threads)}, threads: dim{x: short_conv_threads}}
	d.short_conv_back_sums(l, dc, room, dy, b, c, x, s.Conv, s.Bias, rows, cols, kernel, span, int64(dc.Stride), int64(room.Stride), int64(dy.Stride), int64(b.Stride), int64(c.Stride), int64(x.Stride))
	d.short_conv_back_inputs(l, db, dx, room, b, x, s.Conv, rows, cols, kernel, span, int64(db.Stride), int64(dx.Stride), int64(room.Stride), int64(b.Stride), int64(x.Stride))
}
