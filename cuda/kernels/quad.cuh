// What lanes do with the rows of a tensor core's result, each of which four of them share.
#pragma once

#include "half.cuh"

__device__ inline float quad_max(float x) {
	x = fmaxf(x, __shfl_xor_sync(~0u, x, 1));
	return fmaxf(x, __shfl_xor_sync(~0u, x, 2));
}

__device__ inline float quad_sum(float x) {
	x += __shfl_xor_sync(~0u, x, 1);
	return x + __shfl_xor_sync(~0u, x, 2);
}

// pack is two numbers as half2 in a register.
__device__ inline unsigned pack(float a, float b) {
	half2 h = __floats2half2_rn(a, b);
	return *(unsigned*)&h;
}
