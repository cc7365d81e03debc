package cuda

import "exl2/internal/tensor"

// permutes are kernels by the rows of a block.
var permutes = []struct {
	kernel func(d *Device, l launch, dst, src, perm tensor.Tensor, rows, cols int32, lds int64)
	name   kernel
	rows   int
}{
	{(*Device).permute_4_f16, kernel_permute_4_f16, 4}, {(*Device).permute_2_f16, kernel_permute_2_f16, 2}, {(*Device).permute_1_f16, kernel_permute_1_f16, 1},
}

// permute is y[r, i] = x[r, perm[i]], of places that no kernel writes.
func (d *Device) permute(y, x, perm tensor.Tensor) { d.permuteBy(y, x, perm, false) }

// permuteBy is permute, also of places that a kernel has made: several rows a block, if the GPU is
// busy and has room then.
func (d *Device) permuteBy(y, x, perm tensor.Tensor, made bool) {
	for _, p := range permutes {
		blocks, shared := pieces(x.Rows, p.rows), p.rows*x.Cols*tensor.F16.Size()
		if p.rows == 1 || blocks >= d.sms && shared <= d.sharedFor(p.name) {
			p.kernel(d, launch{blocks: dim{x: blocks}, threads: dim{x: permute_threads}, shared: shared, behind: made}, y, x, perm, int32(x.Rows), int32(x.Cols), int64(x.Stride))
			return
		}
	}
}
