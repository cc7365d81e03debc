package device

import "exl2/internal/tensor"

// A Sum is what a sublayer gives on its way into the stream: x = Then·(x + Times·norm(y)).
type Sum struct {
	X     tensor.Tensor // the stream, F32 [rows, columns]
	Y     tensor.Tensor // what the sublayer gives, F32 or of the activation type; anything afterwards
	Norm  Norm          // of y
	Scale tensor.Tensor // weights of that norm; absent for none
	Shift tensor.Tensor // its bias, or absent
	Times float32
	Then  float32

	// With, if it is not nil, is what else the sublayer gives: y is the sum of both then, each normalized before.
	With *Addend

	// Reader is what reads x next, or nil: the device may leave what it likes for it.
	Reader *Products
}

// An Addend is another output of a sublayer.
type Addend struct {
	Y          tensor.Tensor // of the activation type
	Norm       Norm          // of both outputs, before they are added
	Own, First tensor.Tensor // its weights of this one, and of the first one
}
