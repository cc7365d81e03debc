// EXL2 matrices as they lie in a GPU's memory.
//
// A block is 32 stored rows; all blocks of a region have the same width. Words lie
// as tensor cores multiply them: by tiles of 32 columns; in a tile by regions and
// units of four blocks, 128 rows; in a unit by chunks of 512 bytes, 16 of which are
// a lane's. As many chunks as a code has bits are four blocks' words, one block's
// after the other. Of a block, lane 4g+q has rows 8q to 8q+7 of columns g, g+8, g+16
// and g+24: 16 pairs of codes, one in each half of a word, pair 4c+r being rows
// 8q+2r and 8q+2r+1 of column g+8c.
//
// Words have as many whole pairs as fit, pair after pair from the lowest bits of each
// half on. Widths that do not divide 16 leave bits over, of which the last pairs are
// made: of 3 and 5 bits, bit 15 of word i is bit i of pair 15; of 6, the last four
// bits of word i are the high ones of pair 12+i, and two of word 4+i/2 its low ones.
// Blocks that a region has not, but its last unit has, are of codes that mean zero.
//
// Weights are the format's to the bit: fp16(fp16(code - zero)·scale), with
// scale = fp16(s²·unit) and unit = fp16(largest/256). Scales lie by tiles, too, and
// groups: 16 bytes, number g of 16 bits having the codes of columns g, g+8, g+16, g+24.
#pragma once

#include "half.cuh"

using u32 = unsigned;

constexpr int block_rows = 32;
constexpr int tile_columns = 32;
constexpr int unit_blocks = 4;

template <int bits>
struct Width {
	static constexpr int per_word = 16 / bits;        // whole pairs
	static constexpr int whole = per_word * bits;     // of a block
	static constexpr int zero = 1 << (bits - 1);
};

// bits_of and half2_of reinterpret a pair of halves.
__device__ inline u32 bits_of(half2 h) { return *(u32*)&h; }
__device__ inline half2 half2_of(u32 w) { return *(half2*)&w; }

// An Exponent is 1024 in both halves of a word, which the compiler does not know,
// so that it stays in a register and a code is joined with it by one instruction.
struct Exponent {
	u32 v;
	__device__ Exponent() { asm volatile("mov.b32 %0, 0x64006400;" : "=r"(v)); }
};

// join returns w & mask | with.
__device__ inline u32 join(u32 w, u32 mask, u32 with) {
	u32 v;
	asm("lop3.b32 %0, %1, %2, %3, 0xEA;" : "=r"(v) : "r"(w), "r"(mask), "r"(with));
	return v;
}

// number returns code - zero, exactly, of the codes at bit at, up to 10 - bits, of
// each half: joined with 1024, a code is 1024 + 2^at·code.
template <int bits, int at>
__device__ inline half2 number(u32 w, Exponent e) {
	constexpr float part = 1.0f / (1 << at), off = 1024 * part + Width<bits>::zero;
	half2 v = half2_of(join(w, ((1u << bits) - 1) * 0x10001u << at, e.v));
	return at == 0 ? __hsub2(v, __float2half2_rn(off)) : __hfma2(v, __float2half2_rn(part), __float2half2_rn(-off));
}

// whole_pair returns pair i of a word.
template <int bits>
__device__ inline half2 whole_pair(u32 w, int i, Exponent e) {
	if constexpr (bits == 2) {
		if (i >= 4) w >>= 8;
		return i % 4 == 0 ? number<2, 0>(w, e) : i % 4 == 1 ? number<2, 2>(w, e) : i % 4 == 2 ? number<2, 4>(w, e) : number<2, 6>(w, e);
	} else if constexpr (bits == 3) {
		if (i >= 3) w >>= 9;
		return i % 3 == 0 ? number<3, 0>(w, e) : i % 3 == 1 ? number<3, 3>(w, e) : number<3, 6>(w, e);
	} else if constexpr (bits == 4) {
		if (i >= 2) w >>= 8;
		return i % 2 == 0 ? number<4, 0>(w, e) : number<4, 4>(w, e);
	} else if constexpr (bits == 5) {
		return i == 1 ? number<5, 5>(w, e) : number<5, 0>(i == 0 ? w : w >> 10, e);
	} else {
		return number<bits, 0>(i == 0 ? w : w >> bits, e);
	}
}

// numbers returns the pairs of a lane's words of a block as exact numbers.
template <int bits>
__device__ inline void numbers(half2 (&v)[16], const u32 (&words)[bits], Exponent e) {
	using W = Width<bits>;
#pragma unroll
	for (int p = 0; p < W::whole; p++) v[p] = whole_pair<bits>(words[p / W::per_word], p % W::per_word, e);
	if constexpr (bits == 3 || bits == 5) {
		u32 w = words[0] >> 15 & 0x10001u;
#pragma unroll
		for (int i = 1; i < bits; i++) w = join(words[i] >> (15 - i), 0x10001u << i, w);
		v[15] = number<bits, 0>(w, e);
	}
	if constexpr (bits == 6) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			u32 low = words[4 + i / 2] >> (i % 2 ? 10 : 8) & 0x00300030u;
			v[12 + i] = number<6, 4>(join(words[i] >> 6, 0x03c003c0u, low), e);
		}
	}
}

// put adds the codes of pair p to the words of a block.
template <int bits>
__device__ inline void put(u32 (&words)[bits], int p, u32 first, u32 second) {
	using W = Width<bits>;
	u32 v = first | second << 16;
	if (p < W::whole) {
		words[p / W::per_word] |= v << bits * (p % W::per_word);
	} else if (bits == 6) {
		int i = p - W::whole;
		words[i % bits] |= (v >> 2 & 0x000f000fu) << 12;
		words[(4 + i / 2) % bits] |= (v & 0x00030003u) << (12 + i % 2 * 2);
	} else {
#pragma unroll
		for (int i = 0; i < bits; i++) words[i] |= (v >> i & 0x10001u) << 15;
	}
}

// scales_of_both returns the scales of columns g, g+8 and g+16, g+24, given their codes
// in 16 bits, twice, in a group with the given unit, which is there twice.
__device__ inline void scales_of_both(half2 (&s)[2], u32 codes, u32 unit, Exponent e) {
#pragma unroll
	for (int i = 0; i < 2; i++) {  // the first code of the low half, and the second of the high one
		half2 v = half2_of(join(i == 0 ? codes : codes >> 8, 0x00f0000fu, e.v));
		v = __hfma2(v, __floats2half2_rn(1, 0.0625f), __floats2half2_rn(-1023, -63));
		s[i] = __hmul2(__hmul2(v, v), half2_of(unit));
	}
}

// scales_of is scales_of_both of codes that are there once.
__device__ inline void scales_of(half2 (&s)[2], u32 codes, u32 unit, Exponent e) { scales_of_both(s, codes * 0x10001u, unit, e); }

// Region is a run of blocks with one width, whose groups have one size, a power of
// two of blocks, the last one perhaps less.
struct Region {
	int bits, block, blocks;  // width, first block and number of blocks
	int place;                // of its units in a tile, in chunks
	int group, shift;         // first group, and log2 of a group's blocks

	// group_of returns the group of a block of the region.
	__device__ int group_of(int i) const { return group + (i >> shift); }
	__device__ int units() const { return (blocks + unit_blocks - 1) / unit_blocks; }
};

constexpr int chunk_words = 128;  // of a chunk, four a lane

// word_of returns where word i of a lane and block is in a tile.
__device__ inline int word_of(const Region& r, int block, int i, int lane) {
	int n = block % unit_blocks * r.bits + i, unit = block / unit_blocks;
	return (r.place + unit * r.bits + n / 4) * chunk_words + lane * 4 + n % 4;
}
