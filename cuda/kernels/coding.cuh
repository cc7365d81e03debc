// A group of a matrix that is being quantized, and the format's arithmetic in the
// CPU's roundings.
#pragma once

#include "planes.cuh"

// Step is one group at one step of its matrix; quantize_step.go has the same struct.
// Pointers are to the first row of the group, but for panel and planes.
struct Step {
	float* panel;      // [rows of the block, n]: what is left to store, or errors
	const float* w;    // [rows, n]
	unsigned char* codes;    // [rows, n]
	unsigned char* scales;   // [n]
	half* largest;     // [1]
	half* planes;      // of the matrix's errors
	unsigned* top;     // [1]: the largest magnitude in the group
	const float* most; // [1]: of the matrix, by which errors are lifted
	double* sums;      // [tiles of columns, candidates]
	unsigned char* chosen;   // [candidates, n]
	int* count;        // [1]: blocks that are done
	double* loss;      // [n/32]
	int64 plane;       // halves from one plane to the next
	int tiles;         // of planes, in a row
	int row, rows;     // of the group in the matrix
	int before;        // rows of the block before the group
	int n, bits;
};

constexpr float rounder = 12582912;  // 1.5·2²³: adding it leaves no bits for fractions

// Grid is what the weights of a column are measured in: codes of some bits.
struct Grid {
	float scale, inverse;  // 1/scale, 0 for 0
	float zero;            // the code of 0

	__device__ Grid(float scale, int bits) : scale(scale), inverse(scale != 0 ? __frcp_rn(scale) : 0), zero(1 << (bits - 1)) {}

	// nearest returns the number of the nearest code, less zero; NaN becomes the lowest.
	__device__ float nearest(float w) const {
		float q = __fadd_rn(__fmul_rn(w, inverse), rounder);
		return __fsub_rn(fminf(fmaxf(q, rounder - zero), rounder + zero - 1), rounder);
	}
	// value returns the weight of code q, less zero.
	__device__ float value(float q) const { return __half2float(__float2half_rn(__fmul_rn(q, scale))); }
};

// scale_of returns the format's scale of a code s-1: fp16(s²)·fp16(largest/256).
__device__ inline float scale_of(int code, half largest) {
	float unit = __half2float(__float2half_rn(__fmul_rn(__half2float(largest), 1.0f / 256)));
	return __half2float(__float2half_rn(__fmul_rn((float)((code + 1) * (code + 1)), unit)));
}
