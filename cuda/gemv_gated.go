package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

var gatedKernels = map[tensor.Type]func(d *Device, l launch, y, x, w, by tensor.Tensor, rows, n, k, act int32, ldy, ldx, ldb int64){
	tensor.F16: (*Device).gemv_gated_f16, tensor.BF16: (*Device).gemv_gated_bf16, tensor.F32: (*Device).gemv_gated_f32,
}

// MatMulGated multiplies a few rows of the stream by a matrix, and gates other columns of it by what that gives.
func (d *Device) MatMulGated(y, x, w, by tensor.Tensor, a device.Act) bool {
	kernel, ok := gatedKernels[w.Type]
	if !ok || x.Rows == 0 || x.Rows > gemv_gated_most_rows || a > device.ReLU || w.Cols%half_elements != 0 || !atSixteenBytes(x) || !atSixteenBytes(w) {
		return false
	}
	want(y.Type == tensor.F16 && x.Type == tensor.F32 && by.Type == tensor.F32 && y.Rows == x.Rows && by.Rows == x.Rows && y.Cols == w.Rows && by.Cols == w.Rows && x.Cols == w.Cols, "MatMulGated", y, x, w, by)
	l := launch{blocks: dim{x: pieces(w.Rows, gemv_gated_outputs), y: pieces(x.Rows, gemv_gated_most)}, threads: dim{x: 32 * gemv_gated_warps}}
	kernel(d, l, y, x, w, by, int32(x.Rows), int32(w.Rows), int32(w.Cols), int32(a), int64(y.Stride), int64(x.Stride), int64(by.Stride))
	return true
}
