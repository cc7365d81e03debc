// Puts rows of x in the order in which qgemm_hopper.cu reads them.
#include "act.cuh"
#include "norm.cuh"
#include "order.cuh"
#include "qgemm_row.cuh"

constexpr int row_threads = 512;
static_assert(row_threads % 32 == 0, "whole warps");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void put8(half* to, const float (&v)[8]) {
	Eight<half> e;
#pragma unroll
	for (int j = 0; j < 8; j++) e.v[j] = __float2half_rn(v[j]);
	*(uint4*)to = e.words[0];
}

// opened_order orders act(x)·up, or x where there is no up.
__device__ inline void opened_order(half* y, const half* x, const half* up, const half* order, int in, int rows8, int act, int64 ldx, int64 ldu) {
	after_previous();
	half* row = row_in_memory();
	const half *from = x + blockIdx.x * ldx, *other = up + blockIdx.x * ldu;
	for (int i = threadIdx.x * 8; i < in; i += row_threads * 8) {
		float v[8], u[8];
		load8(v, from, i, in);
		if (up) {
			load8(u, other, i, in);
#pragma unroll
			for (int j = 0; j < 8; j++) v[j] = activate(act, v[j]) * u[j];
		}
		put8(row + i, v);
	}
	__syncthreads();
	gather<row_threads>({y, order, in, rows8, (int)blockIdx.x}, row);
}

template <Kind kind>
__device__ inline void norm_order(half* y, const float* x, const float* scale, const float* shift, const half* order, int in, int rows8, int64 ldx, float eps, float offset) {
	after_previous();
	half* row = row_in_memory();
	x += blockIdx.x * ldx;
	Centre mean = {0, 0};
	if (kind == layer) mean = row_centre(x, in);
	float inverse = 1 / sqrtf(row_variance(x, mean, in) + eps);
	for (int i = threadIdx.x * 8; i < in; i += row_threads * 8) {
		float v[8], weight[8], add[8] = {};
		load8(v, x, i, in), load8(weight, scale, i, in);
		if (shift) load8(add, shift, i, in);
#pragma unroll
		for (int j = 0; j < 8; j++) v[j] = mean(v[j]) * inverse * (weight[j] + offset) + add[j];
		put8(row + i, v);
	}
	__syncthreads();
	gather<row_threads>({y, order, in, rows8, (int)blockIdx.x}, row);
}

#else  // other GPUs have no products that read it

__device__ inline void opened_order(half*, const half*, const half*, const half*, int, int, int, int64, int64) {}
template <Kind kind>
__device__ inline void norm_order(half*, const float*, const float*, const float*, const half*, int, int, int64, float, float) {}

#endif

extern "C" __global__ void __launch_bounds__(row_threads) qgemm_order_f16(half* y, const half* x, const half* up, const half* order, int in, int rows8, int act, int64 ldx, int64 ldu) {
	opened_order(y, x, up, order, in, rows8, act, ldx, ldu);
}

#define NORM_ORDER(name, kind)                                                                                                                        \
	extern "C" __global__ void __launch_bounds__(row_threads) name(half* y, const float* x, const float* scale, const float* shift, const half* order, int in, \
	                                                           int rows8, int64 ldx, float eps, float offset) {                                       \
		norm_order<kind>(y, x, scale, shift, order, in, rows8, ldx, eps, offset);                                                                    \
	}

NORM_ORDER(qgemm_order_rms, rms)
NORM_ORDER(qgemm_order_layer, layer)
