// Columns in another order: dst[r, i] = src[r, perm[i]].
//
// A block takes so many rows, which pass through shared memory with the elements of a
// column side by side: one look-up finds them all.
#include "columns_beside.cuh"
#include "order.cuh"

constexpr int threads = 512;

template <int R>
__device__ inline void permute(
	half* dst,        // [rows, cols]
	const half* src,  // [rows, cols], rows lds elements apart
	const int* perm,  // [cols]
	int rows,
	int cols,  // a multiple of 8
	int64 lds) {
	extern __shared__ uint4 memory[];  // [cols] Column
	Column<R>* m = (Column<R>*)memory;
	int at = threadIdx.x * 8;
	Ints places(perm, min(at, cols - 8));  // which no kernel writes: it is read before the wait
	after_previous();
	int first = blockIdx.x * R, last = min(R, rows - first) - 1;
	src += first * lds, dst += (int64)first * cols;
	if (((size_t)src | lds * sizeof(half)) % 16 == 0) {
		for (int i = at; i < cols; i += threads * 8) {
			Eight<half> in[R];
#pragma unroll
			for (int r = 0; r < R; r++) in[r].words[0] = *(const uint4*)(src + min(r, last) * lds + i);
			Column<R> out[8];
#pragma unroll
			for (int j = 0; j < 8; j++)
#pragma unroll
				for (int r = 0; r < R; r++) out[j].v[r] = in[r].v[j];
			put_columns(m + i, out);
		}
	} else {
		for (int i = threadIdx.x; i < cols; i += threads) {
			Column<R> c;
#pragma unroll
			for (int r = 0; r < R; r++) c.v[r] = src[min(r, last) * lds + i];
			m[i] = c;
		}
	}
	__syncthreads();
	for (; at < cols; at += threads * 8) {
		if (at >= threads * 8) places = Ints(perm, at);
		gather_columns(dst, m, places, at, last, cols);
	}
}

// permute_inverse stores the inverse of a permutation.
extern "C" __global__ void permute_inverse(int* inverse, const int* perm, int count) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < count) inverse[perm[i]] = i;
}

// Names are of the rows of a block.
#define PERMUTE(name, R)                                                                            \
	extern "C" __global__ void __launch_bounds__(threads)                                           \
	name(half* dst, const half* src, const int* perm, int rows, int cols, int64 lds) {              \
		permute<R>(dst, src, perm, rows, cols, lds);                                                \
	}

PERMUTE(permute_1_f16, 1)
PERMUTE(permute_2_f16, 2)
PERMUTE(permute_4_f16, 4)
