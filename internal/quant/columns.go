package quant

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

// Span is up to how many neighbouring columns of a matrix are taken to depend on each
// other.
const Span = 1024

// Columns is what errors in the columns of a matrix cost, and what errors of two
// columns cost together: B = Σ ‖x‖²·gᵀg over tokens, x the linear's input and g the
// gradient of the loss at its output, as far as two columns are in one span. With
// A = Σ ‖g‖²·xᵀx it approximates the Fisher information of the matrix by a Kronecker
// product (Martens and Grosse, 2015).
type Columns struct {
	Span int
	B    []float32 // [n, span]: of every column, its span's columns
}

// ColumnMoments gathers Columns.
type ColumnMoments struct {
	dev   device.Quantize
	n     int
	spans []tensor.Tensor // F32, square
}

// NewColumnMoments returns empty moments of n columns.
func NewColumnMoments(d device.Quantize, n int) *ColumnMoments {
	m := &ColumnMoments{dev: d, n: n}
	for lo := 0; lo < n; lo += Span {
		side := min(Span, n-lo)
		m.spans = append(m.spans, d.Alloc(tensor.F32, side, side))
	}
	return m
}

// Add adds rows of ‖x‖·g, F32 [r, n].
func (m *ColumnMoments) Add(g tensor.Tensor) {
	for i, s := range m.spans {
		part := g.Columns(i*Span, i*Span+s.Cols)
		m.dev.Gram(s, part, part)
	}
}

// Fetch brings the moments to the host.
func (m *ColumnMoments) Fetch() (*Columns, error) {
	wide := min(Span, exl2.Pad(m.n))
	c := &Columns{Span: wide, B: make([]float32, m.n*wide)}
	for i, s := range m.spans {
		side := make([]float32, s.Rows*s.Cols)
		m.dev.Download(tensor.BytesOf(side), s)
		for r := range s.Rows {
			copy(c.B[(i*Span+r)*c.Span:], side[r*s.Cols:(r+1)*s.Cols])
		}
	}
	return c, m.dev.Sync()
}

// Join adds moments of two halves of some tokens. What two columns have in common in
// one half and not in the other is chance, and there is much of it: off the diagonal
// the sum is multiplied by the share of its squares that both halves agree on,
//
//	Σ a·b / Σ ((a + b)/2)²    over pairs of columns, relative to their own moments
//
// which is the factor that comes nearest to what more tokens would give.
func (c *Columns) Join(o *Columns) *Columns {
	out, n := &Columns{Span: c.Span, B: make([]float32, len(c.B))}, len(c.B)/c.Span
	own := func(i int) float64 { at := i*c.Span + i%c.Span; return float64(c.B[at]) + float64(o.B[at]) }
	both, all := 0.0, 0.0
	c.pairs(func(at, i, j int) {
		out.B[at] = c.B[at] + o.B[at]
		if size := own(i) * own(j); i != j && size > 0 {
			a, b := float64(c.B[at]), float64(o.B[at])
			both, all = both+a*b/size, all+(a+b)*(a+b)/4/size
		}
	}, n)
	share := float32(0)
	if both > 0 {
		share = float32(min(both/all, 1))
	}
	c.pairs(func(at, i, j int) {
		if i != j {
			out.B[at] *= share
		}
	}, n)
	return out
}

// pairs calls f for the pairs of n columns that are in one span.
func (c *Columns) pairs(f func(at, i, j int), n int) {
	for i := range n {
		first := i / c.Span * c.Span
		for j := first; j < min(first+c.Span, n); j++ {
			f(i*c.Span+j-first, i, j)
		}
	}
}

// Free frees the moments.
func (m *ColumnMoments) Free() {
	for _, s := range m.spans {
		m.dev.Free(s)
	}
}
