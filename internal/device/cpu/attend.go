package cpu

import (
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Store appends rows of keys and values to the cache.
func (d *Device) Store(c device.Cache, k, v tensor.Tensor, b device.Batch) {
	want(k.Rows == b.Pos.Cols && v.Rows == k.Rows && k.Cols == c.K.Cols && v.Cols == c.V.Cols, "Store", k, v, c.K, b.Pos)
	p := pagesOf(c)
	pos, seq := ints("Store", b.Pos), ints("Store", b.Seq)
	for r := range pos {
		at := p.row(int(seq[r]), int(pos[r]))
		copy(p.k[at*p.cols:(at+1)*p.cols], floats("Store", k.Slice(r, r+1)))
		copy(p.v[at*p.cols:(at+1)*p.cols], floats("Store", v.Slice(r, r+1)))
	}
}

// pages is a cache's memory.
type pages struct {
	k, v      []float32
	cols      int
	table     []int32
	tableCols int
	rowsAPage int
}

func pagesOf(c device.Cache) pages {
	return pages{
		k: floats("Attend", c.K), v: floats("Attend", c.V), cols: c.K.Cols,
		table: ints("Attend", c.Table), tableCols: c.Table.Cols, rowsAPage: c.PageRows,
	}
}

// row returns the row of the cache that holds a position of a sequence.
func (p pages) row(seq, pos int) int {
	return int(p.table[seq*p.tableCols+pos/p.rowsAPage])*p.rowsAPage + pos%p.rowsAPage
}

// gather copies one head of positions lo to hi of a sequence, from keys or
// values, into dst [hi-lo, dim].
func (p pages) gather(dst, from []float32, seq, lo, hi, at, dim int) {
	for pos := lo; pos < hi; pos++ {
		r := p.row(seq, pos)
		copy(dst[(pos-lo)*dim:(pos-lo+1)*dim], from[r*p.cols+at:r*p.cols+at+dim])
	}
}

// span returns one head, which begins at column at, of positions lo to hi of a
// sequence, from keys or values: rows of stride. It copies them to buf, of
// (hi-lo)·dim, unless they lie in order.
func (p pages) span(buf, from []float32, seq, lo, hi, at, dim int) (rows []float32, stride int) {
	first := p.row(seq, lo)
	for pos := lo + p.rowsAPage - lo%p.rowsAPage; pos < hi; pos += p.rowsAPage {
		if p.row(seq, pos) != first+pos-lo {
			p.gather(buf, from, seq, lo, hi, at, dim)
			return buf, dim
		}
	}
	return from[first*p.cols+at:], p.cols
}

// attendTile is how many rows of a run one goroutine takes at a time: with more
// of them, keys and values are packed less often, and more is computed of what
// the first of them must not see.
const attendTile = 128

// Attend is softmax(scale·q·Kᵀ)·V by heads.
func (d *Device) Attend(y, q tensor.Tensor, c device.Cache, a device.Attend, b device.Batch) {
	want(y.Rows == q.Rows && y.Cols == q.Cols && q.Cols == a.Heads*a.HeadDim && c.K.Cols == a.KVHeads*a.HeadDim &&
		q.Rows == b.Pos.Cols && q.Rows%b.Span == 0, "Attend", y, q, c.K, b.Pos)
	j := attention{Attend: a, pages: pagesOf(c), y: floats("Attend", y), q: floats("Attend", q), cols: q.Cols}
	pos, seq := ints("Attend", b.Pos), ints("Attend", b.Seq)
	cuts := (b.Span + attendTile - 1) / attendTile
	parallel.For(q.Rows/b.Span*cuts*a.Heads, func(i int) {
		head, tile := i%a.Heads, i/a.Heads
		run, cut := tile/cuts, tile%cuts
		lo := run*b.Span + cut*attendTile
		hi := min(lo+attendTile, (run+1)*b.Span)
		d.attendRows(j, head, lo, hi, int(seq[lo]), int(pos[lo]))
	})
}

// attention is what every tile of an Attend shares.
type attention struct {
	device.Attend
	pages
	y, q []float32
	cols int
}

// attendRows computes one head of rows lo to hi, which stand at consecutive
// positions of a sequence from first on.
func (d *Device) attendRows(j attention, head, lo, hi, seq, first int) {
	dim, rows := j.HeadDim, hi-lo
	from, to := 0, first+rows
	if j.Window > 0 {
		from = max(0, first-j.Window+1)
	}
	n := to - from
	padded := (n + scoreUnit - 1) / scoreUnit * scoreUnit
	buf, release := d.borrowed(2*n*dim + rows*padded)
	defer release()
	at := head / (j.Heads / j.KVHeads) * dim
	keys, keyStride := j.span(buf[:n*dim], j.k, seq, from, to, at, dim)
	values, valueStride := j.span(buf[n*dim:2*n*dim], j.v, seq, from, to, at, dim)
	scores := buf[2*n*dim:]

	x, out := j.q[lo*j.cols+head*dim:], j.y[lo*j.cols+head*dim:]
	sgemm := blas32.Implementation().Sgemm
	sgemm(blas.NoTrans, blas.Trans, rows, n, dim, j.Scale, x, j.cols, keys, keyStride, 0, scores, padded)
	var sums [attendTile]float32
	for r := range rows {
		last := first + r - from // the row's own position
		start := 0
		if j.Window > 0 {
			start = max(0, last-j.Window+1)
		}
		sums[r] = j.weigh(scores[r*padded:(r+1)*padded], start, last+1)
	}
	sgemm(blas.NoTrans, blas.NoTrans, rows, dim, n, 1, scores, padded, values, valueStride, 0, out, j.cols)
	for r, sum := range sums[:rows] {
		scaleRow(out[r*j.cols:r*j.cols+dim], 1/sum)
	}
}

// scoreUnit divides the length of a row of scores: exponentials are computed so
// many at a time.
const scoreUnit = 32

// weigh turns scores from start to end into weights, the others into zeros, and
// returns the sum of the weights.
func (j attention) weigh(s []float32, start, end int) (sum float32) {
	if j.Softcap != 0 {
		for i, v := range s[start:end] {
			s[start+i] = capped(v, j.Softcap)
		}
	}
	lo, hi := start/scoreUnit*scoreUnit, (end+scoreUnit-1)/scoreUnit*scoreUnit
	clear(s[:lo])
	clear(s[hi:])
	unseen := float32(math.Inf(-1))
	for i := lo; i < start; i++ {
		s[i] = unseen
	}
	for i := end; i < hi; i++ {
		s[i] = unseen
	}
	seen := s[lo:hi]
	return simd.ExpSum(seen, seen, simd.Max(seen))
}
