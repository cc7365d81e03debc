// The order in which products of many rows read x on Hopper (qgemm_hopper.cu, qgemm_group.cu): by blocks of 32 stored rows of the matrix.
#pragma once

#include "exl2.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// row_in_memory is a row, or the first of some, in shared memory.
__device__ inline half* row_in_memory() {
	extern __shared__ uint4 memory[];  // [in] half
	return (half*)memory;
}

// A Row is one of x, or the first of some, and of what else is needed of it.
struct Row {
	half* y;             // [in/32, rows8, 32], as wgmma reads it
	const half* order;   // [in]: column of x of each stored row, a 16-bit number
	int in, rows8, row;  // of x
};

// gather writes blocks of some rows that are in shared memory: of a block, sixteen neighbours are two of every eight stored rows and then the next two, which is
// what the weights of four lanes are (mma.cuh). blockIdx.y has a share of the blocks. Where there are several rows, they share what is read of the order.
template <int threads, bool several = false>
__device__ inline void gather(const Row& r, const half* rows, int count = 1) {
	constexpr int pieces = block_rows / 8;
	int all = r.in / 8, from = all * blockIdx.y / gridDim.y, to = all * (blockIdx.y + 1) / gridDim.y;
	for (int i = from + threadIdx.x; i < to; i += threads) {
		int block = i / pieces, piece = i % pieces;
		const u32* order = (const u32*)(r.order + block * block_rows) + piece;
		u32 shared[4];
#pragma unroll
		for (int j = 0; several && j < 4; j++) shared[j] = __ldg(order + 4 * j);
		for (int k = 0; k < count; k++) {
			const half* row = rows + k * r.in;
			Eight<half> v;
#pragma unroll
			for (int j = 0; j < 4; j++) {
				u32 two = several ? shared[j] : __ldg(order + 4 * j);
				v.v[2 * j] = row[two & 0xffff], v.v[2 * j + 1] = row[two >> 16];
			}
			*(uint4*)(r.y + ((int64)block * r.rows8 + r.row + k) * block_rows + (piece ^ (r.row + k) / 2 % 4) * 8) = v.words[0];
		}
	}
}

#endif
