package cpu

import (
	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// TakeColumns fills in the parts of blocks.
func (d *Device) TakeColumns(list []device.ColumnBlock) {
	parallel.For(len(list), func(i int) {
		b := list[i]
		n, m := b.Cols.Cols, b.Target.Cols
		want(b.Part.Codes.Cols == n && b.Part.W.Cols == n && b.First+n <= m, "TakeColumns", b.Part.Codes, b.Part.W, b.Target)
		w, target := floats("TakeColumns", b.Part.W), floats("TakeColumns", b.Target)
		parallel.Runs(b.Part.W.Rows, rowsAtOnce(n), func(lo, hi int) {
			for i := lo; i < hi; i++ {
				copy(w[i*n:(i+1)*n], target[i*m+b.First:])
			}
		})
		take := func(to, from []uint8, c []int32) {
			for j, at := range c {
				to[j] = from[at]
			}
		}
		eachRow("TakeColumns", b.Part.Codes, b.Of.Codes, b.Cols, take)
		eachRow("TakeColumns", b.Part.Scales, b.Of.Scales, b.Cols, take)
	})
}

// PutColumns puts codes of blocks back, and has the columns behind make up for errors.
func (d *Device) PutColumns(list []device.ColumnBlock) {
	parallel.For(len(list), func(i int) {
		b := list[i]
		eachRow("PutColumns", b.Of.Codes, b.Part.Codes, b.Cols, func(to, from []uint8, c []int32) {
			for j, at := range c {
				to[at] = from[j]
			}
		})
		k, n, m, behind := b.Part.W.Rows, b.Cols.Cols, b.Target.Cols, b.First+b.Cols.Cols
		want(b.Feed.Rows == n && b.Feed.Cols == m, "PutColumns", b.Feed, b.Target)
		if behind == m {
			return
		}
		errors, release := d.borrowed(k * n)
		d.errors(errors, b.Part)
		blas.Multiply(&simd.Product[float32]{
			M: k, N: m - behind, K: n, Alpha: -1, Beta: 1, C: floats("PutColumns", b.Target)[behind:], LDC: m,
			A: simd.Operand[float32]{Data: errors, Row: n, Col: 1}, B: simd.Operand[float32]{Data: floats("PutColumns", b.Feed)[behind:], Row: m, Col: 1},
		})
		release()
	})
}

// errors stores W less the weights of its codes.
func (d *Device) errors(to []float32, c device.Coding) {
	s, w := codingOf("PutColumns", c), floats("PutColumns", c.W)
	d.eachValues(s, to, func(r int, row []float32) {
		for c, v := range w[r*s.n : (r+1)*s.n] {
			row[c] = v - row[c]
		}
	})
}

// eachRow calls f for the rows of two matrices of codes.
func eachRow(op string, dst, src, cols tensor.Tensor, f func(to, from []uint8, c []int32)) {
	out, in, c := bytesAs(op, dst), bytesAs(op, src), ints(op, cols)
	want(dst.Rows == src.Rows, op, dst, src)
	parallel.Runs(dst.Rows, rowsAtOnce(dst.Cols), func(lo, hi int) {
		for i := lo; i < hi; i++ {
			f(out[i*dst.Cols:(i+1)*dst.Cols], in[i*src.Cols:(i+1)*src.Cols], c)
		}
	})
}

// Feeds makes what errors of blocks of columns take off the others.
func (d *Device) Feeds(list []device.Feed, n int) {
	parallel.For(len(list), func(i int) {
		f := list[i]
		side := f.U.Rows
		want(f.U.Cols == side && f.Feed.Rows == side && f.Feed.Cols == side, "Feeds", f.Feed, f.U)
		u, feed := floats("Feeds", f.U), floats("Feeds", f.Feed)
		inverses := make([][]float32, (side+n-1)/n)
		parallel.For(len(inverses), func(b int) { inverses[b] = inverted(u[b*n*(side+1):], side, min(n, side-b*n)) })
		clear(feed)
		for b, inverse := range inverses {
			lo := b * n
			m := min(n, side-lo)
			blas.Multiply(&simd.Product[float32]{
				M: m, N: side, K: m, Alpha: -1, Beta: 1, C: feed[lo*side:], LDC: side,
				A: simd.Operand[float32]{Data: inverse, Row: 1, Col: m}, B: simd.Operand[float32]{Data: u[lo*side:], Row: side, Col: 1},
			})
		}
	})
}

// inverted returns -u⁻¹, transposed, of u, [m, m] and upper triangular: row i has column
// i of the inverse.
func inverted(u []float32, stride, m int) []float32 {
	out := make([]float32, m*m)
	for j := range m {
		x := make([]float64, m)
		for i := j; i >= 0; i-- {
			if i == j {
				x[i] = 1
			}
			for at := i + 1; at <= j; at++ {
				x[i] -= float64(u[i*stride+at]) * x[at]
			}
			x[i] /= float64(u[i*stride+i])
			out[j*m+i] = -float32(x[i])
		}
	}
	return out
}
