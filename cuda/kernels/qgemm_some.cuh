// What products of some rows (qgemm_hopper.cu) are given, and how blocks of a cluster share them.
#pragma once

#include "cluster.cuh"
#include "qgemm_slots.cuh"

constexpr int most_matrices = 3, most_blocks = 8;  // of a cluster
constexpr int eights_at_once = 8;                  // of rows, whose sums meet
constexpr int part_bytes = 2 * tiles * 32 * 16;    // of eight rows
constexpr int product_bytes = most_matrices * 88 + 48;

// Matrix is one of those of one x.
struct Matrix {
	const uint4* words;            // [tiles, chunks, 32]
	const unsigned short* scales;  // [tiles, groups, 8]
	const u32* units;              // [groups]
	const uint2* places;           // [steps], as Place
	void* y;                       // [rows, out], rows ldy elements apart
	const float* bias;             // [out] or null
	int64 ldy;
	int chunks, groups, tiles, out;
	int steps;             // units of 128 rows
	int first, unused[2];  // 256 columns of the matrices before
};

// Product is what a launch does; cuda/qgemm.go has the same.
struct Product {
	Matrix m[most_matrices];
	const half* x;               // [in/32, rows8, 32]
	int count, all;              // matrices; 256 columns of all of them
	int rows, rows8, in_blocks;  // of x; in whole eights; of 32 columns
	int slot, slots;             // bytes; of shared memory
	int adds, wide, unused;      // to y, which is float; y is float
};
static_assert(sizeof(Product) == product_bytes && part_bytes % 16 == 0 && most_blocks > 1 && eights_at_once > 0, "as cuda/qgemm.go has it");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Cluster is a block's place among those that share columns.
struct Cluster {
	int rank, size, number, count;
	__device__ Cluster() : rank(rank_in_cluster()) {
		asm("mov.u32 %0, %%cluster_nctarank;" : "=r"(size));
		number = blockIdx.x / size, count = gridDim.x / size;
	}
	__device__ int from(const Matrix& m) const { return m.steps * rank / size; }
	__device__ int to(const Matrix& m) const { return m.steps * (rank + 1) / size; }
};

__device__ inline const Matrix& matrix_of(const Product& p, int columns) {
	int k = 0;
	while (k + 1 < p.count && columns >= p.m[k + 1].first) k++;
	return p.m[k];
}

#endif
