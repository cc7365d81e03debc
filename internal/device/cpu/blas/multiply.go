package blas

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
)

// Multiply computes p on all cores, with the BLAS that is installed. Tiles
// depend on the shape alone, so the bits do not depend on the number of cores.
func Multiply(p *simd.Product[float32]) { AddAll([]Sum{{Products: []simd.Product[float32]{*p}}}) }

// A Sum is products of one shape that are added to one C, in order.
type Sum struct {
	Products []simd.Product[float32]
	Upper    bool // only the elements (i, j) of C with i <= j matter; the others are computed or left
}

// AddAll computes all products of some sums, whose C do not overlap, with the bits
// that Multiply has for one after the other.
func AddAll(sums []Sum) {
	if _, ours := blas32.Implementation().(vectors); !ours {
		byLibrary(sums)
		return
	}
	b := panelled{sums: sums, parts: make([][]*simd.Panels, len(sums))}
	for i := range sums {
		for k := range sums[i].Products {
			b.add(i, &sums[i].Products[k])
		}
	}
	b.compute()
}

// panelled is products whose operands are packed once for all tiles.
type panelled struct {
	sums   []Sum
	parts  [][]*simd.Panels // of each sum, to be packed and computed
	floats int              // in them
}

// mostFloats is how many elements are packed before they are used.
const mostFloats = 8 << 20

// add adds a product, and computes what has been added when there is much of it.
func (b *panelled) add(sum int, p *simd.Product[float32]) {
	p.Check()
	if p.M == 0 || p.N == 0 {
		return
	}
	if p.K == 0 || p.Alpha == 0 {
		b.compute()
		simd.Gemm(p)
		return
	}
	for k := 0; k < p.K; {
		q := simd.NewPanels(p, k)
		b.parts[sum] = append(b.parts[sum], q)
		b.floats += (p.M + p.N) * (q.Next() - k)
		if k = q.Next(); b.floats >= mostFloats {
			b.compute()
		}
	}
}

// compute packs the panels, and computes their tiles.
func (b *panelled) compute() {
	var packing []piece
	var tiles []tileOf
	for i, list := range b.parts {
		if len(list) == 0 {
			continue
		}
		p := &b.sums[i].Products[0]
		for _, q := range list {
			packing = pieces(packing, q, p.M, p.N)
		}
		tiles = gridOf(p.M, p.N, b.sums[i].Upper).tiles(tiles, i)
	}
	parallel.For(len(packing), func(i int) { packing[i].pack() })
	parallel.For(len(tiles), func(i int) {
		t := tiles[i]
		for _, q := range b.parts[t.sum] {
			q.Multiply(t.i, t.j, t.rows, t.cols)
		}
	})
	for i, list := range b.parts {
		for _, q := range list {
			q.Release()
		}
		b.parts[i] = nil
	}
	b.floats = 0
}

// Rows of A and columns of B that are packed at a time.
const (
	packRows = 5 * simd.RowUnit
	packCols = 2 * simd.ColUnit
)

// A piece is rows of A, or columns of B, that are packed at a time.
type piece struct {
	q      *simd.Panels
	right  bool
	lo, hi int
}

// pieces appends those of the operands of an m x n product.
func pieces(list []piece, q *simd.Panels, m, n int) []piece {
	for lo := 0; lo < m; lo += packRows {
		list = append(list, piece{q, false, lo, min(m, lo+packRows)})
	}
	for lo := 0; lo < n; lo += packCols {
		list = append(list, piece{q, true, lo, min(n, lo+packCols)})
	}
	return list
}

func (p piece) pack() {
	if p.right {
		p.q.PackB(p.lo, p.hi)
	} else {
		p.q.PackA(p.lo, p.hi)
	}
}

// Tiles of C that a library computes, packing the operands of each.
const (
	libraryRows = 480
	libraryCols = 192
)

// byLibrary calls Sgemm for every tile.
func byLibrary(sums []Sum) {
	var tiles []tileOf
	for i, s := range sums {
		if len(s.Products) > 0 {
			p := &s.Products[0]
			tiles = grid{m: p.M, n: p.N, rows: libraryRows, cols: libraryCols, upper: s.Upper}.tiles(tiles, i)
		}
	}
	parallel.For(len(tiles), func(i int) {
		for k := range sums[tiles[i].sum].Products {
			tiles[i].byLibrary(&sums[tiles[i].sum].Products[k])
		}
	})
}

func (t tileOf) byLibrary(p *simd.Product[float32]) {
	p.Check()
	if p.K == 0 || p.Alpha == 0 {
		q := *p
		q.M, q.N, q.C = t.rows, t.cols, p.C[t.i*p.LDC+t.j:]
		simd.Gemm(&q)
		return
	}
	ta, a, lda := stored(p.A, p.M, p.K)
	tb, b, ldb := stored(p.B, p.K, p.N)
	blas32.Implementation().Sgemm(ta, tb, t.rows, t.cols, p.K, p.Alpha, a[t.i*p.A.Row:], lda, b[t.j*p.B.Col:], ldb, p.Beta, p.C[t.i*p.LDC+t.j:], p.LDC)
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
	upper      bool
}

// Tiles of C, the largest and the smallest: large ones read panels less often,
// many keep many cores busy to the end.
const (
	maxTileRows, maxTileCols = 240, 256
	minTileRows              = 60
	manyTiles                = 96
)

func gridOf(m, n int, upper bool) grid {
	g := grid{m, n, maxTileRows, maxTileCols, upper}
	for g.rows > minTileRows && g.down()*g.across() < manyTiles {
		g.rows, g.cols = g.rows/2, g.cols/2
	}
	return g
}

func (g grid) down() int   { return (g.m + g.rows - 1) / g.rows }
func (g grid) across() int { return (g.n + g.cols - 1) / g.cols }

// A tileOf is rows × cols elements of a sum's C from (i, j) on.
type tileOf struct{ sum, i, j, rows, cols int }

// tiles appends the tiles of a sum.
func (g grid) tiles(list []tileOf, sum int) []tileOf {
	for i := 0; i < g.m; i += g.rows {
		for j := 0; j < g.n; j += g.cols {
			if !g.upper || i < j+g.cols {
				list = append(list, tileOf{sum, i, j, min(g.rows, g.m-i), min(g.cols, g.n-j)})
			}
		}
	}
	return list
}
