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

// Unpacked is W in EXL2, decoded for every product, which has the bits of Dense.
type Unpacked struct{ device.Matrix }

func (w Dense) mul(d device.Device, y, x, bias tensor.Tensor) { d.MatMul(y, x, w.Tensor, bias) }
func (w Dense) free(d device.Device)                          { d.Free(w.Tensor) }

func (w Quantized) mul(d device.Device, y, x, bias tensor.Tensor) { d.QMatMul(y, x, w.Matrix, bias) }
func (w Quantized) free(d device.Device)                          { d.FreeEXL2(w.Matrix) }

func (w Unpacked) mul(d device.Device, y, x, bias tensor.Tensor) {
	decoded := d.Alloc(tensor.F16, w.Out(), w.In())
	d.Decode(decoded, w.Matrix)
	d.MatMul(y, x, decoded, bias)
	d.Free(decoded)
}
func (w Unpacked) free(d device.Device) { d.FreeEXL2(w.Matrix) }

// Replace puts w in the place of the linear's weight, which it frees, if it is the
// linear's own.
func (l *Linear) Replace(d device.Device, w Weight) {
	if !l.sharedW {
		l.W.free(d)
	}
	l.W, l.sharedW = w, false
}

// Borrow puts w, which stays the caller's, in the place of the linear's weight, as
// Replace does.
func (l *Linear) Borrow(d device.Device, w Weight) {
	l.Replace(d, w)
	l.sharedW = true
}

// Product is y = x·w without the bias, for a weight of the linear's shape.
func (l *Linear) Product(d device.Device, y, x tensor.Tensor, w Weight) {
	w.mul(d, y, x, tensor.Tensor{})
}

// bytes is what a product reads.
func (l *Linear) bytes() int { return l.W.Bytes() + l.Bias.Bytes() }

func (l *Linear) free(d device.Device) {
	if l.W != nil && !l.sharedW {
		l.W.free(d)
	}
	if !l.sharedBias {
		d.Free(l.Bias)
	}
	l.W, l.Bias = nil, tensor.Tensor{}
}
