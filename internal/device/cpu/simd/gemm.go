package simd

import (
	"fmt"
)

// Float is an element type of matrix products.
type Float interface{ float32 | float64 }

// An Operand is a matrix whose element (i, j) is Data[i·Row + j·Col]. One of
// Row and Col is 1; swapping them transposes the matrix.
type Operand[T Float] struct {
	Data     []T
	Row, Col int
}

// A Product is C = Alpha·A·B + Beta·C for A [M, K], B [K, N] and C [M, N], which
// is row-major with LDC elements from row to row. C is not read if Beta is 0,
// and must not overlap A or B.
type Product[T Float] struct {
	M, N, K     int
	Alpha, Beta T
	A, B        Operand[T]
	C           []T
	LDC         int
}

// Rows and columns that are packed at a time. An element of C is summed over
// runs of kBlock, each in order from zero and then added to C, whatever the
// other two are; so the bits of an element depend on its row of A, its column
// of B, and K alone, and callers may cut M and N anywhere.
const (
	kBlock = 256  // two panels fit the first-level cache
	mBlock = 240  // the packed block of A fits the second
	nBlock = 2048 // the packed block of B fits the second or third
)

// Gemm computes p. It panics as Check does.
func Gemm[T Float](p *Product[T]) {
	p.Check()
	if p.M == 0 || p.N == 0 {
		return
	}
	if p.K == 0 || p.Alpha == 0 {
		p.scale()
		return
	}
	w := workspaceOf[T](p.M, p.N, p.K)
	defer w.release()
	for k := 0; k < p.K; k += kBlock {
		for j := 0; j < p.N; j += nBlock {
			w.add(p, j, k)
		}
	}
}

// scale is C *= Beta.
func (p *Product[T]) scale() {
	for i := range p.M {
		row := p.C[i*p.LDC : i*p.LDC+p.N]
		if p.Beta == 0 {
			clear(row)
			continue
		}
		for j := range row {
			row[j] *= p.Beta
		}
	}
}

// Check panics unless the operands hold what the sizes say.
func (p *Product[T]) Check() {
	if p.M < 0 || p.N < 0 || p.K < 0 {
		panic(fmt.Sprintf("simd: Gemm: size %d x %d x %d", p.M, p.N, p.K))
	}
	if p.M == 0 || p.N == 0 {
		return
	}
	if p.LDC < p.N || len(p.C) < (p.M-1)*p.LDC+p.N {
		panic(fmt.Sprintf("simd: Gemm: C has %d elements in rows of %d, want %d x %d", len(p.C), p.LDC, p.M, p.N))
	}
	if p.K > 0 && p.Alpha != 0 {
		p.A.check("A", p.M, p.K)
		p.B.check("B", p.K, p.N)
	}
}

func (o *Operand[T]) check(name string, rows, cols int) {
	if o.Row < 1 || o.Col < 1 || min(o.Row, o.Col) != 1 || len(o.Data) <= (rows-1)*o.Row+(cols-1)*o.Col {
		panic(fmt.Sprintf("simd: Gemm: %s has %d elements in steps of %d and %d, want %d x %d", name, len(o.Data), o.Row, o.Col, rows, cols))
	}
}

// left is rows i to i+n of A, the elements of K from k on.
func (p *Product[T]) left(i, n, k, depth int) run[T] {
	return run[T]{p.A.Data[i*p.A.Row+k*p.A.Col:], p.A.Row, p.A.Col, n, depth}
}

// right is columns j to j+n of B, the elements of K from k on.
func (p *Product[T]) right(j, n, k, depth int) run[T] {
	return run[T]{p.B.Data[k*p.B.Row+j*p.B.Col:], p.B.Col, p.B.Row, n, depth}
}

// carry is the factor of C when the elements of K from k on are added: Beta once.
func (p *Product[T]) carry(k int) T {
	if k == 0 {
		return p.Beta
	}
	return 1
}

// A workspace is what one Gemm needs beside its operands.
type workspace[T Float] struct {
	tiler[T]
	a, b []T // packed blocks of A and B
}

// workspaceOf returns a workspace for blocks of m rows and n columns at most, depth deep.
func workspaceOf[T Float](m, n, depth int) *workspace[T] {
	w := &workspace[T]{tiler: tilerOf[T]()}
	depth = min(depth, kBlock)
	w.a, w.b = shelfOf[T]().take(roundUp(min(m, mBlock), w.rows)*depth), shelfOf[T]().take(roundUp(min(n, nBlock), w.cols)*depth)
	return w
}

func (w *workspace[T]) release() {
	shelfOf[T]().give(w.a)
	shelfOf[T]().give(w.b)
}

// add adds the products of kBlock columns of A from k on and nBlock columns of
// B from j on.
func (w *workspace[T]) add(p *Product[T], j, k int) {
	m := panels[T]{a: w.a, b: w.b, depth: min(kBlock, p.K-k), width: min(nBlock, p.N-j), alpha: p.Alpha, beta: p.carry(k), ldc: p.LDC}
	w.packB(w.b, p.right(j, m.width, k, m.depth))
	for i := 0; i < p.M; i += mBlock {
		m.height, m.c = min(mBlock, p.M-i), p.C[i*p.LDC+j:]
		w.packA(w.a, p.left(i, m.height, k, m.depth))
		w.multiply(m)
	}
}
