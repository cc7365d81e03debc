package cpu

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Choose norms rows, multiplies them by a router, and chooses experts.
func (d *Device) Choose(to device.Choice, y, x tensor.Tensor, r device.Router) {
	d.Norm(y, x, r.Scale, r.Shift, r.Norm)
	d.MatMul(to.Logits, y, r.W, r.Bias)
	if !r.Gate.Nil() {
		d.MatMul(to.Gates, y, r.Gate, r.Offset)
	}
	d.Route(to.Routes, to.Logits, r.Correction, r.Scales, to.Gates, r.Routing)
}

// MixExperts computes a mixture behind its choice.
func (d *Device) MixExperts(y, x tensor.Tensor, e device.Experts, r device.Routes) {
	none := tensor.Tensor{}
	groups, to := e.First()
	acted := e.Opens()
	d.GroupMul(to, x, r.Rows, groups, r)
	e.Apply(d, acted, acted, e.Ups)
	d.GroupMul([]tensor.Tensor{e.Each.Slice(0, r.Rows.Cols)}, acted, none, []device.Group{e.Down}, r)
	d.Combine(y, e.Each, r.Places, r.Weights, e.Scale)
}
