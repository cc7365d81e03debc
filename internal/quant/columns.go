package quant

import (
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Span is up to how many neighbouring columns of a matrix are taken to depend on each
// other.
const Span = 1024

// Columns is what errors in the columns of a matrix cost, and what errors of two
// columns cost together: B = Σ ‖x‖²·gᵀg over tokens, x the linear's input and g the
// gradient of the loss at its output, as far as two columns are in one span; the mean on
// the diagonal is 1. With A = Σ ‖g‖²·xᵀx it approximates the Fisher information of the
// matrix by a Kronecker product (Martens and Grosse, 2015).
type Columns struct {
	Span int
	B    []half.F16 // [n, span]: of every column, its span's columns
}

// ColumnMoments gathers Columns, of two halves of the tokens by themselves.
type ColumnMoments struct {
	dev    device.Quantize
	n      int
	halves [2][]tensor.Tensor // F32, square: spans
}

// NewColumnMoments returns empty moments of n columns.
func NewColumnMoments(d device.Quantize, n int) *ColumnMoments {
	m := &ColumnMoments{dev: d, n: n}
	for i := range m.halves {
		for lo := 0; lo < n; lo += Span {
			side := min(Span, n-lo)
			m.halves[i] = append(m.halves[i], d.Alloc(tensor.F32, side, side))
		}
	}
	return m
}

// Add adds rows of ‖x‖·g, F32 [r, n], to a half.
func (m *ColumnMoments) Add(half int, g tensor.Tensor) { AddMoments(m.dev, m.Moments(half, g)) }

// Moments lists what Add adds.
func (m *ColumnMoments) Moments(half int, g tensor.Tensor) (list []device.Moment) {
	for i, s := range m.halves[half] {
		part := g.Columns(i*Span, i*Span+s.Cols)
		list = append(list, device.Moment{H: s, X: part, Y: part})
	}
	return list
}

// Fetch joins the halves (device.Quantize.JoinMoments) and brings what they say to the
// host.
func (m *ColumnMoments) Fetch() (*Columns, error) {
	wide := min(Span, exl2.Pad(m.n))
	for _, h := range m.halves {
		complete(m.dev, h...)
	}
	joined := m.dev.Alloc(tensor.F16, m.n, wide)
	defer m.dev.Free(joined)
	m.dev.JoinMoments(joined, m.halves[0], m.halves[1])
	c := &Columns{Span: wide, B: make([]half.F16, m.n*wide)}
	m.dev.Download(tensor.BytesOf(c.B), joined)
	return c, m.dev.Sync()
}

// Free frees the moments.
func (m *ColumnMoments) Free() {
	for _, h := range m.halves {
		for _, s := range h {
			m.dev.Free(s)
		}
	}
}
