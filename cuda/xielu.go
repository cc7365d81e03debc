package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// XIELU is an activation function with numbers of its own.
func (d *Device) XIELU(y, x tensor.Tensor, u device.XIELU) {
	want(y.Rows == x.Rows && y.Cols == x.Cols, "XIELU", y, x)
	p := planeOf(y, x)
	d.xielu_f16(p.launch(), y, x, int32(p.rows), int64(p.cols), int64(y.Stride), int64(x.Stride), u.Positive, u.Negative, u.Beta, u.Least)
}

// XIELUBack is its gradient.
func (d *Device) XIELUBack(dx, dy, x tensor.Tensor, u device.XIELU) {
	want(dx.Rows == x.Rows && dx.Cols == x.Cols && dy.Rows == x.Rows && dy.Cols == x.Cols, "XIELUBack", dx, dy, x)
	p := planeOf(dx, dy, x)
	d.xielu_back(p.launch(), dx, dy, x, int32(p.rows), int64(p.cols), int64(dx.Stride), int64(dy.Stride), int64(x.Stride), u.Positive, u.Negative, u.Beta)
}
