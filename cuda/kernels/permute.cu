// Columns in another order: dst[r, i] = src[r, perm[i]].
//
// A block a row and 2048 columns, eight a thread, so that writes are whole.
#include "half.cuh"
#include "order.cuh"

constexpr int threads = 256;
constexpr int columns = threads * 8;  // of a block

extern "C" __global__ void permute_f16(
	half* dst,        // [rows, cols]
	const half* src,  // [rows, cols], rows lds elements apart
	const int* perm,  // [cols]
	int cols,         // a multiple of 8
	int64 lds) {
	after_previous();
	int i = blockIdx.y * columns + threadIdx.x * 8;
	if (i >= cols) return;
	const half* from = src + blockIdx.x * lds;
	Eight<half> v;
#pragma unroll
	for (int j = 0; j < 8; j++) v.v[j] = from[perm[i + j]];
	*(uint4*)(dst + (int64)blockIdx.x * cols + i) = v.words[0];
}
