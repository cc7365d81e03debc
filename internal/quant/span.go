package quant

import (
	"sort"

	"exl2/internal/tensor"
)

// A spanned is a matrix in spans. Its codes are on the host, where columns are
// gathered.
type spanned struct {
	r             *Result
	codes, scales []byte
}

func (r *Result) spanned() *spanned {
	m := &spanned{r: r, codes: make([]byte, r.c.Codes.Bytes()), scales: make([]byte, r.c.Scales.Bytes())}
	r.f.dev.Download(m.codes, r.c.Codes)
	r.f.dev.Download(m.scales, r.c.Scales)
	return m
}

// A span is columns of a matrix that depend on each other, those that matter most
// first.
type span struct {
	m      *spanned
	order  []int32       // columns of the matrix
	cols   tensor.Tensor // order on the device
	places tensor.Tensor // I32 [1, n]: 0, 1, 2 ...
	target tensor.Tensor // [k, n]
	u      tensor.Tensor // [n, n]
	inner  []float32     // u on the host
}

// span takes the columns of a matrix from lo on.
func (m *spanned) span(c *Columns, lo int, damp float32) *span {
	r := m.r
	d, n := r.f.dev, min(c.Span, r.c.Codes.Cols-lo)
	s := &span{m: m, order: c.order(lo, n), cols: d.Alloc(tensor.I32, 1, n), places: d.Alloc(tensor.I32, 1, n), u: d.Alloc(tensor.F32, n, n), inner: make([]float32, n*n)}
	s.target = d.Alloc(tensor.F32, r.f.k, n)
	within, places := make([]int32, n), make([]int32, n)
	for i, c := range s.order {
		within[i], places[i] = c-int32(lo), int32(i)
	}
	d.Upload(s.cols, tensor.BytesOf(s.order))
	d.Upload(s.places, tensor.BytesOf(within))
	d.Take(s.target, r.c.W, tensor.Tensor{}, s.cols)
	b, sorted, ok := d.Alloc(tensor.F32, n, c.Span), d.Alloc(tensor.F32, n, n), d.Alloc(tensor.I32, 1, 1)
	defer func() { d.Free(b); d.Free(sorted); d.Free(ok) }()
	d.Upload(b, tensor.BytesOf(c.rows(lo, n)))
	d.Take(sorted, b, s.places, s.places)
	d.Upload(s.places, tensor.BytesOf(places))
	d.InverseFactor(s.u, sorted, damp, ok)
	var done [1]int32
	d.Download(tensor.BytesOf(done[:]), ok)
	d.Download(tensor.BytesOf(s.inner), s.u)
	if done[0] == 0 { // moments that are no moments say nothing
		s.order = nil
	}
	return s
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
	d := s.m.r.f.dev
	for _, t := range []tensor.Tensor{s.cols, s.places, s.target, s.u} {
		d.Free(t)
	}
}
