package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// productsBack is ProductsBack by cuBLAS, and reports whether it could: dy is lifted and
// rounded, and the products are brought down by what the kernel has left beside it.
func (b *cublas) productsBack(d *Device, dx tensor.Tensor, list []device.Passed, x tensor.Tensor) bool {
	bytes := 0
	for _, p := range list {
		if !halves8(p.W) || p.DY.Cols%8 != 0 {
			return false
		}
		bytes += padded(2 * x.Rows * p.DY.Cols)
	}
	if b.lib == nil || d.tape != nil || !halves8(x) {
		return false
	}
	if d.err != nil {
		return true
	}
	r := d.newRoom(bytes + 2*padded(8))
	defer r.free()
	most, scalars := r.takeZeros(tensor.F32, 1, 1), r.take(tensor.F32, 1, 2)
	for _, p := range list {
		d.measure(most, p.DY)
	}
	const device, host = 1, 0 // where scalars are
	b.check(d, "ProductsBack", d.blasCall(b.lib.setPointerMode, b.handle, device))
	down := d.address("ProductsBack", scalars)
	one := down + 4
	// Column-major: dwᵀ [in, out] = xᵀ·dy, and dxᵀ [in, rows] = wᵀ·dyᵀ.
	for _, p := range list {
		dy := r.take(tensor.F16, x.Rows, p.DY.Cols)
		plane := planeOf(p.DY)
		d.lift_f32(plane.launch(), dy, scalars, p.DY, most, int32(plane.rows), int64(plane.cols), int64(p.DY.Stride))
		in, out, rows := uintptr(x.Cols), uintptr(p.DY.Cols), uintptr(x.Rows)
		half, from := d.address("ProductsBack", dy), d.address("ProductsBack", x)
		b.check(d, "ProductsBack", d.blasCall(b.lib.gemmEx, b.handle, cublasOpN, cublasOpT, in, out, rows, down, from, cudaR16F, uintptr(x.Stride),
			half, cudaR16F, out, one, d.address("ProductsBack", p.DW), cudaR32F, in, cublasCompute32F, cublasDefaultAlgo))
		if !dx.Nil() {
			b.check(d, "ProductsBack", d.blasCall(b.lib.gemmEx, b.handle, cublasOpN, cublasOpN, in, rows, out, down, d.address("ProductsBack", p.W), cudaR16F, uintptr(p.W.Stride),
				half, cudaR16F, out, one, d.address("ProductsBack", dx), cudaR32F, uintptr(dx.Stride), cublasCompute32F, cublasDefaultAlgo))
		}
	}
	b.check(d, "ProductsBack", d.blasCall(b.lib.setPointerMode, b.handle, host))
	return true
}

// halves8 reports whether rows of fp16 begin at multiples of 16 bytes.
func halves8(t tensor.Tensor) bool {
	return t.Type == tensor.F16 && t.Cols%8 == 0 && t.Stride%8 == 0 && t.Off%16 == 0
}
