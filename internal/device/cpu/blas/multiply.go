package blas

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
)

// Multiply computes p on all cores, with the BLAS that is installed. Tiles
// depend on the shape alone, so the bits do not depend on the number of cores.
func Multiply(p *simd.Product[float32]) { multiply(p, whole) }

// MultiplyUpper is Multiply where only the elements (i, j) of C with i <= j
// matter; the others are computed or left.
func MultiplyUpper(p *simd.Product[float32]) { multiply(p, upper) }

// An extent is what is computed of C.
type extent uint8

const (
	whole extent = iota
	upper
)

func multiply(p *simd.Product[float32], what extent) {
	p.Check()
	switch _, ours := blas32.Implementation().(vectors); {
	case p.M == 0 || p.N == 0:
	case p.K == 0 || p.Alpha == 0:
		simd.Gemm(p)
	case ours:
		byPanels(p, what)
	default:
		byLibrary(p, what)
	}
}

// byPanels packs every operand once for all tiles.
func byPanels(p *simd.Product[float32], what extent) {
	for k := 0; k < p.K; {
		q := simd.NewPanels(p, k)
		packAll(q, p.M, p.N)
		gridOf(p.M, p.N, what).each(q.Multiply)
		k = q.Next()
		q.Release()
	}
}

// Rows of A and columns of B that are packed at a time.
const (
	packRows = 5 * simd.RowUnit
	packCols = 2 * simd.ColUnit
)

func packAll(q *simd.Panels, m, n int) {
	left, right := (m+packRows-1)/packRows, (n+packCols-1)/packCols
	parallel.For(left+right, func(i int) {
		if i < left {
			q.PackA(i*packRows, min(m, (i+1)*packRows))
		} else {
			i -= left
			q.PackB(i*packCols, min(n, (i+1)*packCols))
		}
	})
}

// Tiles of C that a library computes, packing the operands of each.
const (
	libraryRows = 480
	libraryCols = 192
)

// byLibrary calls Sgemm for every tile.
func byLibrary(p *simd.Product[float32], what extent) {
	ta, a, lda := stored(p.A, p.M, p.K)
	tb, b, ldb := stored(p.B, p.K, p.N)
	g := grid{m: p.M, n: p.N, rows: libraryRows, cols: libraryCols, extent: what}
	g.each(func(i, j, rows, cols int) {
		blas32.Implementation().Sgemm(ta, tb, rows, cols, p.K, p.Alpha, a[i*p.A.Row:], lda, b[j*p.B.Col:], ldb, p.Beta, p.C[i*p.LDC+j:], p.LDC)
	})
}

// stored is the inverse of operand.
func stored(o simd.Operand[float32], rows, cols int) (t blas.Transpose, data []float32, ld int) {
	if o.Col == 1 {
		return blas.NoTrans, o.Data, max(o.Row, cols)
	}
	return blas.Trans, o.Data, max(o.Col, rows)
}

// A grid cuts the elements of C into tiles.
type grid struct {
	m, n       int
	rows, cols int // of a tile
	extent     extent
}

// Tiles of C, the largest and the smallest: large ones read panels less often,
// many keep many cores busy to the end.
const (
	maxTileRows, maxTileCols = 240, 256
	minTileRows              = 60
	manyTiles                = 96
)

func gridOf(m, n int, what extent) grid {
	g := grid{m, n, maxTileRows, maxTileCols, what}
	for g.rows > minTileRows && g.down()*g.across() < manyTiles {
		g.rows, g.cols = g.rows/2, g.cols/2
	}
	return g
}

func (g grid) down() int   { return (g.m + g.rows - 1) / g.rows }
func (g grid) across() int { return (g.n + g.cols - 1) / g.cols }

// each calls f for the tiles on all cores.
func (g grid) each(f func(i, j, rows, cols int)) {
	across := g.across()
	parallel.For(g.down()*across, func(t int) {
		i, j := t/across*g.rows, t%across*g.cols
		if g.extent == whole || i < j+g.cols {
			f(i, j, min(g.rows, g.m-i), min(g.cols, g.n-j))
		}
	})
}
