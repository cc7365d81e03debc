// What the kernel of products of several rows (qmatmul_batch.cu) is given, and what of it is a cluster's, a block's and a warp's.
#pragma once

#include "cluster.cuh"
#include "link.cuh"
#include "products.cuh"
#include "range.cuh"

constexpr int most = 16;  // rows of x
constexpr int most_blocks = 4;  // of a cluster
constexpr int warps = 16, slots = 2, threads = 32 * warps;
constexpr int early = 1;  // units of a warp that are asked for in front of x, which waits behind them

static_assert(most <= warps && 0 < early && early <= slots, "a warp has a row of x");
static_assert(slots == 2, "as Feed::both has it");

// Product is what a launch does; cuda/batch.go has the same. An item is a tile, or a pair of a gate.
struct Product {
	Matrix m[most_matrices];
	const half* x;         // [rows, in], rows ldx elements apart, each at 16 bytes
	const half* to;        // [out]: where in y columns go, or null
	int64 ldx;
	int count, then, act, in;
	int wide, rows;        // wide: y is float
	int share, rest;       // items of a cluster, and how many clusters have one more
	int blocks, slot;      // of a cluster; bytes
	int round, owned;      // items at a time, and how many of them a block finishes
	int parts;             // of a tile, that a block has at most
	int units, groups;     // of the matrices, with padding, in words of 4 bytes; of a unit, at most
	int counts;            // bytes of the table of parts
	short split[most_matrices][most_blocks + 2];  // where in a tile of a matrix units of each block begin, and of the last end
	short staged[most_blocks][2];  // of every block of a cluster, the first block of x that it needs, and the one behind the last
	int each;              // units of a round that a warp has, the last ones fewer
	float per_block, per_each;  // 1 / blocks, 1 / each
	Link link;
};

// divided is quotient, given 1 / by.
__device__ inline int divided(int n, float per) { return (int)((n + 0.5f) * per); }

// number_of_cluster is a cluster's number, where all are in a row.
__device__ inline int number_of_cluster() {
	int n;
	asm("mov.u32 %0, %%clusterid.x;" : "=r"(n));
	return n;
}

// run_of returns a cluster's items.
__device__ inline Range run_of(const Product& p) {
	int c = number_of_cluster(), from = c * p.share + min(c, p.rest);
	return {from, from + p.share + (c < p.rest)};
}

// next_round returns the round behind one; it is empty at the end.
__device__ inline Range next_round(const Product& p, Range round) { return {round.to, min(round.to + p.round, run_of(p).to)}; }

// units_of returns a block's units of every tile of matrix k.
__device__ inline Range units_of(const Product& p, int k, int rank) { return {p.split[k][rank], p.split[k][rank + 1]}; }

// in returns the tiles of a matrix that are in a round.
__device__ inline Range in(const Matrix& m, Range round) {
	int from = max(round.from - m.base, 0);
	return {from, max(from, min(round.to - m.base, m.tiles))};
}

// units_of_warp returns how many units of a block's round a warp has.
__device__ inline int units_of_warp(const Product& p, Range round, int rank) {
	int size = 0;
#pragma unroll 1
	for (int k = 0; k < p.count; k++) size += in(p.m[k], round).size() * units_of(p, k, rank).size();
	return max(min(size - (int)(threadIdx.x / 32) * p.each, p.each), 0);
}

// shared returns what is at an address of shared memory.
template <class T>
__device__ inline const T* shared(u32 at) { return (const T*)__cvta_shared_to_generic(at); }

// kept returns v, which is to stay in a register, where the compiler would work it out for every unit again.
__device__ inline u32 kept(u32 v) {
	asm volatile("" : "+r"(v));
	return v;
}
