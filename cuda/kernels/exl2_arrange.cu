// Arranges the codes of a region of an EXL2 matrix for this program's kernels, from
// the file's order (one stream of bits down the rows of a column, cut in words) to
// that of exl2.cuh.
//
// A thread a block and column. One kernel for each width.
#include "exl2.cuh"

constexpr int threads = 64;  // columns of a block

// stream_code returns code i of a stream.
template <int bits>
__device__ inline u32 stream_code(const u32 (&words)[bits], int i) {
	int bit = i * bits, word = bit / 32, shift = bit % 32;
	u32 v = words[word] >> shift;
	if (shift + bits > 32) v |= words[word + 1] << (32 - shift);
	return v & ((1u << bits) - 1);
}

// put adds both codes of pair p to a plane of b bits.
template <int b>
__device__ inline void put(u32* plane, int p, u32 first, u32 second) {
	constexpr int per_word = 16 / b;
	plane[p / per_word] |= (first | second << 16) << b * (p % per_word);
}

template <int bits>
__device__ void arrange(
	int* dst,        // [out/32, tile]
	const int* src,  // [blocks·bits, out] of the region
	int blocks, int place, int tile, int out) {
	using W = Width<bits>;
	int column = blockIdx.x * threads + threadIdx.x, block = blockIdx.y;
	if (column >= out || block >= blocks) return;
	const int* cell = src + (int64)block * bits * out + column;
	u32 from[bits], to[bits] = {};
#pragma unroll
	for (int i = 0; i < bits; i++) from[i] = cell[(int64)i * out];
#pragma unroll
	for (int p = 0; p < block_rows / 2; p++) {
		u32 a = stream_code<bits>(from, 2 * p), b = stream_code<bits>(from, 2 * p + 1);
		constexpr u32 mask = (1u << W::low) - 1;
		put<W::low>(to, p, a & mask, b & mask);
		if constexpr (W::high > 0) put<W::high>(to + W::low, p, a >> W::low, b >> W::low);
	}
	Region r = {bits, 0, blocks, place, 0, 0};
	int lane = column % tile_columns / 4 * 4 + block % 4;
	int* base = dst + (int64)(column / tile_columns) * tile * 4 + column % 4;
#pragma unroll
	for (int i = 0; i < bits; i++) base[(int64)chunk_of(r, block / 4, i, lane) * 4] = to[i];
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
