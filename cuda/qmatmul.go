package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Rows of x up to which an EXL2 product reads packed weights, eight at a time;
// for more, the weights are decoded first.
const packedRows = 32

// More rows of x than these someProducts multiplies faster than the kernel of few rows; where
// tiles take them, those are faster still (docs/performance.md).
const fewPackedRows = 8

// QMatMul is y = x·W + bias.
func (d *Device) QMatMul(y, x tensor.Tensor, w device.Matrix, bias tensor.Tensor) {
	want(y.Rows == x.Rows && y.Cols == w.Out() && x.Cols == w.In() && (bias.Nil() || bias.Cols == y.Cols), "QMatMul", y, x, bias)
	if x.Rows == 0 {
		return
	}
	if a, ok := w.(*affineMatrix); ok {
		a.multiply(d, y, x, bias)
		return
	}
	m := w.(*matrix)
	p := packed{x: x, list: [mostMatrices]*matrix{m}, n: 1}
	p.y[0], p.bias[0] = y, bias
	if !m.order.Nil() && d.takesPacked(&p) {
		p.x = d.aligned(x)
		d.multiplyPacked(&p)
		return
	}
	if d.hopper() && x.Rows >= tiledRows {
		d.manyProducts(&p)
		return
	}
	if x.Rows > fewPackedRows && !m.order.Nil() && d.takesSome(&p) {
		p.x = d.aligned(x)
		d.someProducts(&p)
		return
	}
	fit := 0
	if !m.order.Nil() {
		fit = d.fit(p.needs(d.sms), x.Rows)
	}
	if x.Rows > packedRows || fit == 0 {
		d.decodedProduct(y, x, m, bias)
		return
	}
	x = d.aligned(x)
	parts := pieces(x.Rows, fit)
	for i := range parts {
		lo, hi := i*x.Rows/parts, (i+1)*x.Rows/parts
		p.x, p.y[0], p.bias[0] = x.Slice(lo, hi), y.Slice(lo, hi), bias
		d.packedProducts(&p)
	}
}

// aligned returns x with rows that begin at 16 bytes, in workspace if need be.
func (d *Device) aligned(x tensor.Tensor) tensor.Tensor {
	if atSixteenBytes(x) {
		return x
	}
	xs := d.scratch(scratchInputs, tensor.F16, x.Rows, x.Cols)
	d.Copy(xs, x)
	return xs
}

// atSixteenBytes reports whether every row of x begins at 16 bytes.
func atSixteenBytes(x tensor.Tensor) bool { return rowsAt(x, 16) }

// rowsAt reports whether every row of x begins at a multiple of so many bytes.
func rowsAt(x tensor.Tensor, bytes int) bool {
	return x.Off%bytes == 0 && (x.Rows <= 1 || x.Stride*x.Type.Size()%bytes == 0)
}

// decodedBytes is how much of a matrix is decoded at a time.
const decodedBytes = 256 << 20

// decodedProduct decodes columns, in stored order, and multiplies them by rows
// of x in that order.
func (d *Device) decodedProduct(y, x tensor.Tensor, m *matrix, bias tensor.Tensor) {
	step := min(m.out, max(256, decodedBytes/2/m.in&^255))
	xs := d.scratch(scratchInputs, tensor.F16, x.Rows, m.in)
	weights := d.scratch(scratchWeights, tensor.F16, step, m.in)
	d.permute(xs, x, m.perm)
	for lo := 0; lo < m.out; lo += step {
		w := weights.Slice(0, min(step, m.out-lo))
		d.decode(w, m, tensor.Tensor{}, lo)
		d.dense(product{y: y, x: xs, w: w, bias: bias, column: lo})
	}
}
