// Decodes a region of an EXL2 matrix to fp16, transposed: dst[c, k] is the weight
// of column first_column+c. The columns of dst are stored rows, as for products
// with permuted inputs, or, with perm, the rows' places in the source.
//
// A warp decodes a unit of 128 rows and 32 columns, each lane four columns of one
// block (exl2.cuh), and writes it by way of shared memory, so that writes are whole
// lines, too. first_column is a multiple of 32.
#include "exl2.cuh"
#include "order.cuh"

constexpr int warps = 4;
constexpr int unit_rows = 4 * block_rows;
constexpr int stride = unit_rows + 8;  // of a column in shared memory

// scatter writes a block of one column to the rows' places in the source.
__device__ inline void scatter(half* to, const half2 (&v)[block_rows / 2], const int* perm) {
#pragma unroll
	for (int p = 0; p < block_rows / 2; p++) {
		to[perm[2 * p]] = __low2half(v[p]);
		to[perm[2 * p + 1]] = __high2half(v[p]);
	}
}

// gather writes it to shared memory.
__device__ inline void gather(half* to, const half2 (&v)[block_rows / 2]) {
#pragma unroll
	for (int i = 0; i < 4; i++)
		*(uint4*)(to + 8 * i) = make_uint4(bits_of(v[4 * i]), bits_of(v[4 * i + 1]), bits_of(v[4 * i + 2]), bits_of(v[4 * i + 3]));
}

template <int bits>
__device__ void decode(
	half* dst,          // [columns, in]
	const int* words,   // [out/32, tile chunks]
	const int* scales,  // [out/32, groups, 4]
	const int* units,   // [groups]
	const int* perm,    // [in] or null
	Region r, int tile, int groups, int first_column, int columns, int in) {
	__shared__ half staged[warps][tile_columns][stride];
	after_previous();
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, unit = blockIdx.y * warps + warp, block = unit * 4 + lane % 4;
	if (unit >= r.units()) return;
	int64 at = first_column / tile_columns + blockIdx.x;
	int column = blockIdx.x * tile_columns + lane / 4 * 4, row = (r.block + block) * block_rows;
	half(*mine)[stride] = staged[warp];
	if (block < r.blocks) {
		const uint4* from = (const uint4*)words + at * tile;
		uint4 chunk[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) chunk[i] = from[chunk_of(r, unit, i, lane)];
		int group = r.group_of(block);
		u32 codes = (u32)scales[(at * groups + group) * 4 + lane / 8] >> lane / 4 % 2 * 16;
#pragma unroll
		for (int c = 0; c < 4; c++) {
			u32 w[bits];
#pragma unroll
			for (int i = 0; i < bits; i++) w[i] = c == 0 ? chunk[i].x : c == 1 ? chunk[i].y : c == 2 ? chunk[i].z : chunk[i].w;
			half2 v[block_rows / 2], scale = scale_of(codes >> 4 * c, units[group]);
#pragma unroll
			for (int p = 0; p < block_rows / 2; p++) v[p] = weights<bits>(w, p, scale);
			if (!perm)
				gather(mine[lane / 4 * 4 + c] + lane % 4 * block_rows, v);
			else if (column + c < columns)
				scatter(dst + (int64)(column + c) * in, v, perm + row);
		}
	}
	if (perm) return;
	__syncwarp();
	int first = (r.block + unit * 4) * block_rows, rows = min(4, r.blocks - unit * 4) * block_rows;
	for (int i = lane; i < tile_columns * unit_rows / 8; i += 32) {
		int c = i / (unit_rows / 8), k = i % (unit_rows / 8) * 8, to = blockIdx.x * tile_columns + c;
		if (to < columns && k < rows) *(uint4*)(dst + (int64)to * in + first + k) = *(const uint4*)&mine[c][k];
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
