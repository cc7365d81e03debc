// Dense products of few rows: y = x·wᵀ + bias for x [rows, k], rows up to eight,
// and w [n, k] of any type, fp32 sums.
//
// A warp a row of w, which is read once; x comes from the first-level cache.
// Names end in the types of w and y.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int most = 8;   // rows of x
constexpr int warps = 4;  // of a block

// dot returns a lane's part of the product of a row of w and a row of x.
template <class W>
__device__ inline float dot(const W* w, const half* x, int k) {
	float sum = 0;
#pragma unroll 4
	for (int i = threadIdx.x % 32 * 8; i < k; i += 32 * 8) {
		float a[8], b[8];
		load8(a, w, i, k);
		load8(b, x, i, k);
#pragma unroll
		for (int e = 0; e < 8; e++) sum += a[e] * b[e];
	}
	return sum;
}

// dots is dot for several rows of x.
template <class W>
__device__ inline void dots(float (&sums)[most], const W* w, const half* x, int64 ldx, int rows, int k) {
	for (int i = threadIdx.x % 32 * 8; i < k; i += 32 * 8) {
		float a[8], b[8];
		load8(a, w, i, k);
#pragma unroll
		for (int r = 0; r < most; r++) {
			if (r >= rows) break;
			load8(b, x + r * ldx, i, k);
#pragma unroll
			for (int e = 0; e < 8; e++) sums[r] += a[e] * b[e];
		}
	}
}

template <class W, class Y>
__device__ void gemv(
	Y* y,               // [rows, n], rows ldy elements apart
	const half* x,      // [rows, k], rows ldx elements apart
	const W* w,         // [n, k]
	const float* bias,  // [n] or null
	int rows, int n, int k, int64 ldy, int64 ldx) {
	after_previous();
	int j = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
	if (j >= n) return;
	const W* row = w + (int64)j * k;
	float sums[most] = {};
	if (rows == 1)
		sums[0] = dot(row, x, k);
	else
		dots(sums, row, x, ldx, rows, k);
#pragma unroll
	for (int r = 0; r < most; r++) {
		if (r >= rows) break;
		float sum = warp_sum(sums[r]);
		if (lane == 0) narrow(y[r * ldy + j], sum + (bias ? bias[j] : 0));
	}
}

#define GEMV(name, W, Y)                                                                            \
	extern "C" __global__ void name(Y* y, const half* x, const W* w, const float* bias, int rows,   \
	                                int n, int k, int64 ldy, int64 ldx) {                           \
		gemv(y, x, w, bias, rows, n, k, ldy, ldx);                                                  \
	}

GEMV(gemv_f16_f16, half, half)
GEMV(gemv_f16_f32, half, float)
GEMV(gemv_bf16_f16, bf16, half)
GEMV(gemv_bf16_f32, bf16, float)
GEMV(gemv_f32_f16, float, half)
GEMV(gemv_f32_f32, float, float)
