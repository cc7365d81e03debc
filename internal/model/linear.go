package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Linear computes y = x·W + b.
type Linear struct {
	LinearSpec
	W    Weight
	Bias tensor.Tensor // F32 [1, out], or absent

	sharedW, sharedBias bool // they are another linear's
}

// A Weight is how a Linear stores W.
type Weight interface {
	mul(d device.Device, y, x, bias tensor.Tensor)
	free(d device.Device)
	// Bytes is what one product reads.
	Bytes() int
}

// Dense is W as the source has it: [out, in].
type Dense struct{ tensor.Tensor }

// Quantized is W in EXL2.
type Quantized struct{ device.Matrix }

func (w Dense) mul(d device.Device, y, x, bias tensor.Tensor) { d.MatMul(y, x, w.Tensor, bias) }
func (w Dense) free(d device.Device)                          { d.Free(w.Tensor) }

func (w Quantized) mul(d device.Device, y, x, bias tensor.Tensor) { d.QMatMul(y, x, w.Matrix, bias) }
func (w Quantized) free(d device.Device)                          { d.FreeEXL2(w.Matrix) }

// Replace puts w in the place of the linear's weight, which it frees, if it is the
// linear's own.
func (l *Linear) Replace(d device.Device, w Weight) {
	if !l.sharedW {
		l.W.free(d)
	}
	l.W, l.sharedW = w, false
}

func (l *Linear) free(d device.Device) {
	if l.W != nil && !l.sharedW {
		l.W.free(d)
	}
	if !l.sharedBias {
		d.Free(l.Bias)
	}
	l.W, l.Bias = nil, tensor.Tensor{}
}

// Norm is a norm and its weights; without them, there is no norm.
type Norm struct {
	device.Norm
	W, Bias tensor.Tensor
}

// none reports whether there is no norm.
func (n Norm) none() bool { return n.W.Nil() }

func (n Norm) apply(s *State, y, x Slot) { s.Dev.Norm(s.At(y), s.At(x), n.W, n.Bias, n.Norm) }

// back adds the gradient of slot x, which had the given value, given that of
// slot y = norm(x).
func (n Norm) back(g *State, y, x Slot, value tensor.Tensor) {
	backward(g).NormBack(g.At(x), g.At(y), value, n.W, n.Norm)
}

// backInPlace replaces the gradient of the norm of a slot by that of the slot,
// whose rows are cut into heads.
func (n Norm) backInPlace(g *State, slot Slot, value tensor.Tensor, heads int) {
	d, dy := backward(g), g.At(slot)
	rows := dy.Rows * heads
	copied := clone(g.Dev, dy)
	defer g.Dev.Free(copied)
	d.Clear(dy)
	d.NormBack(dy.Reshape(rows, dy.Cols/heads), copied.Reshape(rows, dy.Cols/heads), value.Reshape(rows, dy.Cols/heads), n.W, n.Norm)
}
