// What a group's table has of the matrices of experts.
#pragma once

#include "arrive.cuh"
#include "exl2.cuh"

constexpr int head_words = 20;  // of a matrix in the table

// Matrix is what the table has of an expert's. Behind it are its regions, and, where
// Table.places says, the places of its units, as qmatmul.cu has them.
struct alignas(16) Matrix {
	const uint4* words;   // [out/32, chunks, 32]
	const uint4* scales;  // [out/32, groups]
	const u32* units;     // [groups]
	const half* order;    // [in]: place in x of each stored row, a 16-bit number
	const half* stored;   // [in]: where in stored order a column of x is, likewise
	const float* bias;    // [out] or null
	int count, chunks, groups, unused;  // count: regions
	int units128, unused_too[3];        // units128: units of a tile
};
static_assert(sizeof(Matrix) == 4 * head_words, "the table's layout");

// Table is a group's.
struct Table {
	const int* words;  // [experts, stride]
	int stride, places;

	__device__ const int* of(int e) const { return words + (int64)e * stride; }

	// ask has some of as many blocks bring the table to the second-level cache.
	__device__ void ask(int experts, int block = 0, int blocks = 1) const {
		constexpr int line = 32;
		for (int i = (block * blockDim.x + threadIdx.x) * line; i < experts * stride; i += blocks * blockDim.x * line) prefetch(words + i);
	}
};
