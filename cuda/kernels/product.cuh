// What product.cu and product_hopper.cu have in common: products aᵀ·b of operands
// in planes (planes.cuh), a [k, m] and b [k, n], added to float32 matrices.
//
// A launch computes a list of products, one for each blockIdx.y; blocks of a product
// have tiles of 128 x 128 of its result. Sums are of tensor cores, which cut bits
// off: after 128 of k at most they are added to others in float32.
#pragma once

#include "order.cuh"
#include "planes.cuh"

constexpr int block_m = 128, block_n = 128;

// What a product leaves out, beside what is outside of k0 to k1: bits of mode.
enum Mode {
	upper_result = 1,  // tiles below the diagonal of the result
	from_m = 2,        // k before the first row of the tile: a is upper triangular, turned
	to_m = 4,          // k after the last row of the tile: a is upper triangular
	below_from_n = 8   // in tiles before column m0, k before the first column of the tile
};

// Product is one of a list; quantize_product.go has the same struct.
struct Product {
	const half *a, *b;              // planes
	const float* from;              // what is added to, or null
	float* to;                      // where the result goes
	const float *a_most, *b_most;   // the largest magnitudes, if operands are lifted by them
	const float* rows;              // [m1 - m0] factors of the result's rows, or null
	int64 a_plane, b_plane;         // halves from one plane to the next
	int a_tiles, b_tiles;           // in a row
	int m0, m1, n0, n1;             // the columns of a and of b
	int k0, k1;                     // multiples of 32
	int ld;                         // of from and to, which begin at m0, n0
	float alpha;
	int mode, unused;
};

// Part is the tile of a block.
struct Part {
	int m, n;          // where it begins: multiples of 64
	int first, steps;  // of k, counted in tiles of 32
	bool empty;

	__device__ Part(const Product& p, int index) {
		int base_m = p.m0 / tile_cols * tile_cols, base_n = p.n0 / tile_cols * tile_cols;
		int across = (p.m1 - base_m + block_m - 1) / block_m, down = (p.n1 - base_n + block_n - 1) / block_n;
		empty = p.m1 <= p.m0 || p.n1 <= p.n0 || index >= across * down;
		if (empty) return;
		constexpr int band = 8;  // tiles of m side by side, so that what runs at a time shares operands
		int from = index / (band * down) * band, width = min(band, across - from), i = index - from * down;
		m = base_m + (from + i % width) * block_m, n = base_n + i / width * block_n;
		empty = (p.mode & upper_result) && n - p.n0 + block_n <= m - p.m0;
		int k0 = p.k0, k1 = p.k1;
		if (p.mode & from_m) k0 = max(k0, m);
		if (p.mode & to_m) k1 = min(k1, m + block_m);
		if ((p.mode & below_from_n) && n < p.m0) k0 = max(k0, n);
		first = k0 / tile_rows, steps = max(k1 - k0, 0) / tile_rows;
	}
};

// multiplier returns the factor of sums that makes up for lifts.
__device__ inline float multiplier(const Product& p) { return p.alpha / lift_of(p.a_most) / lift_of(p.b_most); }

// Place is two neighbouring elements of a row of the result. All that is added to is
// read before anything is stored, so that nothing waits in turn.
struct Place {
	int64 at;
	bool first, second, both;
	float factor;

	__device__ Place(const Product& p, float multiplier, int row, int column) {
		bool inside = row >= p.m0 && row < p.m1;
		first = inside && column >= p.n0 && column < p.n1, second = inside && column + 1 >= p.n0 && column + 1 < p.n1;
		at = (int64)(row - p.m0) * p.ld + column - p.n0;
		both = first && second && ((size_t)(p.to + at) | (size_t)(p.from + at)) % 8 == 0;
		factor = inside && p.rows ? multiplier * p.rows[row - p.m0] : multiplier;
	}
	__device__ float2 read(const Product& p) const {
		if (!p.from) return make_float2(0, 0);
		if (both) return *(const float2*)(p.from + at);
		return make_float2(first ? p.from[at] : 0, second ? p.from[at + 1] : 0);
	}
	__device__ void write(const Product& p, float2 old, float v0, float v1) const {
		v0 = old.x + v0 * factor, v1 = old.y + v1 * factor;
		if (both) {
			*(float2*)(p.to + at) = make_float2(v0, v1);
			return;
		}
		if (first) p.to[at] = v0;
		if (second) p.to[at + 1] = v1;
	}
};
