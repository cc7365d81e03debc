package blas

import (
	"gonum.org/v1/gonum/blas/blas32"

	"exl2/internal/device/cpu/simd"
)

// A Left is the left operand of products by stripes of columns, each of which
// one goroutine computes: all of them together have the bits of Multiply.
type Left struct {
	p      simd.Product[float32]
	packed simd.Left
	ours   bool
}

// StripeCols returns how many columns a stripe may begin at multiples of, and
// whether it may be wider: a library's bits depend on where its tiles begin.
func StripeCols() (unit int, wider bool) {
	if _, ours := blas32.Implementation().(vectors); ours {
		return simd.ColUnit, true
	}
	return libraryCols, false
}

// KUnit returns how many of k elements a sum may be cut after: products of the
// parts, added up in order, have the bits of the whole.
func KUnit(k int) int {
	if _, ours := blas32.Implementation().(vectors); ours {
		return simd.KUnit
	}
	return k
}

// leftRows is the rows that are packed at a time.
const leftRows = 20 * simd.RowUnit

// Set turns to the left side of p, M x K, and returns how many calls of Pack,
// from 0 on, prepare it; they may run at the same time.
func (l *Left) Set(p simd.Product[float32]) (calls int) {
	l.p = p
	if _, l.ours = blas32.Implementation().(vectors); !l.ours {
		return 0
	}
	l.packed.Reset(p.M, p.K)
	return (p.M + leftRows - 1) / leftRows
}

// Release allows the memory of what is packed to be used again.
func (l *Left) Release() { l.packed.Release() }

// Pack prepares a part of the operand.
func (l *Left) Pack(call int) { l.packed.Pack(&l.p, call*leftRows, min(l.p.M, (call+1)*leftRows)) }

// Parts returns how many parts of the product, of rows each, may be computed by
// themselves, up to as many as are wanted: one with a library, whose bits depend on where
// its tiles begin.
func (l *Left) Parts(wanted int) int {
	if !l.ours {
		return 1
	}
	return max(1, min(wanted, l.p.M/leastRows))
}

// leastRows is how many rows a part has at least: each packs its right operand.
const leastRows = 4 * simd.RowUnit

// Rows returns the rows of the product that a part of some has.
func (l *Left) Rows(part, of int) (lo, hi int) {
	units := (l.p.M + simd.RowUnit - 1) / simd.RowUnit
	return units * part / of * simd.RowUnit, min(l.p.M, units*(part+1)/of*simd.RowUnit)
}

// MultiplyPart computes a part of some of what Multiply computes.
func (l *Left) MultiplyPart(part, of int, c []float32, ldc int, b []float32, ldb, n int) {
	if of == 1 {
		l.Multiply(c, ldc, b, ldb, n)
		return
	}
	lo, hi := l.Rows(part, of)
	if lo == hi || l.p.K == 0 || n == 0 {
		return
	}
	p := l.p
	p.M, p.N, p.C, p.LDC, p.B = hi-lo, n, c[lo*ldc:], ldc, simd.Operand[float32]{Data: b, Row: ldb, Col: 1}
	l.packed.Multiply(&p, lo)
}

// Multiply computes a stripe of n columns of the product, C in rows of ldc and B
// in rows of ldb.
func (l *Left) Multiply(c []float32, ldc int, b []float32, ldb, n int) {
	p := l.p
	p.N, p.C, p.LDC, p.B = n, c, ldc, simd.Operand[float32]{Data: b, Row: ldb, Col: 1}
	if p.M == 0 || p.K == 0 || n == 0 {
		return
	}
	if l.ours {
		l.packed.Multiply(&p, 0)
		return
	}
	ta, a, lda := stored(p.A, p.M, p.K)
	tb, right, ldr := stored(p.B, p.K, p.N)
	for i := 0; i < p.M; i += libraryRows {
		blas32.Implementation().Sgemm(ta, tb, min(libraryRows, p.M-i), n, p.K, p.Alpha, a[i*p.A.Row:], lda, right, ldr, p.Beta, c[i*ldc:], ldc)
	}
}
