// Decodes a region of an EXL2 matrix to fp16, transposed: dst[c, k] is the weight
// of column first_column+c. The columns of dst are stored rows, as for products
// with permuted inputs, or, with perm, the rows' places in the source.
//
// A warp decodes a unit of 128 rows and 32 columns (exl2.cuh), and writes it by way of
// shared memory, so that writes are whole lines, too. first_column is a multiple of 32.
#include "order.cuh"
#include "unpack.cuh"

constexpr int warps = 4;
constexpr int unit_rows = unit_blocks * block_rows;
constexpr int stride = unit_rows + 8;  // of a column in shared memory

// scatter writes eight rows of a column to their places in the source.
__device__ inline void scatter(half* to, const uint4& v, const int* perm) {
	const half* rows = (const half*)&v;
#pragma unroll
	for (int i = 0; i < 8; i++) to[perm[i]] = rows[i];
}

template <int bits>
__device__ void decode(
	half* dst,          // [columns, in]
	const int* words,   // [out/32, tile chunks of 32 lanes]
	const int* scales,  // [out/32, groups, 4]
	const int* units,   // [groups]
	const int* perm,    // [in] or null
	Region r, int tile, int groups, int first_column, int columns, int in) {
	__shared__ half staged[warps][tile_columns][stride];
	after_previous();
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, unit = blockIdx.y * warps + warp;
	if (unit >= r.units()) return;
	int64 at = first_column / tile_columns + blockIdx.x;
	const uint4* from = (const uint4*)words + (at * tile + r.place + unit * bits) * 32 + lane;
	int first = (r.block + unit * unit_blocks) * block_rows, blocks = min(unit_blocks, r.blocks - unit * unit_blocks);
	Exponent e;
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		if (j >= blocks) break;
		int group = r.group_of(unit * unit_blocks + j), row = j * block_rows + lane % 4 * 8;
		uint4 v[4];
		decode_block<bits>(v, [&](int i) { return ((const u32*)(from + i / 4 * 32))[i % 4]; }, j, ((const unsigned short*)(scales + (at * groups + group) * 4))[g], units[group], e);
#pragma unroll
		for (int c = 0; c < 4; c++) {
			int column = g + 8 * c, to = blockIdx.x * tile_columns + column;
			if (!perm)
				*(uint4*)&staged[warp][column][row] = v[c];
			else if (to < columns)
				scatter(dst + (int64)to * in, v[c], perm + first + row);
		}
	}
	if (perm) return;
	__syncwarp();
	for (int i = lane; i < tile_columns * unit_rows / 8; i += 32) {
		int c = i / (unit_rows / 8), k = i % (unit_rows / 8) * 8, to = blockIdx.x * tile_columns + c;
		if (to < columns && k < blocks * block_rows) *(uint4*)(dst + (int64)to * in + first + k) = *(const uint4*)&staged[warp][c][k];
	}
}

#define DECODE(name, bits)                                                                          \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                        \
	name(half* dst, const int* words, const int* scales, const int* units, const int* perm,         \
	     int block, int blocks, int place, int group, int shift, int tile, int groups,              \
	     int first_column, int columns, int in) {                                                   \
		Region r = {bits, block, blocks, place, group, shift};                                      \
		decode<bits>(dst, words, scales, units, perm, r, tile, groups, first_column, columns, in);  \
	}

DECODE(exl2_decode_2, 2)
DECODE(exl2_decode_3, 3)
DECODE(exl2_decode_4, 4)
DECODE(exl2_decode_5, 5)
DECODE(exl2_decode_6, 6)
DECODE(exl2_decode_8, 8)
