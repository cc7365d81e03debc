package cuda

import (
	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

var actMuls = map[device.Act]func(d *Device, l launch, y, gate, up, places tensor.Tensor, rows int32, n, ldy, ldg, ldu int64){
	device.SiLU: (*Device).act_mul_silu_f16, device.GELU: (*Device).act_mul_gelu_f16,
	device.GELUTanh: (*Device).act_mul_gelu_tanh_f16, device.ReLU: (*Device).act_mul_relu_f16, device.Logistic: (*Device).act_mul_sigmoid_f16,
	device.Softplus: (*Device).act_mul_softplus_f16,
}

// ActMul is y = act(gate)·up, or act(gate).
func (d *Device) ActMul(y, gate, up tensor.Tensor, a device.Act) {
	d.actMul("ActMul", y, gate, up, tensor.Tensor{}, a)
}

// ActMulFor is ActMul in the order of its reader.
func (d *Device) ActMulFor(y, gate, up tensor.Tensor, a device.Act, reader device.Matrix) bool {
	d.mixed = mixed{}
	places := d.placesOf(y, reader, true)
	if places.Nil() {
		return false
	}
	d.actMul("ActMulFor", y, gate, up, places, a)
	return true
}

// actMul is ActMul of which columns go to places, if there are any. act(gate) alone is times a row of ones, which all rows share.
func (d *Device) actMul(op string, y, gate, up, places tensor.Tensor, a device.Act) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols && (up.Nil() || up.Rows == gate.Rows && up.Cols == gate.Cols), op, y, gate, up)
	p, ldu := plane{y.Rows, y.Cols}, int64(up.Stride)
	switch {
	case up.Nil():
		up, ldu = d.ones(y.Cols), 0
	case places.Nil():
		p = planeOf(y, gate, up)
	}
	actMuls[a](d, p.launch(), y, gate, up, places, int32(p.rows), int64(p.cols), int64(y.Stride), int64(gate.Stride), ldu)
}

// ones returns a row of n ones.
func (d *Device) ones(n int) tensor.Tensor {
	const one = half.F16(0x3c00)
	if d.oneRow.Cols < n {
		if d.recording {
			panic("cuda: recording an activation wider than was issued before")
		}
		row := make([]half.F16, n)
		for i := range row {
			row[i] = one
		}
		d.oneRow = d.Alloc(tensor.F16, 1, n)
		d.Upload(d.oneRow, tensor.BytesOf(row))
	}
	return d.oneRow.Columns(0, n)
}
