// Decodes a matrix of affine codes to fp16, transposed: dst[c, k] is the weight of
// column first_column+c. The columns of dst are stored rows, or, with perm, the rows'
// places in the source.
//
// A warp a unit of 128 rows and 32 columns, whose lanes have eight rows of four columns of
// each block. first_column is a multiple of 32.
#include "affine.cuh"
#include "order.cuh"

constexpr int warps = 4;

template <int bits>
__device__ inline void decode(
	half* dst,             // [columns, in]
	const int* words,      // [tiles, units·bits, 128]
	const half* scales,    // [tiles, groups, 32]
	const uint8_t* zeros,  // [tiles, groups, 32]
	const int* perm,       // [in] or null
	int first_column, int columns, int in, int shift) {
	after_previous();
	int lane = threadIdx.x % 32, unit = blockIdx.y * warps + threadIdx.x / 32, blocks = in / block_rows, groups = ((blocks - 1) >> shift) + 1;
	int units = (blocks + unit_blocks - 1) / unit_blocks, tile = first_column / tile_columns + blockIdx.x, column = blockIdx.x * tile_columns + lane / 4;
	if (unit >= units) return;
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = ((const uint4*)words)[(((int64)tile * units + unit) * bits + i) * 32 + lane];
	Exponent e;
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		int block = unit * unit_blocks + j, row = block * block_rows + lane % 4 * 8;
		if (block >= blocks) return;
		int64 at = ((int64)tile * groups + (block >> shift)) * 8 + lane / 4;
		u32 w[bits];
		half2 v[16];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		differences<bits>(v, w, Zeros(((const u32*)zeros)[at]), e);
#pragma unroll
		for (int c = 0; c < 4; c++) {
			Eight<half> out;
			half2 scale = __half2half2(scales[at * 4 + c]);
#pragma unroll
			for (int i = 0; i < 4; i++) ((half2*)out.v)[i] = __hmul2(v[4 * c + i], scale);
			if (column + 8 * c >= columns) break;
			half* to = dst + (int64)(column + 8 * c) * in;
			if (!perm) {
				*(uint4*)(to + row) = out.words[0];
				continue;
			}
#pragma unroll
			for (int i = 0; i < 8; i++) to[perm[row + i]] = out.v[i];
		}
	}
}

#define DECODE(name, bits)                                                                                        \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                                      \
	name(half* dst, const int* words, const half* scales, const uint8_t* zeros, const int* perm,                  \
	     int first_column, int columns, int in, int shift) {                                                      \
		decode<bits>(dst, words, scales, zeros, perm, first_column, columns, in, shift);                          \
	}

DECODE(affine_decode_2, 2)
DECODE(affine_decode_3, 3)
DECODE(affine_decode_4, 4)
DECODE(affine_decode_8, 8)
