// What kernels of attention share.
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

// Seen is the positions that a row sees.
struct Seen {
	int start, end;
	__device__ Seen(int pos, int window) : start(window > 0 ? max(0, pos + 1 - window) : 0), end(pos + 1) {}
};

// capped is cap·tanh(x/cap), or x if cap is 0.
__device__ inline float capped(float x, float cap) { return cap == 0 ? x : cap * tanhf(x / cap); }

constexpr float log2e = 1.4426950408889634f;

// no_score is that of positions that are not seen: less than any, and finite.
constexpr float no_score = -1e30f;

// Scoring is what makes scores of the products of queries and keys.
struct Scoring {
	float scale, cap, temperature;
	int temperature_span;

	// factor is what a product at a row's position is multiplied by.
	__device__ float factor(int pos) const {
		return temperature == 0 ? scale : scale * (1 + temperature * logf((float)(1 + pos / temperature_span)));
	}
};
