// The end of a dense product: sums to memory.
#pragma once

#include "half.cuh"

// put writes two neighbouring elements of a row of y.
__device__ inline void put(float* y, float a, float b) { *(float2*)y = make_float2(a, b); }
__device__ inline void put(half* y, float a, float b) { *(half2*)y = __floats2half2_rn(a, b); }

// put_pair writes columns col and col+1 of a row of n columns, those that there
// are; to is where the first belongs.
template <class Y>
__device__ inline void put_pair(Y* to, float a, float b, int col, int n) {
	if (col + 1 < n && (size_t)to % (2 * sizeof(Y)) == 0) {
		put(to, a, b);
	} else {
		if (col < n) narrow(to[0], a);
		if (col + 1 < n) narrow(to[1], b);
	}
}
