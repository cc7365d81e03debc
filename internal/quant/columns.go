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
func (m *ColumnMoments) Add(g tensor.Tensor) { AddMoments(m.dev, m.Moments(g)) }

// Moments lists what Add adds.
func (m *ColumnMoments) Moments(g tensor.Tensor) (list []device.Moment) {
	for i, s := range m.spans {
		part := g.Columns(i*Span, i*Span+s.Cols)
		list = append(list, device.Moment{H: s, X: part, Y: part})
	}
	return list
}

// Fetch brings the moments to the host.
func (m *ColumnMoments) Fetch() (*Columns, error) {
	wide := min(Span, exl2.Pad(m.n))
	c := &Columns{Span: wide, B: make([]float32, m.n*wide)}
	for i, s := range m.spans {
		if s.Cols == c.Span {
			m.dev.Download(tensor.BytesOf(c.B[i*Span*c.Span:][:s.Rows*s.Cols]), s)
			continue
		}
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
	n := len(c.B) / c.Span
	out, own := &Columns{Span: c.Span, B: make([]float32, len(c.B))}, make([]float64, n)
	for i := range own {
		own[i] = float64(c.B[i*c.Span+i%c.Span]) + float64(o.B[i*c.Span+i%c.Span])
	}
	both, all := 0.0, 0.0
	for i := range n {
		first, end := spanOf(i, c.Span, n)
		to, x, y := out.B[i*c.Span:], c.B[i*c.Span:], o.B[i*c.Span:]
		for at, other := range own[first:end] {
			to[at] = x[at] + y[at]
			if size := own[i] * other; first+at != i && size > 0 {
				a, b := float64(x[at]), float64(y[at])
				both, all = both+a*b/size, all+(a+b)*(a+b)/4/size
			}
		}
	}
	share := float32(0)
	if both > 0 {
		share = float32(min(both/all, 1))
	}
	for i := range n {
		first, end := spanOf(i, c.Span, n)
		row := out.B[i*c.Span:][:end-first]
		kept := row[i-first]
		for at := range row {
			row[at] *= share
		}
		row[i-first] = kept
	}
	return out
}

// spanOf returns the columns, of n, that are in one span with column i.
func spanOf(i, span, n int) (first, end int) {
	first = i / span * span
	return first, min(first+span, n)
}

// Free frees the moments.
func (m *ColumnMoments) Free() {
	for _, s := range m.spans {
		m.dev.Free(s)
	}
}
