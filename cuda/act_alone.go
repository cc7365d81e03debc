package cuda

import (
	"exl2/internal/device"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// actAlone is y = act(gate): times a row of ones, which all rows share.
func (d *Device) actAlone(y, gate tensor.Tensor, a device.Act) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols, "ActMul", y, gate)
	p, ones := plane{y.Rows, y.Cols}, d.ones(y.Cols)
	actMuls[a](d, p.launch(), y, gate, ones, tensor.Tensor{}, int32(p.rows), int64(p.cols), int64(y.Stride), int64(gate.Stride), 0)
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
