// EXL2 matrices as they lie in a GPU's memory.
//
// A block is 32 stored rows of one column; all blocks of a region have the same
// width. A block has as many words as a code has bits, as in the file, but its
// codes are arranged for extraction two at a time: pair p is rows 2p and 2p+1,
// one in each half of a word. Widths that do not divide 16 are split into two
// planes, the low bits of every code (2 of 3; 4 of 5 and 6) and the rest:
//
//	plane of b bits: pair p in word p / (16/b), at bit b·(p mod 16/b) of each half
//
// Weights are the format's to the bit: fp16(fp16(code - zero)·scale), with
// scale = fp16(s²·unit) and unit = fp16(largest/256).
#pragma once

#include "half.cuh"

using u32 = unsigned;

constexpr int block_rows = 32;

template <int bits>
struct Width {
	static constexpr int low = bits == 3 ? 2 : bits == 5 || bits == 6 ? 4 : bits;
	static constexpr int high = bits - low;
	static constexpr u32 low_mask = ((1u << low) - 1) * 0x10001u;
	static constexpr u32 high_mask = ((1u << high) - 1) * 0x10001u << low;
	static constexpr float zero = 1 << (bits - 1);
};

// bits_of and half2_of reinterpret a pair of halves.
__device__ inline u32 bits_of(half2 h) { return *(u32*)&h; }
__device__ inline half2 half2_of(u32 w) { return *(half2*)&w; }

// weights returns pair p of a block. A code is moved to where its bits, at position
// pos of a half's significand, make 1024 + 2^pos·code of 0x6400: from there, one
// exact operation gives code - zero.
template <int bits>
__device__ inline half2 weights(const u32 (&words)[bits], int p, half2 scale) {
	using W = Width<bits>;
	constexpr int per_low = 16 / W::low;
	int at = W::low * (p % per_low), down = W::low == 8 ? at : at & 8, pos = at - down;
	u32 w = (words[p / per_low] >> down & W::low_mask << pos) | 0x64006400u;
	if constexpr (W::high > 0) {
		constexpr int per_high = 16 / W::high;
		int shift = W::high * (p % per_high) - W::low - pos;
		u32 h = words[W::low + p / per_high];
		w |= (shift >= 0 ? h >> (shift & 31) : h << (-shift & 31)) & W::high_mask << pos;
	}
	float part = 1.0f / (1 << pos);
	half2 zero = __float2half2_rn(-(1024 * part + W::zero));
	half2 code = pos == 0 ? __hadd2(half2_of(w), zero) : __hfma2(half2_of(w), __float2half2_rn(part), zero);
	return __hmul2(code, scale);
}

// scale_of returns the scale of a code s-1 in a group with the given unit, which
// is there twice.
__device__ inline half2 scale_of(u32 code, u32 unit) {
	int s = (code & 15) + 1;
	return __hmul2(__half2half2(__int2half_rn(s * s)), half2_of(unit));
}

// Region is a run of blocks with one width, whose groups have one size, a power of
// two of blocks, the last one perhaps less.
struct Region {
	int bits, block, blocks;  // width, first block and number of blocks
	int place;                // of its units in a tile
	int group, shift;         // first group, and log2 of a group's blocks

	// group_of returns the group of a block of the region.
	__device__ int group_of(int i) const { return group + (i >> shift); }
	__device__ int units() const { return (blocks + 3) / 4; }
};

// Words lie as products read them: by tiles of 32 columns; in a tile by regions and
// units of four blocks; in a unit by words of a block, the same of all blocks and
// columns together: 512 bytes, 16 of which, a chunk, are a lane's, those of block
// lane%4 and columns 4·(lane/4) to +3. Scales are by tiles, too: [groups, 4].
constexpr int tile_columns = 32;

// chunk returns where a lane's word i of a unit is in a tile, counted in chunks.
__device__ inline int chunk_of(const Region& r, int unit, int i, int lane) { return r.place + (unit * r.bits + i) * 32 + lane; }
