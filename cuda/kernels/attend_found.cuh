// What blocks of attention have: rows of several heads, and parts of their keys.
#pragma once

// Stack is rows of heads from one on, those of each behind those of the one before.
struct Stack {
	int rows, head;

	__device__ int row_of(int r) const { return r % rows; }
	__device__ int head_of(int r) const { return head + r / rows; }
};

// Found is what is found by rows, heads and parts, for attend_join.cu: sums of weighted values, relative to the largest score, and that, times
// log2(e), and the sum of weights.
struct Found {
	float* sums;   // [rows, heads, parts, dim]
	float* stats;  // [rows, heads, parts, 2]
	int parts;

	// at returns where a part of a row and head is.
	__device__ int64 at(int row, int head, int heads, int part) const { return ((int64)row * heads + head) * parts + part; }

	__device__ void store(int64 at, float top, float sum) const { *(float2*)(stats + 2 * at) = make_float2(top, sum); }
};
