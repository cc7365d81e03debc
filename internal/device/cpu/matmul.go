package cpu

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A product of few rows reads each weight once and is bound by memory: below
// fewRows it is done row of w by row of w, without widening w first.
const fewRows = 8

// stripeFloats is how many weights are widened at a time for the other products.
const stripeFloats = 8 << 20

// MatMul is y = x·wᵀ + bias.
func (d *Device) MatMul(y, x, w, bias tensor.Tensor) {
	want(y.Rows == x.Rows && y.Cols == w.Rows && x.Cols == w.Cols && (bias.Nil() || bias.Cols == y.Cols), "MatMul", y, x, w, bias)
	d.denseProduct(rowsOf("MatMul", y), rowsOf("MatMul", x), w, x.Rows)
	addBias(y, bias)
}

// MatMulHeads multiplies heads of rows by a matrix of each head's own.
func (d *Device) MatMulHeads(y, x, w tensor.Tensor, h device.HeadMul) {
	want(h.Fits(y, x, w), "MatMulHeads", y, x, w)
	h.By(d, y, x, w)
}

// denseProduct multiplies rows of x.
func (d *Device) denseProduct(y, x strided, w tensor.Tensor, rows int) {
	if rows <= fewRows {
		parallel.Runs(w.Rows, gemvSet, func(lo, hi int) { dotRows(y, x, w, rows, lo, hi) })
		return
	}
	d.widenedProducts(y, x, rows, func(dst []float32, lo, hi int) {
		for r := lo; r < hi; r++ {
			widenRow(dst[(r-lo)*w.Cols:(r-lo+1)*w.Cols], w, r)
		}
	})
}

// stripe returns how many columns of k weights are widened at a time.
func stripe(k int) int { return max(256, stripeFloats/max(1, k)&^255) }

// widenedProducts computes y = x·wᵀ for some rows of x; widen stores rows lo to
// hi of w, multiples of 4 but for the end, in dst.
func (d *Device) widenedProducts(y, x strided, rows int, widen func(dst []float32, lo, hi int)) {
	k, size := x.cols, stripe(x.cols)
	for lo := 0; lo < y.cols; lo += size {
		n := min(size, y.cols-lo)
		w, release := d.borrowed(wholeQuads(n) * k)
		parallel.Runs(n, widenTile, func(from, to int) { widen(w[from*k:], lo+from, lo+to) })
		blas.Multiply(&simd.Product[float32]{
			M: rows, N: n, K: k, Alpha: 1, C: y.data[lo:], LDC: y.stride,
			A: simd.Operand[float32]{Data: x.data, Row: x.stride, Col: 1},
			B: simd.Operand[float32]{Data: w, Row: 1, Col: k},
		})
		release()
	}
}

// widenTile is the columns that one goroutine widens.
const widenTile = 16

// dotRows computes columns lo to hi of y, rows of them.
func dotRows(y, x strided, w tensor.Tensor, rows, lo, hi int) {
	k, part := w.Cols, w.Slice(lo, hi)
	for r := range rows {
		out, in := y.row(r)[lo:hi], x.row(r)
		clear(out)
		switch w.Type {
		case tensor.F32:
			simd.Gemv(out, in, elements[float32](part), k)
		case tensor.F16:
			simd.Gemv(out, in, elements[half.F16](part), k)
		case tensor.BF16:
			simd.Gemv(out, in, elements[half.BF16](part), k)
		default:
			panic(fmt.Sprintf("cpu: MatMul: weights are %v", w))
		}
	}
}

func addBias(y, bias tensor.Tensor) {
	if bias.Nil() {
		return
	}
	out, b := rowsOf("MatMul", y), floats("MatMul", bias)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) {
		row := out.row(r)[lo:hi]
		for c, v := range b[lo:hi] {
			row[c] += v
		}
	})
}
