// Codes that are trained: latents v stand for weights fp16(round(v)·scale), and a step
// of Adam moves them along the gradient of the weights.
//
// A block a row, that is, an output. Operations are rounded one by one, as the CPU
// does.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "order.cuh"

using int64 = long long;

constexpr int threads = 256;
constexpr float reach = 0.45f;  // beyond the first and the last code

__device__ inline float nearest(float v, float zero) { return fminf(fmaxf(rintf(v), -zero), zero - 1); }

extern "C" __global__ void __launch_bounds__(threads) latent_round(
	half* w,             // [out, in]
	const float* v,      // [out, in]
	const float* scale,  // [out, groups]
	const int* group,    // [in]
	const float* zero,   // [groups]
	int in, int groups) {
	after_previous();
	int64 row = (int64)blockIdx.x * in, scales = (int64)blockIdx.x * groups;
	for (int i = threadIdx.x; i < in; i += threads) {
		int g = group[i];
		w[row + i] = __float2half_rn(__fmul_rn(nearest(v[row + i], zero[g]), scale[scales + g]));
	}
}

// Moments are added to in float32 and kept in bfloat16.
extern "C" __global__ void __launch_bounds__(threads) latent_train(
	half* w,                // [out, in]
	float* v,               // [out, in]
	const float* scale,     // [out, groups]
	const int* group,       // [in]
	const float* zero,      // [groups]
	__nv_bfloat16* first,   // moments, [out, in]
	__nv_bfloat16* second,
	const float* dw,        // [out, in]
	int in, int groups, float rate, float beta1, float beta2, float first_up, float second_up, float eps, float pull) {
	after_previous();
	int64 row = (int64)blockIdx.x * in, scales = (int64)blockIdx.x * groups;
	for (int i = threadIdx.x; i < in; i += threads) {
		int g = group[i];
		int64 at = row + i;
		float s = scale[scales + g], z = zero[g], slope = __fmul_rn(dw[at], s);
		float m = __fadd_rn(__fmul_rn(beta1, __bfloat162float(first[at])), __fmul_rn(__fsub_rn(1, beta1), slope));
		float squares = __fadd_rn(__fmul_rn(beta2, __bfloat162float(second[at])), __fmul_rn(__fmul_rn(__fsub_rn(1, beta2), slope), slope));
		first[at] = __float2bfloat16_rn(m), second[at] = __float2bfloat16_rn(squares);
		float root = __fadd_rn(__fsqrt_rn(__fmul_rn(squares, second_up)), eps);
		float x = __fsub_rn(v[at], __fdiv_rn(__fmul_rn(rate, __fmul_rn(m, first_up)), root));
		x = fminf(fmaxf(x, __fsub_rn(-z, reach)), __fadd_rn(__fsub_rn(z, 1), reach));
		float code = nearest(x, z);
		v[at] = __fadd_rn(x, __fmul_rn(pull, __fsub_rn(code, x)));
		w[at] = __float2half_rn(__fmul_rn(code, s));
	}
}
