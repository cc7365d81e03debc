package blas

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"

	"exl2/internal/device/cpu/simd"
)

// vectors is gonum's implementation with package simd's matrix products.
type vectors struct{ gonum.Implementation }

// Sgemm is C = alpha·op(A)·op(B) + beta·C.
func (vectors) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int) {
	simd.Gemm(&simd.Product[float32]{M: m, N: n, K: k, Alpha: alpha, A: operand(tA, a, lda), B: operand(tB, b, ldb), Beta: beta, C: c, LDC: ldc})
}

// Dgemm is Sgemm in float64.
func (vectors) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64, c []float64, ldc int) {
	simd.Gemm(&simd.Product[float64]{M: m, N: n, K: k, Alpha: alpha, A: operand(tA, a, lda), B: operand(tB, b, ldb), Beta: beta, C: c, LDC: ldc})
}

// operand is a row-major matrix, transposed if t says so.
func operand[T simd.Float](t blas.Transpose, data []T, ld int) simd.Operand[T] {
	if t == blas.NoTrans {
		return simd.Operand[T]{Data: data, Row: ld, Col: 1}
	}
	return simd.Operand[T]{Data: data, Row: 1, Col: ld}
}
