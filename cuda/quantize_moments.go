package cuda

import "exl2/internal/tensor"

var byNorms = map[tensor.Type]func(d *Device, l launch, y, dy, x tensor.Tensor, n, cols, yStride, dyStride, xStride int32){
	tensor.F16: (*Device).moments_by_norms_f16, tensor.F32: (*Device).moments_by_norms_f32,
}

// ByNorms is y[r] = ‖x[r]‖·dy[r].
func (d *Device) ByNorms(y, dy, x tensor.Tensor) {
	want(y.Rows == dy.Rows && y.Cols == dy.Cols && x.Rows == y.Rows && y.Type == tensor.F32 && dy.Type == tensor.F32, "ByNorms", y, dy, x)
	l := launch{blocks: dim{x: y.Rows}, threads: dim{x: moments_threads}}
	pick("ByNorms", byNorms, x.Type, x)(d, l, y, dy, x, int32(y.Cols), int32(x.Cols), int32(y.Stride), int32(dy.Stride), int32(x.Stride))
}

// momentSpan is columns of moments: kernels/moments.cu has the same struct.
type momentSpan struct {
	a, b        uintptr
	first, side int32
}

// JoinMoments adds moments of two halves.
func (d *Device) JoinMoments(dst tensor.Tensor, a, b []tensor.Tensor) {
	n, wide, widest := dst.Rows, dst.Cols, 0
	var spans []momentSpan
	for i := range a {
		side, first := a[i].Rows, i*wide
		want(a[i].Cols == side && side <= wide && b[i].Rows == side && b[i].Cols == side && first+side <= n && a[i].Type == tensor.F32 && b[i].Type == tensor.F32, "JoinMoments", dst, a[i], b[i])
		spans, widest = append(spans, momentSpan{a: d.at(a[i]), b: d.at(b[i]), first: int32(first), side: int32(side)}), max(widest, side)
	}
	if n == 0 {
		return
	}
	list := table(d, spans)
	r := d.newRoom(padded(8*n) + padded(16*n) + padded(16))
	defer func() { d.Free(list); r.free() }()
	own, sums, share, at := r.take(tensor.F64, 1, n), r.take(tensor.F64, 2, n), r.take(tensor.F64, 1, 2), pointer(d.at(list))
	threads, rows := dim{x: moments_threads}, dim{x: widest, y: len(spans)}
	d.moments_own(launch{blocks: dim{x: pieces(widest, moments_threads), y: len(spans)}, threads: threads}, own, at)
	d.moments_rows(launch{blocks: rows, threads: threads}, sums, own, at, int32(n))
	d.moments_share(launch{blocks: dim{x: 1}, threads: threads}, share, sums, at, int32(len(spans)), int32(n))
	d.moments_store(launch{blocks: rows, threads: threads}, dst, share, at, int32(n), int32(wide))
}
