// Columns in another order: dst[r, i] = src[r, perm[i]].
//
// A block takes so many rows, which pass through shared memory with the elements of a
// column side by side: one look-up finds them all.
#include "half.cuh"
#include "order.cuh"

constexpr int threads = 512;

template <int R>
struct alignas(2 * R) Column {
	half v[R];
};

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
	after_previous();
	int first = blockIdx.x * R, last = min(R, rows - first) - 1;
	src += first * lds, dst += (int64)first * cols;
	bool pairs = ((size_t)src | lds * sizeof(half)) % 4 == 0;
#pragma unroll 4
	for (int i = threadIdx.x * 2; i < cols; i += threads * 2) {
		Column<R> a, b;
#pragma unroll
		for (int r = 0; r < R; r++) {
			const half* from = src + min(r, last) * lds + i;
			half2 v = pairs ? *(const half2*)from : make_half2(from[0], from[1]);
			a.v[r] = v.x, b.v[r] = v.y;
		}
		m[i] = a, m[i + 1] = b;
	}
	__syncthreads();
	for (int i = threadIdx.x * 8; i < cols; i += threads * 8) {
		Eight<half> out[R];
		int4 from[2] = {((const int4*)(perm + i))[0], ((const int4*)(perm + i))[1]};
#pragma unroll
		for (int j = 0; j < 8; j++) {
			Column<R> c = m[((const int*)from)[j]];
#pragma unroll
			for (int r = 0; r < R; r++) out[r].v[j] = c.v[r];
		}
#pragma unroll
		for (int r = 0; r < R; r++)
			if (r <= last) *(uint4*)(dst + (int64)r * cols + i) = out[r].words[0];
	}
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
