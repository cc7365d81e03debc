package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// headRows is the most rows by which kernels of gemv_heads.cu multiply: each eight of them read the matrices once more.
const headRows = 64

// headVariants are kernels of gemv_heads.cu by how many words of 16 bytes a lane has of an output.
var headVariants = []struct {
	parts  int
	kernel func(d *Device, l launch, y, x, w tensor.Tensor, rows, out, in, beside, first, step, lanes int32, ldy, ldx int64)
}{
	{1, (*Device).gemv_heads_1},
	{2, (*Device).gemv_heads_2},
	{4, (*Device).gemv_heads_4},
}

// MatMulHeads multiplies heads of rows by a matrix of each head's own: of few rows by one kernel, of others head by head.
func (d *Device) MatMulHeads(y, x, w tensor.Tensor, h device.HeadMul) {
	want(h.Fits(y, x, w), "MatMulHeads", y, x, w)
	if y.Rows > headRows || h.In > gemv_heads_most_in || h.In%half_elements != 0 || h.Beside%half_elements != 0 || y.Type != tensor.F16 || w.Type != tensor.F16 || !atSixteenBytes(x) || !atSixteenBytes(w) {
		h.By(d, y, x, w)
		return
	}
	if y.Rows == 0 {
		return
	}
	lanes, parts := headLanes(h.In)
	for _, v := range headVariants {
		if parts > v.parts {
			continue
		}
		l := headLaunch(y.Rows, h.Heads, h.Out(y), lanes, v.parts)
		v.kernel(d, l, y, x, w, int32(y.Rows), int32(h.Out(y)), int32(h.In), int32(h.Beside), int32(h.First), int32(h.Step), int32(lanes), int64(y.Stride), int64(x.Stride))
		return
	}
}
