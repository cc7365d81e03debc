// Arranges the codes of a region of an EXL2 matrix for this program's kernels, from
// the file's order (one stream of bits down the rows of a column, cut in words) to
// that of exl2.cuh.
//
// A warp a block of a tile: lanes read the words of their column and hand each other
// the codes that they need. One kernel for each width.
#include "exl2.cuh"

constexpr int warps = 4;

// stream_code returns code i of a stream.
template <int bits>
__device__ inline u32 stream_code(const u32* words, int i) {
	int bit = i * bits, word = bit / 32, shift = bit % 32;
	u32 v = words[word] >> shift;
	if (shift + bits > 32) v |= words[word + 1] << (32 - shift);
	return v & ((1u << bits) - 1);
}

template <int bits>
__device__ void arrange(
	int* dst,        // [out/32, tile chunks]
	const int* src,  // [blocks·bits, out] of the region
	int blocks, int place, int tile, int out) {
	__shared__ u32 columns[warps][tile_columns][bits + 1];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, block = blockIdx.y * warps + warp, first = blockIdx.x * tile_columns;
	Region r = {bits, 0, blocks, place, 0, 0};
	if (block >= r.units() * unit_blocks) return;
	u32 to[bits] = {};
	bool there = block < blocks;
	if (there)
		for (int i = 0; i < bits; i++) columns[warp][lane][i] = src[((int64)block * bits + i) * out + first + lane];
	__syncwarp();
	int row = lane % 4 * 8, g = lane / 4;
#pragma unroll
	for (int p = 0; p < 16; p++) {
		const u32* from = columns[warp][g + p / 4 * 8];
		int at = row + p % 4 * 2;
		constexpr u32 zero = Width<bits>::zero;
		put<bits>(to, p, there ? stream_code<bits>(from, at) : zero, there ? stream_code<bits>(from, at + 1) : zero);
	}
	int* base = dst + (int64)blockIdx.x * tile * chunk_words;
#pragma unroll
	for (int i = 0; i < bits; i++) base[word_of(r, block, i, lane)] = (int)to[i];
}

#define ARRANGE(name, bits)                                                                         \
	extern "C" __global__ void name(int* dst, const int* src, int blocks, int place, int tile,      \
	                                int out) {                                                      \
		arrange<bits>(dst, src, blocks, place, tile, out);                                          \
	}

ARRANGE(exl2_arrange_2, 2)
ARRANGE(exl2_arrange_3, 3)
ARRANGE(exl2_arrange_4, 4)
ARRANGE(exl2_arrange_5, 5)
ARRANGE(exl2_arrange_6, 6)
ARRANGE(exl2_arrange_8, 8)
