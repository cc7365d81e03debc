// Decodes a matrix of affine codes to fp16, transposed: dst[c, k] is the weight of
// column first_column+c. The columns of dst are stored rows, or, with perm, the rows'
// places in the source.
//
// A thread has 32 rows of four columns. first_column is a multiple of 32.
#include "affine.cuh"
#include "order.cuh"

constexpr int threads = 128;
constexpr int slices = threads / quads;  // blocks of rows of a block of threads

template <int bits>
__device__ inline void decode(
	half* dst,             // [columns, in]
	const int* words,      // [in·bits/32, padded]
	const half* scales,    // [groups, padded]
	const uint8_t* zeros,  // [groups, padded]
	const int* group,      // [in/32]: of each block of rows
	const int* perm,       // [in] or null
	int first_column, int columns, int in, int padded) {
	using P = Pairs<bits>;
	after_previous();
	int block = blockIdx.y * slices + threadIdx.x / quads, column = blockIdx.x * tile_columns + threadIdx.x % quads * 4;
	if (block * block_rows >= in) return;
	Block<bits> b;
	b.load(words, scales, zeros, group, block, first_column + column, padded);
#pragma unroll
	for (int c = 0; c < 4; c++) {
		if (column + c >= columns) return;
		u32 w[bits];
		b.column(w, c);
		union {
			half v[block_rows];
			uint4 vectors[block_rows / 8];
		} out;
#pragma unroll
		for (int p = 0; p < pairs; p++) {
			half2 two = weights<bits>(w, p, b.scale(c), b.zero(c));
			out.v[P::first(p)] = __low2half(two);
			out.v[P::first(p) + P::apart] = __high2half(two);
		}
		half* to = dst + (int64)(column + c) * in;
		if (perm) {
			for (int r = 0; r < block_rows; r++) to[perm[block * block_rows + r]] = out.v[r];
			continue;
		}
#pragma unroll
		for (int i = 0; i < block_rows / 8; i++) *(uint4*)(to + block * block_rows + 8 * i) = out.vectors[i];
	}
}

#define DECODE(name, bits)                                                                                                  \
	extern "C" __global__ void __launch_bounds__(threads)                                                                   \
	name(half* dst, const int* words, const half* scales, const uint8_t* zeros, const int* group, const int* perm,          \
	     int first_column, int columns, int in, int padded) {                                                               \
		decode<bits>(dst, words, scales, zeros, group, perm, first_column, columns, in, padded);                            \
	}

DECODE(affine_decode_2, 2)
DECODE(affine_decode_3, 3)
DECODE(affine_decode_4, 4)
DECODE(affine_decode_8, 8)
