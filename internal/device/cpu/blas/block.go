package blas

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
)

// factorBlock replaces the lower triangle of a by its Cholesky factor, stores
// the inverse of that in x, zeros above the diagonal, and reports whether a is
// positive definite. It halves a until plain loops can handle it.
func factorBlock(a, x blas64.General) bool {
	n := a.Rows
	if n <= small {
		if !factorSmall(a) {
			return false
		}
		invertSmall(x, a)
		return true
	}
	h := (n/small + 1) / 2 * small
	a11, a21, a22 := part(a, 0, 0, h, h), part(a, h, 0, n-h, h), part(a, h, h, n-h, n-h)
	x11, x12, x21, x22 := part(x, 0, 0, h, h), part(x, 0, h, h, n-h), part(x, h, 0, n-h, h), part(x, h, h, n-h, n-h)
	if !factorBlock(a11, x11) {
		return false
	}
	copyTo(x21, a21)
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, x21, x11, 0, a21)
	blas64.Gemm(blas.NoTrans, blas.Trans, -1, a21, a21, 1, a22)
	if !factorBlock(a22, x22) {
		return false
	}
	half := blas64.General{Rows: n - h, Cols: h, Stride: h, Data: make([]float64, (n-h)*h)}
	blas64.Gemm(blas.NoTrans, blas.NoTrans, -1, a21, x11, 0, half)
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, x22, half, 0, x21)
	for i := range x12.Rows {
		clear(x12.Data[i*x12.Stride:][:x12.Cols])
	}
	return true
}

// part returns a view of rows × cols elements of m from (i, j) on.
func part(m blas64.General, i, j, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: m.Stride, Data: m.Data[i*m.Stride+j:]}
}

func copyTo(dst, src blas64.General) {
	for i := range dst.Rows {
		copy(dst.Data[i*dst.Stride:][:dst.Cols], src.Data[i*src.Stride:])
	}
}

// factorSmall is the Cholesky factorization row by row.
func factorSmall(a blas64.General) bool {
	for i := range a.Rows {
		row := a.Data[i*a.Stride:][:i+1]
		for j := range row {
			other := a.Data[j*a.Stride:][:j+1]
			sum := row[j]
			for k, v := range other[:j] {
				sum -= row[k] * v
			}
			switch {
			case j < i:
				row[j] = sum / other[j]
			case sum > 0 && sum <= math.MaxFloat64:
				row[j] = math.Sqrt(sum)
			default:
				return false
			}
		}
	}
	return true
}

// invertSmall stores the inverse of the lower triangular l in x, zeros above
// the diagonal: row i is (eᵢ - Σₖ l[i,k]·x[k]) / l[i,i] over k < i.
func invertSmall(x, l blas64.General) {
	for i := range l.Rows {
		row := x.Data[i*x.Stride:][:l.Rows]
		clear(row)
		for k, v := range l.Data[i*l.Stride:][:i] {
			for j, e := range x.Data[k*x.Stride:][:k+1] {
				row[j] -= v * e
			}
		}
		inv := 1 / l.Data[i*l.Stride+i]
		for j := range i {
			row[j] *= inv
		}
		row[i] = inv
	}
}
