// Columns in another order: dst[r, i] = src[r, perm[i]].
//
// A block a row and 2048 columns, eight a thread, so that writes are whole.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void permute_f16(
	half* dst,        // [rows, cols]
	const half* src,  // [rows, cols]
	const int* perm,  // [cols]
	int cols) {       // a multiple of 8
	after_previous();
	int i = (blockIdx.y * blockDim.x + threadIdx.x) * 8;
	if (i >= cols) return;
	const half* from = src + (int64)blockIdx.x * cols;
	Eight<half> v;
#pragma unroll
	for (int j = 0; j < 8; j++) v.v[j] = from[perm[i + j]];
	*(uint4*)(dst + (int64)blockIdx.x * cols + i) = v.words[0];
}
