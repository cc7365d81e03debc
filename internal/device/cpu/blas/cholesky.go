package blas

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
)

// Sizes of the pieces that a factorization is cut into. They depend on nothing,
// so neither do the bits of a result.
const (
	panel = 128 // columns that are factored at a time
	tile  = 128 // rows and columns of an update that one goroutine takes
	half  = 64  // columns of the inverse, and rows below a diagonal block, that it takes
	small = 32  // order that plain loops handle
)

// InvertCholesky replaces the lower triangle of a, [n, n] row-major, by the
// inverse of its Cholesky factor L: the lower triangular X with X·A·Xᵀ = I. It
// reports whether a was positive definite to working precision; if not, a is
// spoiled. The strict upper triangle is not read, and left undefined.
//
// It runs on all cores; the bits of the result do not depend on their number.
func InvertCholesky(a []float64, n int) bool {
	if len(a) < n*n {
		panic("blas: InvertCholesky: matrix is shorter than n·n")
	}
	f := factor{a: a, n: n, inverse: simd.Scratch64(n * panel)}
	defer simd.Keep64(f.inverse)
	if !f.decompose() {
		return false
	}
	f.invert()
	f.flip()
	return true
}

// A factor is a matrix on its way to the inverse of its Cholesky factor.
type factor struct {
	a       []float64
	n       int
	inverse []float64 // inverses of the diagonal blocks of L, one after another, [panel, panel] each
}

// block returns a view of rows × cols elements from (i, j) on.
func (f *factor) block(i, j, rows, cols int) blas64.General {
	return blas64.General{Rows: rows, Cols: cols, Stride: f.n, Data: f.a[i*f.n+j:]}
}

// diagonal returns the inverse of the diagonal block at j.
func (f *factor) diagonal(j int) blas64.General {
	size := min(panel, f.n-j)
	return blas64.General{Rows: size, Cols: size, Stride: panel, Data: f.inverse[j*panel:]}
}

// decompose replaces the lower triangle of a by L, panel by panel: each is
// factored and then subtracted from what lies to its right.
func (f *factor) decompose() bool {
	for j := 0; j < f.n; j += panel {
		size := min(panel, f.n-j)
		d := f.diagonal(j)
		if !factorBlock(f.block(j, j, size, size), d) {
			return false
		}
		next := j + size
		rest := (f.n - next + tile - 1) / tile
		parallel.Runs(f.n-next, half, func(lo, hi int) { f.solve(next+lo, j, hi-lo, d) })
		parallel.For(rest*(rest+1)/2, func(i int) {
			row, col := triangle(i)
			f.update(next+row*tile, next+col*tile, j, size)
		})
	}
	return true
}

// solve multiplies rows below a diagonal block by the transposed inverse of it.
func (f *factor) solve(i, j, rows int, d blas64.General) {
	size := d.Rows
	c := f.block(i, j, rows, size)
	old := blas64.General{Rows: rows, Cols: size, Stride: size, Data: simd.Scratch64(rows * size)}
	defer simd.Keep64(old.Data)
	for r := range rows {
		copy(old.Data[r*size:(r+1)*size], c.Data[r*f.n:])
	}
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, old, d, 0, c)
}

// update subtracts the product of two tiles of a panel from the tile at (i, k).
func (f *factor) update(i, k, j, size int) {
	rows, cols := min(tile, f.n-i), min(tile, f.n-k)
	blas64.Gemm(blas.NoTrans, blas.Trans, -1, f.block(i, j, rows, size), f.block(k, j, cols, size), 1, f.block(i, k, rows, cols))
}

// invert stores the inverse X of L, transposed, above the blocks of the
// diagonal. The columns of X do not depend on each other.
func (f *factor) invert() {
	parallel.For((f.n+half-1)/half, func(i int) { f.invertColumns(i*half/panel*panel, i*half%panel) })
}

// invertColumns computes columns of X, from a place in a block of them on, from block row
// to block row: Xᵢ = -Lᵢᵢ⁻¹·Σₖ Lᵢₖ·Xₖ over earlier k, of which the first is on the
// diagonal.
func (f *factor) invertColumns(c, from int) {
	first := f.diagonal(c)
	size, cols := first.Rows, min(half, first.Rows-from)
	own := part(first, 0, from, size, cols)
	sum := blas64.General{Rows: cols, Stride: panel, Data: simd.Scratch64(cols * panel)}
	defer simd.Keep64(sum.Data)
	for i := c + size; i < f.n; i += panel {
		d := f.diagonal(i)
		sum.Cols = d.Rows
		blas64.Gemm(blas.Trans, blas.Trans, 1, own, f.block(i, c, d.Rows, size), 0, sum)
		if k := c + size; k < i {
			blas64.Gemm(blas.NoTrans, blas.Trans, 1, f.block(c+from, k, cols, i-k), f.block(i, k, d.Rows, i-k), 1, sum)
		}
		blas64.Gemm(blas.NoTrans, blas.Trans, -1, sum, d, 0, f.block(c+from, i, cols, d.Rows))
	}
}

// flip moves the inverse below the diagonal.
func (f *factor) flip() {
	parallel.For((f.n+panel-1)/panel, func(b int) {
		d := f.diagonal(b * panel)
		rows := f.a[b*panel*f.n:]
		for j := 0; j < b*panel; j += small {
			f.transpose(b*panel, j, d.Rows)
		}
		for i := range d.Rows {
			copy(rows[i*f.n+b*panel:][:i+1], d.Data[i*panel:])
		}
	})
}

// transpose copies the block of small × rows elements at (j, i), across the
// diagonal, to (i, j).
func (f *factor) transpose(i, j, rows int) {
	from, to := f.a[j*f.n+i:], f.a[i*f.n+j:]
	for r := range rows {
		row := to[r*f.n:][:small]
		for c := range row {
			row[c] = from[c*f.n+r]
		}
	}
}

// triangle returns the row and column of entry i of a lower triangle that is
// counted row by row.
func triangle(i int) (row, col int) {
	row = int((math.Sqrt(float64(8*i+1)) - 1) / 2)
	return row, i - row*(row+1)/2
}
