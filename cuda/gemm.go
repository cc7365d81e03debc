package cuda

import "exl2/internal/tensor"

// fewRows is up to how many rows of x a product reads w row by row: that is all
// that gemv takes; where they have been measured, tensor cores are faster from two
// rows on.
func (d *Device) fewRows(w tensor.Type) int {
	if w == tensor.F16 && (d.blas.lib != nil || d.hopper()) {
		return 1
	}
	return gemv_most
}

// fewOutputs is up to how many rows of w a block reads each: with a warp a row most multiprocessors would have none.
const fewOutputs = 512

type gemvKey struct{ w, y tensor.Type }

var gemvs = map[gemvKey]func(d *Device, l launch, y, x, w, bias tensor.Tensor, rows, n, k, share int32, ldy, ldx int64){
	{tensor.F16, tensor.F16}:  (*Device).gemv_f16_f16,
	{tensor.F16, tensor.F32}:  (*Device).gemv_f16_f32,
	{tensor.BF16, tensor.F16}: (*Device).gemv_bf16_f16,
	{tensor.BF16, tensor.F32}: (*Device).gemv_bf16_f32,
	{tensor.F32, tensor.F16}:  (*Device).gemv_f32_f16,
	{tensor.F32, tensor.F32}:  (*Device).gemv_f32_f32,
}

// MatMul is y = x·wᵀ + bias.
func (d *Device) MatMul(y, x, w, bias tensor.Tensor) {
	want(y.Rows == x.Rows && y.Cols == w.Rows && x.Cols == w.Cols && x.Type == tensor.F16 && (bias.Nil() || bias.Cols == y.Cols), "MatMul", y, x, w, bias)
	if x.Rows == 0 {
		return
	}
	if x.Rows <= d.fewRows(w.Type) {
		gemv := pick("MatMul", gemvs, gemvKey{w.Type, y.Type}, y, w)
		share, l := 1, launch{blocks: dim{x: pieces(w.Rows, gemv_warps)}, threads: dim{x: 32 * gemv_warps}}
		if w.Rows <= fewOutputs {
			share, l.blocks.x = gemv_warps, w.Rows
		}
		gemv(d, l, y, x, w, bias, int32(x.Rows), int32(w.Rows), int32(w.Cols), int32(share), int64(y.Stride), int64(x.Stride))
		return
	}
	if w.Type != tensor.F16 {
		narrow := d.scratch(scratchWeights, tensor.F16, w.Rows, w.Cols)
		d.Copy(narrow, w)
		w = narrow
	}
	d.dense(product{y: y, x: x, w: w, bias: bias})
}

// A product is columns column and on of y = x·wᵀ + bias, fp16 x and w.
type product struct {
	y, x, w, bias tensor.Tensor
	column        int
}

// dense computes a product with tensor cores: by cuBLAS if it is there.
func (d *Device) dense(p product) {
	if d.blas.gemm(d, p) {
		return
	}
	if d.tiles(p.x, p.w) {
		y, bias := p.y.Columns(p.column, p.column+p.w.Rows), p.bias
		if !bias.Nil() {
			bias = bias.Columns(p.column, p.column+p.w.Rows)
		}
		d.multiplyTiles(&tiledProduct{x: p.x, w: p.w, list: []tiledMatrix{{y, bias, p.w.Rows}}})
		return
	}
	d.gemm(p)
}

type gemmFunc func(d *Device, l launch, y, x, w, bias tensor.Tensor, m, n, k, ldy int32, ldx int64)

// A gemmVariant is a kernel, its tile, and what a block of it takes.
type gemmVariant struct {
	f16, f32              gemmFunc
	m, n, threads, shared int
}

var (
	gemmLarge  = gemmVariant{(*Device).gemm_large_f16, (*Device).gemm_large_f32, gemm_large_m, gemm_large_n, gemm_large_threads, (gemm_large_m + gemm_large_n) * gemm_row_bytes}
	gemmMedium = gemmVariant{(*Device).gemm_medium_f16, (*Device).gemm_medium_f32, gemm_medium_m, gemm_medium_n, gemm_medium_threads, (gemm_medium_m + gemm_medium_n) * gemm_row_bytes}
	gemmSmall  = gemmVariant{(*Device).gemm_small_f16, (*Device).gemm_small_f32, gemm_small_m, gemm_small_n, gemm_small_threads, (gemm_small_m + gemm_small_n) * gemm_row_bytes}
	gemmAny    = gemmVariant{(*Device).gemm_any_f16, (*Device).gemm_any_f32, gemm_small_m, gemm_small_n, gemm_small_threads, (gemm_small_m + gemm_small_n) * gemm_row_bytes}

	hopperWide   = gemmVariant{(*Device).gemm_hopper_256_f16, (*Device).gemm_hopper_256_f32, gemm_hopper_bm, gemm_hopper_wide, gemm_hopper_threads, gemm_hopper_shared_bytes}
	hopperNarrow = gemmVariant{(*Device).gemm_hopper_128_f16, (*Device).gemm_hopper_128_f32, gemm_hopper_bm, gemm_hopper_slim, gemm_hopper_threads, gemm_hopper_shared_bytes}
)

// gemm computes a product with our own kernels.
func (d *Device) gemm(p product) {
	m, n, k := p.x.Rows, p.w.Rows, p.x.Cols
	v := d.variant(m, n, k, atSixteenBytes(p.x))
	y, bias := from(p.y, p.column), p.bias
	if !bias.Nil() {
		bias = from(bias, p.column)
	}
	if splits := d.splitK(v, m, n, k); splits > 1 {
		sums := d.scratch(scratchSums, tensor.F32, splits*m, n)
		d.multiply(v, sums, p, tensor.Tensor{}, n, splits)
		d.addPartialSums(p.y.Type)(d, launch{blocks: dim{x: pieces(n, gemm_join_columns), y: m}, threads: dim{x: gemm_join_threads}},
			y, sums, bias, int32(m), int32(n), int32(p.y.Stride), int32(splits))
		return
	}
	d.multiply(v, y, p, bias, p.y.Stride, 1)
}

// multiply stores a product, or the partial sums of its splits, in y, whose rows
// are ldy elements.
func (d *Device) multiply(v gemmVariant, y tensor.Tensor, p product, bias tensor.Tensor, ldy, splits int) {
	m, n, k := p.x.Rows, p.w.Rows, p.x.Cols
	f := v.f16
	if y.Type == tensor.F32 {
		f = v.f32
	}
	l := launch{blocks: dim{x: pieces(m, v.m), y: pieces(n, v.n), z: splits}, threads: dim{x: v.threads}, shared: v.shared}
	f(d, l, y, p.x, p.w, bias, int32(m), int32(n), int32(k), int32(ldy), int64(p.x.Stride))
}

func (d *Device) addPartialSums(t tensor.Type) func(d *Device, l launch, y, sums, bias tensor.Tensor, m, n, ldy, count int32) {
	if t == tensor.F32 {
		return (*Device).gemm_join_f32
	}
	return (*Device).gemm_join_f16
}

// splitK returns among how many blocks the sums of a tile are divided, so that the
// GPU is busy: each has 512 columns of x and w at least.
func (d *Device) splitK(v gemmVariant, m, n, k int) int {
	const least = 512
	return max(1, min(d.sms/v.count(m, n), k/least))
}

// from returns the columns of t, or of a bias, from one on.
func from(t tensor.Tensor, column int) tensor.Tensor { return t.Columns(column, t.Cols) }

// variant chooses the kernel.
func (d *Device) variant(m, n, k int, aligned bool) gemmVariant {
	switch {
	case k%8 != 0 || !aligned:
		return gemmAny
	case d.hopper():
		return d.quicker(hopperWide, hopperNarrow, m, n)
	}
	for _, v := range []gemmVariant{gemmLarge, gemmMedium} { // the largest tile with which the GPU is busy
		if v.count(m, n) >= d.sms*4/5 && m > v.m/2 && !(d.major < 8 && v.n == gemmLarge.n) {
			return v
		}
	}
	return gemmSmall
}

// hopper reports whether the GPU runs code for Hopper alone.
func (d *Device) hopper() bool { return d.target == "sm_90a" }

// count returns the number of tiles.
func (v gemmVariant) count(m, n int) int { return pieces(m, v.m) * pieces(n, v.n) }

// quicker returns the variant of two with the less work for the multiprocessor
// that has most, large tiles doing theirs a tenth faster.
func (d *Device) quicker(large, small gemmVariant, m, n int) gemmVariant {
	busy := func(v gemmVariant) int { return pieces(v.count(m, n), d.sms) * v.m * v.n }
	if 10*busy(large) <= 11*busy(small) {
		return large
	}
	return small
}
