// Weighted sums of rows: y[r] += scale·Σ weights[r, k]·x[places[r, k]], over k in
// order, and their gradient: dx[places[r, k]] += scale·weights[r, k]·dy[r]. Without
// weights they are ones.
//
// Eight elements a thread; blockIdx.y is the row. Names end in the type of x.
#include "half.cuh"
#include "link.cuh"
#include "order.cuh"

constexpr int threads = 64;
constexpr int lanes = 32;  // of a warp, of which each has a row of x

template <class X>
__device__ void combine(
	float* y,              // [rows, n], rows ldy elements apart
	const X* x,            // [·, n], ldx
	const int* places,     // [rows, count], ldp
	const float* weights,  // [rows, count], ldw, or null
	int64 n, int count, int64 ldy, int64 ldx, int64 ldp, int64 ldw, float scale) {
	after_previous();
	int64 i = first8(), r = blockIdx.y;
	if (i >= n) return;
	float sum[8] = {}, v[8];
#pragma unroll 4
	for (int k = 0; k < count; k++) {
		float w = weights ? weights[r * ldw + k] : 1;
		load8(v, x + places[r * ldp + k] * ldx, i, n);
#pragma unroll
		for (int j = 0; j < 8; j++) sum[j] += w * v[j];
	}
	load8(v, y + r * ldy, i, n);
#pragma unroll
	for (int j = 0; j < 8; j++) v[j] += scale * sum[j];
	store8(y + r * ldy, v, i, n);
}

extern "C" __global__ void __launch_bounds__(threads) combine_f16(float* y, const half* x, const int* places, const float* weights, int64 n, int count, int64 ldy, int64 ldx, int64 ldp, int64 ldw, float scale) {
	combine(y, x, places, weights, n, count, ldy, ldx, ldp, ldw, scale);
}

extern "C" __global__ void __launch_bounds__(threads) combine_f32(float* y, const float* x, const int* places, const float* weights, int64 n, int count, int64 ldy, int64 ldx, int64 ldp, int64 ldw, float scale) {
	combine(y, x, places, weights, n, count, ldy, ldx, ldp, ldw, scale);
}

// combine_left is combine_f16 of up to `lanes` rows of x for each of y, whole eights of columns, which leaves y for its readers, too (link.cuh).
// The kernels in front have to have waited for all that it reads but x.
extern "C" __global__ void __launch_bounds__(threads) combine_left(
	float* y, const half* x, const int* places, const float* weights, half* left, float* left_squares, const float* left_powers, const half* left_places, const float* left_scale,
	int n, int count, int64 ldy, int64 ldx, int64 ldp, int64 ldw, float scale, float left_offset) {
	Link link = {nullptr, (float*)left_powers, left, left_squares, left_places, left_scale, left_offset, 0, 0, n};
	int i = first8(), r = blockIdx.y, lane = threadIdx.x % lanes;
	bool there = i < n;
	int place = lane < count ? places[r * ldp + lane] : 0;
	float weight = lane < count ? weights[r * ldw + lane] : 0, v[8];
	Linked to[8];
#pragma unroll
	for (int j = 0; j < 8; j++)
		if (there) to[j] = Linked(link, r, i + j);
	if (there) load8(v, y + r * ldy, i, n);
	after_previous();
	float sum[8] = {}, square = 0;
#pragma unroll 8
	for (int k = 0; k < count; k++) {
		float e[8], w = __shfl_sync(~0u, weight, k);
		int from = __shfl_sync(~0u, place, k);
		if (there) load8(e, x + from * ldx, i, n);
#pragma unroll
		for (int j = 0; j < 8; j++) sum[j] += w * e[j];
	}
	if (there) {
#pragma unroll
		for (int j = 0; j < 8; j++) v[j] += scale * sum[j], square += v[j] * v[j], leave(link, to[j], r, v[j]);
		store8(y + r * ldy, v, i, n);
	}
	leave_squares(link, to[0].power, (blockIdx.x * threads + threadIdx.x) / lanes, r, square);
}

extern "C" __global__ void __launch_bounds__(threads) combine_back(
	float* dx, const float* dy, const int* places, const float* weights, int64 n, int count, int64 lddx, int64 lddy, int64 ldp, int64 ldw, float scale) {
	after_previous();
	int64 i = first8(), r = blockIdx.y;
	if (i >= n) return;
	float d[8], v[8];
	load8(d, dy + r * lddy, i, n);
	for (int k = 0; k < count; k++) {
		float w = scale * (weights ? weights[r * ldw + k] : 1);
		float* to = dx + places[r * ldp + k] * lddx;
		load8(v, to, i, n);
#pragma unroll
		for (int j = 0; j < 8; j++) v[j] += w * d[j];
		store8(to, v, i, n);
	}
}
