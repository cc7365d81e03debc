// What the backward passes of attention on tensor cores share.
#pragma once

#include "half.cuh"
#include "quad.cuh"

// add_to adds a warp's d, dimensions of 16 rows, to a matrix.
template <int most>
__device__ inline void add_to(float* to, int64 ld, int first, int end, int dim, const float (&d)[most / 8][4], float scale) {
	int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
	for (int c = 0; c < most / 8; c++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int row = first + g + i / 2 * 8, column = c * 8 + 2 * q + i % 2;
			if (row < end && column < dim) to[row * ld + column] += scale * d[c][i];
		}
}
