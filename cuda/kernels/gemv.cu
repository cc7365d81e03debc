// Dense products of few rows: y = x·wᵀ + bias for x [rows, k], rows up to eight,
// and w [n, k] of any type, fp32 sums.
//
// A warp a row of w, which is read once, or, where there are few, all warps of a block; x comes from the first-level cache.
// Names end in the types of w and y.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int most = 8;   // rows of x
constexpr int warps = 4;  // of a block

// dot returns a lane's part of the product of a row of w and a row of x, of which the lane is one of some.
template <class W>
__device__ inline float dot(const W* w, const half* x, int k, int lane, int lanes) {
	float sum = 0;
#pragma unroll 4
	for (int i = lane * 8; i < k; i += lanes * 8) {
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
__device__ inline void dots(float (&sums)[most], const W* w, const half* x, int64 ldx, int rows, int k, int lane, int lanes) {
	for (int i = lane * 8; i < k; i += lanes * 8) {
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
	int rows, int n, int k, int share,  // warps that share a row of w: 1, or all of the block
	int64 ldy, int64 ldx) {
	__shared__ float parts[warps][most];
	after_previous();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, j = share == 1 ? blockIdx.x * warps + warp : blockIdx.x;
	if (j >= n) return;
	const W* row = w + (int64)j * k;
	float sums[most] = {};
	int first = share == 1 ? lane : threadIdx.x;
	if (rows == 1)
		sums[0] = dot(row, x, k, first, 32 * share);
	else
		dots(sums, row, x, ldx, rows, k, first, 32 * share);
#pragma unroll
	for (int r = 0; r < most; r++) {
		if (r >= rows) break;
		float sum = warp_sum(sums[r]);
		if (lane != 0) continue;
		if (share == 1) narrow(y[r * ldy + j], sum + (bias ? bias[j] : 0));
		else parts[warp][r] = sum;
	}
	if (share == 1) return;
	__syncthreads();
	if (threadIdx.x >= rows) return;
	float sum = bias ? bias[j] : 0;
#pragma unroll
	for (int i = 0; i < warps; i++) sum += parts[i][threadIdx.x];
	narrow(y[threadIdx.x * ldy + j], sum);
}

#define GEMV(name, W, Y)                                                                            \
	extern "C" __global__ void name(Y* y, const half* x, const W* w, const float* bias, int rows,   \
	                                int n, int k, int share, int64 ldy, int64 ldx) {                \
		gemv(y, x, w, bias, rows, n, k, share, ldy, ldx);                                           \
	}

GEMV(gemv_f16_f16, half, half)
GEMV(gemv_f16_f32, half, float)
GEMV(gemv_bf16_f16, bf16, half)
GEMV(gemv_bf16_f32, bf16, float)
GEMV(gemv_f32_f16, float, half)
GEMV(gemv_f32_f32, float, float)
