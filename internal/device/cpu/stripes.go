package cpu

import (
	"iter"
	"runtime"

	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/exl2"
)

// blockRows is how many rows' errors are passed on to the rest of the matrix at
// a time: one product with a deep sum instead of several that read and write
// all of it for a shallow one.
const blockRows = 256

// A block is groups first to last of a matrix: rows row to end.
type block struct{ first, last, row, end int }

// blocks cuts the groups into blocks of at least blockRows rows, but for the last.
func blocks(groups []exl2.Group) iter.Seq[block] {
	return func(yield func(block) bool) {
		b := block{}
		for i, g := range groups {
			b.last, b.end = i, g.Row+g.Rows
			if b.end-b.row < blockRows && i+1 < len(groups) {
				continue
			}
			if !yield(b) {
				return
			}
			b = block{first: i + 1, row: b.end}
		}
	}
}

// Columns of a stripe, if the matrices are wide or many and if they are not, and
// the stripes that keep many cores busy.
const (
	wideStripe  = 64
	manyStripes = 128
)

// stripeCols returns the columns of a stripe: what one goroutine quantizes of
// matrices that have so many columns together.
func stripeCols(columns int) int {
	unit, wider := blas.StripeCols()
	if wider && columns >= manyStripes/2*wideStripe {
		return wideStripe
	}
	return unit
}

// atOnce returns how many of count matrices, with so many columns together, are
// worked on at a time: each takes memory.
func atOnce(columns, count int) int {
	stripes := max(1, columns/max(1, count)/stripeCols(columns))
	return max(1, min(count, (manyStripes+stripes-1)/stripes, runtime.GOMAXPROCS(0)))
}

// columnsOf returns how many columns the matrices of a list have together.
func columnsOf(list []device.Coding) (n int) {
	for _, c := range list {
		n += c.Codes.Cols
	}
	return n
}

// factor is a device.Factor as slices.
type factor struct {
	k                int
	u, h, importance []float32
}

func factorOf(op string, f device.Factor, list []device.Coding) factor {
	k := f.U.Rows
	want(f.U.Cols == k && f.H.Rows == k && f.H.Cols == k && f.Importance.Rows*f.Importance.Cols == k, op, f.U, f.H, f.Importance)
	for _, c := range list {
		want(c.W.Rows == k && c.Codes.Rows == k && c.Groups[0].Row == 0, op, c.W, c.Codes, f.U)
	}
	return factor{k, floats(op, f.U), floats(op, f.H), floats(op, f.Importance)}
}

// passOn turns l to the left side of w -= mᵀ·e, for e the changes of rows from to
// end and w rows lo to hi, m [k, k]: how rows learn of the changes of others.
func (f *factor) passOn(l *blas.Left, m []float32, from, end, lo, hi int) (calls int) {
	if lo == hi {
		return l.Set(simd.Product[float32]{})
	}
	return l.Set(simd.Product[float32]{
		M: hi - lo, K: end - from, Alpha: -1, Beta: 1,
		A: simd.Operand[float32]{Data: m[from*f.k+lo:], Row: 1, Col: f.k},
	})
}

// stripes is a matrix of floats, cut into stripes of columns each of which lies
// together, so that a column's rows do not compete for lines of caches.
type stripes struct {
	k, n, cols int
	data       []float32
}

func (s *stripes) count() int { return (s.n + s.cols - 1) / s.cols }

// columns returns which columns of the matrix stripe i has.
func (s *stripes) columns(i int) (lo, hi int) { return i * s.cols, min(s.n, (i+1)*s.cols) }

// rows returns rows from to end of stripe i, and how many columns it has.
func (s *stripes) rows(i, from, end int) (data []float32, cols int) {
	lo, hi := s.columns(i)
	at, cols := lo*s.k, hi-lo
	return s.data[at+from*cols : at+end*cols], cols
}

// take copies rows of the matrix, [k, n], to stripe i.
func (s *stripes) take(i int, m []float32) {
	lo, hi := s.columns(i)
	data, cols := s.rows(i, 0, s.k)
	for r := range s.k {
		copy(data[r*cols:(r+1)*cols], m[r*s.n+lo:r*s.n+hi])
	}
}

// each calls step for every row of group g of stripe i in turn; step replaces
// the row, and the row times the factors that it returns is subtracted from the
// group's rows after it.
func (s *stripes) each(i int, c *coding, g int, step func(grid simd.Grid, codes []uint8, row []float32, r, end int) []float32) {
	lo, hi := s.columns(i)
	first, end := c.rows(g)
	w, cols := s.rows(i, first, end)
	var buf [2 * maxStripe]float32
	grid := c.grid(g, lo, hi, buf[:])
	for r := first; r < end; r++ {
		row, after := w[:cols], w[cols:]
		if factors := step(grid, c.codes[r*c.n+lo:r*c.n+hi], row, r, end); len(factors) > 0 {
			simd.SubtractOuter(after, cols, factors, row)
		}
		w = after
	}
}

// maxStripe is the columns of the widest stripe.
const maxStripe = 192
