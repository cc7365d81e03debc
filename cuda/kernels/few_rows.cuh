// What kernels of products of few rows (qmatmul.cu) are given, and what of it is a block's and a warp's.
#pragma once

#include "arrive.cuh"
#include "digit_part.cuh"
#include "link.cuh"
#include "meet.cuh"
#include "products.cuh"
#include "range.cuh"

constexpr int most = 8;  // rows of x
constexpr int many_warps = 16, few_warps = 8;

// Product is what a launch does; cuda/packed.go has the same.
struct Product {
	static constexpr bool joins = false;  // (join_row.cuh)

	// What the first unit is found by comes first: reads of what a kernel is told are by lines.
	int count;            // matrices
	int share, rest;      // tiles of a block, and how many blocks have one more
	int then;
	int slot;             // bytes
	int round;            // tiles that there are sums of in shared memory
	int groups;           // of a unit, at most, that a lane has the scales of
	int leaves;           // whether there is something in leaving
	Matrix m[most_matrices];
	const void* x;        // [rows, in], rows ldx elements apart, each at 16 bytes; float to be normalized
	const half* places;   // [in]: where in stored order a column of x is, a 16-bit number; or null
	const float* scale;   // [in] of the norm
	const float* shift;   // [in] or null
	const half* to;       // [out]: where in y columns go, or null
	int64 ldx;
	int tiles;            // of all matrices; of a gate, of one
	int act, norm, in;
	int wide, rows;       // wide: y is float
	float eps, offset;
	int units;            // of the matrices, with padding, for those who have no steps (step.cuh)
	int results;          // bytes of those that are kept, of several rows by digits
	Leaving leaving;      // q, k and v of one row, and of two, are left for attend_left.cu
	Link link;
	Area areas[most_matrices + 1];     // of matrices, of four rows by digits
	Portion portions[many_warps + 2];  // of warps, of one row in order, and of two

	// has reports whether the block has tiles of a matrix.
	__device__ bool has(int k) const;
};

__device__ inline int row_of(u32 packed) { return packed >> 1 & 0x1fff << 6; }  // in bytes: block_of times 64

// run_of returns a block's tiles of a product.
__device__ inline Range run_of(const Product& p) {
	int b = blockIdx.x, from = b * p.share + min(b, p.rest);
	return {from, from + p.share + (b < p.rest)};
}

// units_of returns a warp's units of every tile.
template <int warps>
__device__ inline Range units_of(const Matrix& m) {
	int w = threadIdx.x / 32;
	return {m.count * w / warps, m.count * (w + 1) / warps};
}

// in returns the tiles of a matrix that are in a round.
__device__ inline Range in(const Matrix& m, Range round) {
	return {max(round.from - m.base, 0), min(round.to - m.base, m.tiles)};
}

__device__ inline bool Product::has(int k) const { return ::in(m[k], run_of(*this)).size() > 0; }

// span_of returns the tiles of a round, in each of two matrices of a gate.
__device__ inline int span_of(const Product& p) { return p.then == gate ? p.round / 2 : p.round; }
