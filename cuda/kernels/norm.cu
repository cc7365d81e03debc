// Norms of rows: y = (x - m) / √(mean((x - m)²) + eps) · (w + offset) + bias,
// where m is 0 (rms) or the mean of the row (layer).
//
// A block a row. The row is read two or three times, from the first-level cache
// after the first, so that rows of any length need no registers or shared
// memory; y may be x. Names end in the types of x and y.
//
// H200, 2026-11-21, 4096 columns, f32 to f16: a row 1.7 µs (1.9 with 256 threads
// rather than 512), 2048 rows 22 µs, 2.3 TB/s.
#include "norm.cuh"
#include "order.cuh"

template <Kind kind, class Y, class X>
__device__ void norm(
	Y* y,               // [rows, cols], rows ldy elements apart
	const X* x,         // [rows, cols], rows ldx elements apart
	const float* w,     // [cols]
	const float* bias,  // [cols] or null
	int cols, int64 ldy, int64 ldx, float eps, float offset) {
	after_previous();
	x += blockIdx.x * ldx;
	y += blockIdx.x * ldy;
	Centre mean = {0, 0};
	if (kind == layer) mean = row_centre(x, cols);
	float inverse = 1 / sqrtf(row_variance(x, mean, cols) + eps);
	for (int c = threadIdx.x * 8; c < cols; c += blockDim.x * 8) {
		float v[8], weight[8], shift[8] = {};
		load8(v, x, c, cols);
		load8(weight, w, c, cols);
		if (bias) load8(shift, bias, c, cols);
		for (int j = 0; j < 8; j++) v[j] = mean(v[j]) * inverse * (weight[j] + offset) + shift[j];
		store8(y, v, c, cols);
	}
}

#define NORM(name, kind, X, Y)                                                                    \
	extern "C" __global__ void __launch_bounds__(1024) name(Y* y, const X* x, const float* w,     \
	                                                        const float* bias, int cols,          \
	                                                        int64 ldy, int64 ldx, float eps,      \
	                                                        float offset) {                       \
		norm<kind>(y, x, w, bias, cols, ldy, ldx, eps, offset);                                   \
	}

NORM(norm_rms_f32_f32, rms, float, float)
NORM(norm_rms_f32_f16, rms, float, half)
NORM(norm_rms_f16_f16, rms, half, half)
NORM(norm_layer_f32_f32, layer, float, float)
NORM(norm_layer_f32_f16, layer, float, half)
NORM(norm_layer_f16_f16, layer, half, half)
