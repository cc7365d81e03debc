// Puts rows of x in the order in which qgemm_hopper.cu reads them.
//
// A block a row, which it gathers from shared memory.
#include "exl2.cuh"
#include "order.cuh"

constexpr int threads = 256;
constexpr int unit_rows = unit_blocks * block_rows, half_rows = 64;
constexpr int absent = 0xffff;  // a place where there is no row of the matrix

extern "C" __global__ void __launch_bounds__(256) qgemm_order_f16(
	half* y,            // [halves, rows8, 64], as wgmma reads it
	const half* x,      // [rows, in], rows ldx elements apart, each at 16 bytes
	const half* order,  // [64·halves]: column of x, a 16-bit number
	int rows, int rows8, int in, int halves, int64 ldx) {
	extern __shared__ half row[];
	after_previous();
	int r = blockIdx.x;
	for (int i = threadIdx.x * 8; i < in; i += threads * 8)
		*(uint4*)(row + i) = r < rows ? *(const uint4*)(x + r * ldx + i) : make_uint4(0, 0, 0, 0);
	__syncthreads();
	for (int i = threadIdx.x * 8; i < halves * half_rows; i += threads * 8) {
		Eight<half> from, v;
		from.words[0] = *(const uint4*)(order + i);
#pragma unroll
		for (int j = 0; j < 8; j++) {
			int at = __half_as_ushort(from.v[j]);
			v.v[j] = at == absent ? __half(0.0f) : row[at];
		}
		int chunk = i % half_rows / 8;
		*(uint4*)(y + ((int64)(i / half_rows) * rows8 + r) * half_rows + (chunk ^ r % 8) * 8) = v.words[0];
	}
}

// qgemm_order_make makes that order: sixteen neighbours are two of every eight rows of a
// block and then the next two, which is what the weights of four lanes are (mma.cuh).
extern "C" __global__ void __launch_bounds__(256) qgemm_order_make(
	half* order,         // [n]
	const int* perm,     // [in]: column of x of each stored row
	const int* regions,  // [count, 8]
	int count, int n) {
	after_previous();
	int i = blockIdx.x * threads + threadIdx.x;
	if (i >= n) return;
	int unit = i / unit_rows, block = i % unit_rows / block_rows, row = i % 8 / 2 * 8 + i % 32 / 16 * 4 + i % 16 / 8 * 2 + i % 2;
	const Region* r = (const Region*)regions;
	for (;; r = (const Region*)((const int*)r + 8)) {
		if (unit < r->units()) break;
		unit -= r->units();
	}
	block += unit * unit_blocks;
	int at = block < r->blocks ? perm[(r->block + block) * block_rows + row] : absent;
	order[i] = __ushort_as_half((unsigned short)at);
}
