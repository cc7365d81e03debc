package model

import (
	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Norm is a norm and its weights; without them, there is no norm.
type Norm struct {
	device.Norm
	W, Bias tensor.Tensor // F32 [rows, columns]; of more than one row, by heads
}

// none reports whether there is no norm.
func (n Norm) none() bool { return n.W.Nil() }

// apply stores the norm of slot x, or, if there is none, x itself, in slot y.
func (n Norm) apply(s *State, y, x Slot) {
	if n.none() {
		s.Dev.Copy(s.At(y), s.At(x))
		return
	}
	s.Dev.Norm(s.At(y), s.At(x), n.W, n.Bias, n.Norm)
}

// heads normalizes the heads of x, in place: all together, each with the
// same weights, or each with its own.
func (n Norm) heads(d device.Device, x tensor.Tensor, heads int) {
	switch {
	case n.none():
	case n.W.Cols == x.Cols:
		d.Norm(x, x, n.W, n.Bias, n.Norm)
	case n.ofHeads(heads):
		d.HeadNorm(x, n.W, heads, n.Norm)
	default:
		dim := x.Cols / heads
		for h := range heads {
			head, row := x.Columns(h*dim, (h+1)*dim), min(h, n.W.Rows-1)
			bias := n.Bias
			if !bias.Nil() {
				bias = bias.Slice(row, row+1)
			}
			d.Norm(head, head, n.W.Slice(row, row+1), bias, n.Norm)
		}
	}
}

// ofHeads reports whether heads have the same weights, or each its own, and no bias.
func (n Norm) ofHeads(heads int) bool { return n.Bias.Nil() && (n.W.Rows == 1 || n.W.Rows == heads) }

// shared reports whether all heads have the same weights, and no bias.
func (n Norm) shared() bool { return n.W.Rows == 1 && n.Bias.Nil() }

// back adds the gradient of slot x, which had the given value, given that of
// slot y = norm(x).
func (n Norm) back(g *State, y, x Slot, value tensor.Tensor) {
	if n.none() {
		g.Dev.AddScaled(g.At(x), g.At(y), 1)
		return
	}
	backward(g).NormBack(g.At(x), g.At(y), value, n.W, n.Norm)
}

// backInPlace replaces dy, the gradient of the norm of a value whose rows are cut into heads, by that
// of the value.
func (n Norm) backInPlace(d device.Backward, dy, value tensor.Tensor, heads int) {
	rows := dy.Rows * heads
	copied := clone(d, dy)
	defer d.Free(copied)
	d.Clear(dy)
	d.NormBack(dy.Reshape(rows, dy.Cols/heads), copied.Reshape(rows, dy.Cols/heads), value.Reshape(rows, dy.Cols/heads), n.W, n.Norm)
}

// headsBack replaces dy, the gradient of what heads has made of a value, by that of the value.
func (n Norm) headsBack(d device.Backward, dy, value tensor.Tensor, heads int) {
	switch {
	case !dy.Dense() || !value.Dense(): // a layer has fewer columns than others
		narrow, x := clone(d, dy), clone(d, value)
		defer func() { d.Free(narrow); d.Free(x) }()
		n.headsBack(d, narrow, x, heads)
		d.Copy(dy, narrow)
	case n.W.Cols == dy.Cols:
		n.backInPlace(d, dy, value, 1)
	case n.W.Rows == 1:
		n.backInPlace(d, dy, value, heads)
	default:
		copied := clone(d, dy)
		defer d.Free(copied)
		d.Clear(dy)
		dim := dy.Cols / heads
		for h := range heads {
			lo, hi, row := h*dim, (h+1)*dim, min(h, n.W.Rows-1)
			d.NormBack(dy.Columns(lo, hi), copied.Columns(lo, hi), value.Columns(lo, hi), n.W.Slice(row, row+1), n.Norm)
		}
	}
}

// norm loads the norm at a place; where there is no such norm, it is none.
func (b *builder) norm(m *Module, p Place) Norm {
	spec, ok := m.Norm(p)
	if !ok {
		return Norm{}
	}
	n := Norm{Norm: spec.Norm}
	if spec.Plain {
		n.Offset = 0
		n.W = b.own(m, b.upload(tensor.F32, 1, spec.Cols, tensor.BytesOf(ones(spec.Cols))))
		return n
	}
	n.W = b.own(m, b.rows(spec, ".weight"))
	if spec.Bias {
		n.Bias = b.own(m, b.rows(spec, ".bias"))
	}
	return n
}

func ones(n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = 1
	}
	return v
}

// rows loads a norm's weights or biases: a vector, a matrix, or a vector a row.
func (b *builder) rows(spec NormSpec, end string) tensor.Tensor {
	var all []float32
	for row := range spec.Rows {
		name := arch.Expert(spec.Name, row) + end
		if name == spec.Name+end {
			all = b.floats(name, spec.Rows, spec.Cols)
			break
		}
		all = append(all, b.floats(name, 1, spec.Cols)...)
	}
	if b.err != nil {
		return tensor.Tensor{}
	}
	return b.upload(tensor.F32, spec.Rows, spec.Cols, tensor.BytesOf(all))
}
