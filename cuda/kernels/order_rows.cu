// Rows as products of few rows take them (qmatmul_rows.cu): y[r, i] = x[r, perm[i]],
// x being as it is, or a norm of what is given (norm.cuh). perm is given by its inverse.
//
// A block has a row, which passes through shared memory.
#include "link.cuh"
#include "norm.cuh"
#include "order.cuh"

constexpr int threads = 512;

// Source is a row before it is in order; kind is known to the kernel.
struct Source {
	const float* scale;
	const float* shift;
	int cols;
	float eps, offset;
	float* powers;  // [rows] of the norm, to be stored (link.cuh), or null
};

// place puts eight elements, columns i and on, where places say.
__device__ inline void place(half* to, const uint4& where, const float (&v)[8]) {
	Eight<half> places;
	places.words[0] = where;
#pragma unroll
	for (int j = 0; j < 8; j++) to[__half_as_ushort(places.v[j])] = __float2half_rn(v[j]);
}

template <bool normalized, Kind kind, class X>
__device__ inline void order_rows(half* y, const X* x, const half* places, const Source& s, int64 ldx) {
	extern __shared__ uint4 memory[];  // [cols] half
	half* ordered = (half*)memory;
	int first = threadIdx.x * 8;
	uint4 ahead = make_uint4(0, 0, 0, 0);
	float scales[8];
	if (first < s.cols) {
		ahead = __ldg((const uint4*)(places + first));
		if (normalized) load8(scales, s.scale, first, s.cols);
	}
	after_previous();
	x += blockIdx.x * ldx;
	Centre mean = {0, 0};
	float inverse = 1;
	if constexpr (normalized) {
		if (kind == layer) mean = row_centre(x, s.cols);
		float square = row_variance(x, mean, s.cols) + s.eps;
		inverse = 1 / sqrtf(square);
		if (s.powers && threadIdx.x == 0) s.powers[blockIdx.x] = power(square);
	}
	for (int i = first; i < s.cols; i += threads * 8) {
		float v[8], weight[8], add[8] = {};
		load8(v, x, i, s.cols);
		if constexpr (normalized) {
			if (i > first) load8(weight, s.scale, i, s.cols);
			if (s.shift) load8(add, s.shift, i, s.cols);
#pragma unroll
			for (int j = 0; j < 8; j++) v[j] = mean(v[j]) * inverse * ((i == first ? scales[j] : weight[j]) + s.offset) + add[j];
		}
		place(ordered, i == first ? ahead : __ldg((const uint4*)(places + i)), v);
	}
	__syncthreads();
	for (int i = first; i < s.cols; i += threads * 8)
		*(uint4*)(y + (int64)blockIdx.x * s.cols + i) = *(const uint4*)(ordered + i);
}

#define ORDER_ROWS(name, normalized, kind, X)                                                                        \
	extern "C" __global__ void __launch_bounds__(threads) name(half* y, const X* x, const half* places,              \
	                                                           const float* scale, const float* shift, int cols,     \
	                                                           int64 ldx, float eps, float offset, float* powers) {  \
		order_rows<normalized, kind>(y, x, places, {scale, shift, cols, eps, offset, powers}, ldx);                  \
	}

ORDER_ROWS(order_rows_f16, false, rms, half)
ORDER_ROWS(order_rows_rms_f32, true, rms, float)
ORDER_ROWS(order_rows_layer_f32, true, layer, float)
