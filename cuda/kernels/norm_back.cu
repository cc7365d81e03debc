// The gradient of norms by rows: with z the normalized x and g = dy·(w + offset),
//
//	dx += inverse·(g - mean(g) - z·mean(g·z)),
//
// the mean of g for layer alone. A block a row. Names end in the type of x.
#include "norm.cuh"
#include "order.cuh"

template <Kind kind, class X>
__device__ void norm_back(
	float* dx,        // [rows, cols], rows ldd elements apart
	const float* dy,  // [rows, cols], ldy
	const X* x,       // [rows, cols], ldx
	const float* w,   // [cols]
	int cols, int64 ldd, int64 ldy, int64 ldx, float eps, float offset) {
	after_previous();
	dx += blockIdx.x * ldd;
	dy += blockIdx.x * ldy;
	x += blockIdx.x * ldx;
	Centre mean = {0, 0};
	if (kind == layer) mean = row_centre(x, cols);
	float inverse = 1 / sqrtf(row_variance(x, mean, cols) + eps);
	float sum = 0, along = 0;
	for (int c = threadIdx.x; c < cols; c += blockDim.x) {
		float g = dy[c] * (w[c] + offset);
		sum += g;
		along += g * (mean(widen(x[c])) * inverse);
	}
	sum = kind == layer ? block_sum(sum) / cols : 0;
	along = block_sum(along) / cols;
	for (int c = threadIdx.x; c < cols; c += blockDim.x) {
		float g = dy[c] * (w[c] + offset);
		dx[c] += inverse * (g - sum - mean(widen(x[c])) * inverse * along);
	}
}

#define NORM_BACK(name, kind, X)                                                                         \
	extern "C" __global__ void name(float* dx, const float* dy, const X* x, const float* w, int cols,    \
	                                int64 ldd, int64 ldy, int64 ldx, float eps, float offset) {          \
		norm_back<kind, X>(dx, dy, x, w, cols, ldd, ldy, ldx, eps, offset);                              \
	}

NORM_BACK(norm_back_rms_f32, rms, float)
NORM_BACK(norm_back_rms_f16, rms, half)
NORM_BACK(norm_back_layer_f32, layer, float)
NORM_BACK(norm_back_layer_f16, layer, half)
