// What norms and their gradients share: the moments of a row, by a block.
#pragma once

#include "half.cuh"
#include "reduce.cuh"

enum Kind { rms, layer };

// Centre is what is subtracted from the elements of a row, in two steps, which
// keeps the precision of rows far from zero: their first element, and how far
// the mean is from it.
struct Centre {
	float first, rest;
	__device__ float operator()(float x) const { return (x - first) - rest; }
};

template <class X>
__device__ Centre row_centre(const X* x, int cols) {
	Centre mean = {widen(x[0]), 0};
	float sum = 0;
	for (int c = threadIdx.x * 8; c < cols; c += blockDim.x * 8) {
		float v[8];
		load8(v, x, c, cols);
		for (int j = 0; j < 8; j++)
			if (c + j < cols) sum += mean(v[j]);
	}
	mean.rest = block_sum(sum) / cols;
	return mean;
}

template <class X>
__device__ float row_variance(const X* x, Centre mean, int cols) {
	float sum = 0;
	for (int c = threadIdx.x * 8; c < cols; c += blockDim.x * 8) {
		float v[8];
		load8(v, x, c, cols);
		for (int j = 0; j < 8; j++)
			if (c + j < cols) sum += mean(v[j]) * mean(v[j]);
	}
	return block_sum(sum) / cols;
}
