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

// attendTile is how many rows of a run one goroutine takes at a time: with more
// of them, keys and values are packed less often, and more is computed of what
// the first of them must not see.
const attendTile = 128

// Attend is softmax(scale·q·Kᵀ)·V by heads.
func (d *Device) Attend(y, q tensor.Tensor, c device.Cache, layer int, a device.Attend, b device.Batch) {
	p := pagesOf("Attend", c, layer, b)
	j := attention{Attend: a, pages: p, y: rowsOf("Attend", y), q: rowsOf("Attend", q), width: a.HeadDim}
	if a.Latent > 0 {
		j.width, j.v, j.vCols, j.skip = a.Latent, j.k, j.kCols, a.HeadDim-a.Latent
	}
	want(y.Rows == q.Rows && y.Cols == a.Heads*j.width && q.Cols == a.Heads*a.HeadDim && p.kCols == a.KVHeads*a.HeadDim && j.vCols == p.kCols &&
		j.skip >= 0 && q.Rows == b.Pos.Cols && q.Rows%b.Span == 0, "Attend", y, q, b.Pos)
	if !a.Sinks.Nil() {
		want(a.Sinks.Cols == a.Heads, "Attend", a.Sinks)
		j.sinks = floats("Attend", a.Sinks)
	}
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

// Mix is norms of heads, Rope, Store and Attend.
func (d *Device) Mix(y, q, k, v, freqs tensor.Tensor, c device.Cache, layer int, h device.Heads, r device.Rope, a device.Attend, b device.Batch) {
	if !h.V.Nil() {
		d.HeadNorm(v, h.V, a.KVHeads, h.Norm)
	}
	device.TurnHeads(d, q, k, freqs, h, r, a.HeadDim, b)
	if !k.Nil() {
		d.Store(c, layer, k, v, b)
	}
	d.Attend(y, q, c, layer, a, b)
}

// attention is what every tile of an Attend shares.
type attention struct {
	device.Attend
	pages
	y, q  strided
	width int       // of a head of values
	skip  int       // columns in front of it
	sinks []float32 // by head, or nil
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
	buf, release := d.borrowed(n*(dim+j.width) + rows*padded)
	defer release()
	at := head / (j.Heads / j.KVHeads) * dim
	keys, keyStride := j.span(buf[:n*dim], j.k, j.kCols, seq, from, to, at, dim)
	values, valueStride := j.span(buf[n*dim:n*(dim+j.width)], j.v, j.vCols, seq, from, to, at+j.skip, j.width)
	scores := buf[n*(dim+j.width):]

	x, out := j.q.data[lo*j.q.stride+head*dim:], j.y.data[lo*j.y.stride+head*j.width:]
	if rows == 1 { // a product of vectors needs no packing
		j.attendRow(out[:j.width], x[:dim], scores, keys, keyStride, values, valueStride, n, head, first)
		return
	}
	sgemm := blas32.Implementation().Sgemm
	sgemm(blas.NoTrans, blas.Trans, rows, n, dim, j.Scale, x, j.q.stride, keys, keyStride, 0, scores, padded)
	var sums [attendTile]float32
	for r := range rows {
		last := first + r - from // the row's own position
		start := 0
		if j.Window > 0 {
			start = max(0, last-j.Window+1)
		}
		row := scores[r*padded : (r+1)*padded]
		j.heat(row[start:last+1], first+r)
		sums[r] = j.weigh(row, start, last+1, head)
	}
	sgemm(blas.NoTrans, blas.NoTrans, rows, j.width, n, 1, scores, padded, values, valueStride, 0, out, j.y.stride)
	for r, sum := range sums[:rows] {
		scaleRow(out[r*j.y.stride:r*j.y.stride+j.width], 1/sum)
	}
}

// attendRow computes one head of a row that sees n positions, given room for scores.
func (j attention) attendRow(y, q, scores, keys []float32, keyStride int, values []float32, valueStride, n, head, pos int) {
	clear(scores)
	simd.Gemv(scores[:n], q, keys, keyStride)
	scaleRow(scores[:n], j.Scale)
	j.heat(scores[:n], pos)
	sum := j.weigh(scores, 0, n, head)
	clear(y)
	simd.GemvT(y, scores[:n], values, valueStride)
	scaleRow(y, 1/sum)
}

// scoreUnit divides the length of a row of scores: exponentials are computed so
// many at a time.
const scoreUnit = 32

// heat multiplies the scores of the row at a position by their temperature.
func (j attention) heat(s []float32, pos int) {
	if j.Temperature != 0 {
		scaleRow(s, float32(1+float64(j.Temperature)*math.Log(float64(1+pos/j.TemperatureSpan))))
	}
}

// weigh turns a head's scores from start to end into weights, the others into
// zeros, and returns the sum of the weights, with that of the head's sink.
func (j attention) weigh(s []float32, start, end, head int) (sum float32) {
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
	if j.sinks == nil {
		return simd.ExpSum(seen, seen, simd.Max(seen))
	}
	sink := j.sinks[head]
	most := max(simd.Max(seen), sink)
	return simd.ExpSum(seen, seen, most) + float32(math.Exp(float64(sink-most)))
}
