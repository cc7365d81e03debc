package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// ClampMul is a gated unit whose operands are limited.
func (d *Device) ClampMul(y, gate, up tensor.Tensor, c device.Clamp) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols && up.Rows == gate.Rows && up.Cols == gate.Cols, "ClampMul", y, gate, up)
	p := planeOf(y, gate, up)
	d.clamp_mul_f16(p.launch(), y, gate, up, int32(p.rows), int64(p.cols), int64(y.Stride), int64(gate.Stride), int64(up.Stride), c.Limit, c.Up, c.Alpha, c.Added)
}

// ClampMulBack is its gradient.
func (d *Device) ClampMulBack(dgate, dup, dy, gate, up tensor.Tensor, c device.Clamp) {
	list := []tensor.Tensor{gate, dgate, dup, dy, up}
	for _, t := range list {
		want(t.Rows == gate.Rows && t.Cols == gate.Cols, "ClampMulBack", t, gate)
	}
	p := planeOf(list...)
	d.clamp_mul_back(p.launch(), dgate, dup, dy, gate, up, int32(p.rows), int64(p.cols),
		int64(dgate.Stride), int64(dup.Stride), int64(dy.Stride), int64(gate.Stride), int64(up.Stride), c.Limit, c.Up, c.Alpha, c.Added)
}

// ClipBack clears the gradients of what is beyond the limit.
func (d *Device) ClipBack(dx, x tensor.Tensor, limit float32) {
	want(dx.Rows == x.Rows && dx.Cols == x.Cols, "ClipBack", dx, x)
	p := planeOf(dx, x)
	d.clip_back(p.launch(), dx, x, int32(p.rows), int64(p.cols), int64(dx.Stride), int64(x.Stride), limit)
}

// actOf returns what kernels know a unit's activation by (Unit in kernels/limited.cuh).
func actOf(u device.Unit) int32 {
	if u.Clamp.Limit > 0 {
		return limited_clamped
	}
	return int32(u.Act)
}
