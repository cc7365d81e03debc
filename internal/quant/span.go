package quant

import (
	"sort"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// A place is where a span of a matrix begins.
type place struct {
	r       *Result
	columns *Columns
	lo      int
}

// A span is columns of a matrix that depend on each other, those that matter most
// first.
type span struct {
	r      *Result
	order  []int32       // columns of the matrix
	cols   tensor.Tensor // order on the device
	places tensor.Tensor // I32 [1, n]: 0, 1, 2 ...
	target tensor.Tensor // [k, n]
	u      tensor.Tensor // [n, n]
	inner  tensor.Tensor // the square on u's diagonal of every block, then -its inverse, transposed
}

// spansOf takes spans. The host waits once for all of them.
func spansOf(list []place, damp float32) []*span {
	f := list[0].r.f
	d, ok := f.dev, f.dev.Alloc(tensor.I32, len(list), 1)
	defer d.Free(ok)
	spans := make([]*span, len(list))
	device.SideBySide(d, len(list), func(i int) { spans[i] = list[i].span(damp, ok.Slice(i, i+1)) })
	done, inner := make([]int32, len(list)), make([][]float32, len(list))
	d.Download(tensor.BytesOf(done), ok)
	for i, s := range spans {
		inner[i] = make([]float32, s.inner.Cols)
		d.Download(tensor.BytesOf(inner[i]), s.inner)
	}
	parallel.For(len(spans), func(i int) {
		n := len(spans[i].order)
		parallel.Runs(n, blockCols, func(lo, hi int) { invert(inner[i][lo*blockCols:][:(hi-lo)*(hi-lo)], hi-lo) })
	})
	for i, s := range spans {
		d.Upload(s.inner, tensor.BytesOf(inner[i]))
		if done[i] == 0 { // moments that are no moments say nothing
			s.order = nil
		}
	}
	return spans
}

// span takes the columns from the place on, and leaves whether their moments can be
// inverted in ok.
func (p place) span(damp float32, ok tensor.Tensor) *span {
	r, c := p.r, p.columns
	d, n := r.f.dev, min(c.Span, r.c.Codes.Cols-p.lo)
	s := &span{r: r, order: c.order(p.lo, n), cols: d.Alloc(tensor.I32, 1, n), places: d.Alloc(tensor.I32, 1, n), u: d.Alloc(tensor.F32, n, n)}
	s.inner, s.target = d.Alloc(tensor.F32, 1, n*blockCols), d.Alloc(tensor.F32, r.f.k, n)
	within, places := make([]int32, n), make([]int32, n)
	for i, c := range s.order {
		within[i], places[i] = c-int32(p.lo), int32(i)
	}
	d.Upload(s.cols, tensor.BytesOf(s.order))
	d.Upload(s.places, tensor.BytesOf(within))
	d.Take(s.target, r.c.W, tensor.Tensor{}, s.cols)
	b, sorted := d.Alloc(tensor.F32, n, c.Span), d.Alloc(tensor.F32, n, n)
	defer func() { d.Free(b); d.Free(sorted) }()
	d.Upload(b, tensor.BytesOf(c.rows(p.lo, n)))
	d.Take(sorted, b, s.places, s.places)
	d.Upload(s.places, tensor.BytesOf(places))
	d.InverseFactor(s.u, sorted, damp, ok)
	for lo := 0; lo < n; lo += blockCols {
		hi := min(lo+blockCols, n)
		d.Copy(s.block(lo, hi), s.u.Slice(lo, hi).Columns(lo, hi))
	}
	return s
}

// block returns inner's square of the columns from lo to hi.
func (s *span) block(lo, hi int) tensor.Tensor {
	m := hi - lo
	return s.inner.Columns(lo*blockCols, lo*blockCols+m*m).Reshape(m, m)
}

// rows returns the moments of n columns from lo on, zeros for those that pad the
// matrix.
func (c *Columns) rows(lo, n int) []float32 {
	if have := len(c.B) / c.Span; lo+n > have {
		return append(append([]float32(nil), c.B[lo*c.Span:]...), make([]float32, (lo+n-have)*c.Span)...)
	}
	return c.B[lo*c.Span : (lo+n)*c.Span]
}

// order sorts n columns from lo on, those first whose errors cost most.
func (c *Columns) order(lo, n int) []int32 {
	list, rows := make([]int32, n), c.rows(lo, n)
	for i := range list {
		list[i] = int32(lo + i)
	}
	cost := func(col int32) float32 { return rows[(int(col)-lo)*(c.Span+1)] }
	sort.SliceStable(list, func(i, j int) bool { return cost(list[i]) > cost(list[j]) })
	return list
}

func (s *span) free() {
	d := s.r.f.dev
	for _, t := range []tensor.Tensor{s.cols, s.places, s.target, s.u, s.inner} {
		d.Free(t)
	}
}

// invert puts -u⁻¹, transposed, in the place of u, [m, m] and upper triangular: row i
// has column i of the inverse.
func invert(u []float32, m int) {
	out := make([]float32, m*m)
	for j := range m {
		x := make([]float64, m)
		for i := j; i >= 0; i-- {
			if i == j {
				x[i] = 1
			}
			for at := i + 1; at <= j; at++ {
				x[i] -= float64(u[i*m+at]) * x[at]
			}
			x[i] /= float64(u[i*m+i])
			out[j*m+i] = -float32(x[i])
		}
	}
	copy(u, out)
}
