// What both kernels of attention share.
#pragma once

#include "half.cuh"

// Cache is the keys and values of a layer.
struct Cache {
	const half* k;     // [pages·page_rows, cols]
	const half* v;     // likewise
	const int* table;  // [sequences, table_cols]
	int table_cols, page_rows, cols;

	// row returns where a position of a sequence is, counted in elements.
	__device__ int64 row(int seq, int pos) const {
		int page = table[seq * table_cols + pos / page_rows];
		return ((int64)page * page_rows + pos % page_rows) * cols;
	}
};

// capped is cap·tanh(x/cap), or x if cap is 0.
__device__ inline float capped(float x, float cap) { return cap == 0 ? x : cap * tanhf(x / cap); }

// no_score is that of positions that are not seen: less than any, and finite.
constexpr float no_score = -1e30f;
