// Rows of the embedding table: y[r] = scale · table[ids[r]].
//
// A block a row. An id outside of the table is a fault.
#include "fault.cuh"
#include "half.cuh"
#include "order.cuh"

template <class T>
__device__ void embed(
	float* y,        // [rows, cols], rows ldy elements apart
	const T* table,  // [vocabulary, cols]
	const int* ids,  // [rows]
	int* fault,
	int vocabulary, int cols, int64 ldy, float scale) {
	after_previous();
	int id = ids[blockIdx.x];
	if (id < 0 || id >= vocabulary) {
		if (threadIdx.x == 0) report(fault, token_fault, id, vocabulary);
		return;
	}
	table += (int64)id * cols;
	y += blockIdx.x * ldy;
	for (int c = threadIdx.x * 8; c < cols; c += blockDim.x * 8) {
		float v[8];
		load8(v, table, c, cols);
		for (int j = 0; j < 8; j++) v[j] *= scale;
		store8(y, v, c, cols);
	}
}

#define EMBED(name, T)                                                                    \
	extern "C" __global__ void name(float* y, const T* table, const int* ids, int* fault, \
	                                int vocabulary, int cols, int64 ldy, float scale) {   \
		embed(y, table, ids, fault, vocabulary, cols, ldy, scale);                        \
	}

EMBED(embed_f32, float)
EMBED(embed_f16, half)
EMBED(embed_bf16, bf16)
