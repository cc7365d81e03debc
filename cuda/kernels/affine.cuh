// Matrices of codes with a scale and a zero for each column of a group of rows
// (internal/affine), as they lie in a GPU's memory: words and scales in the rows of
// the file, columns padded to 32.
//
//	weight = fp16(scale · (code - zero))
#pragma once

#include "half.cuh"

using u32 = unsigned;
using uint8_t = unsigned char;

constexpr int block_rows = 32;
constexpr int tile_columns = 32;
constexpr int pairs = block_rows / 2;  // of a block of one column
constexpr int quads = tile_columns / 4;

// Codes come out of a block's words in pairs: row first(p) and row first(p) + apart.
template <int bits>
struct Pairs {
	static constexpr int per = bits == 3 ? 1 : 16 / bits;  // of a word
	static constexpr int apart = per;
	static __device__ constexpr int first(int p) { return p / per * 2 * per + p % per; }

	// codes returns pair p as 1024 + code, twice fp16.
	static __device__ inline u32 codes(const u32 (&words)[bits], int p) {
		if constexpr (bits == 3) return code3(words, 2 * p) | code3(words, 2 * p + 1) << 16 | 0x64006400u;
		constexpr u32 mask = ((1u << bits) - 1) * 0x10001u;
		return (words[p / per] >> bits * (p % per) & mask) | 0x64006400u;
	}

	// code3 returns the code of row r, three bits.
	static __device__ inline u32 code3(const u32 (&words)[bits], int r) {
		int at = 3 * r / 32, shift = 3 * r % 32;
		u32 w = words[at] >> shift;
		if (shift > 29) w |= words[at + 1] << (32 - shift);
		return w & 7;
	}
};

__device__ inline u32 bits_of(half2 h) { return *(u32*)&h; }
__device__ inline half2 half2_of(u32 w) { return *(half2*)&w; }

// weights returns pair p of a block of one column.
template <int bits>
__device__ inline half2 weights(const u32 (&words)[bits], int p, half scale, int zero) {
	half2 code = __hsub2(half2_of(Pairs<bits>::codes(words, p)), __half2half2(__int2half_rn(1024 + zero)));
	return __hmul2(code, __half2half2(scale));
}

// Block is 32 rows of four columns.
template <int bits>
struct Block {
	uint4 words[bits];
	uint2 scales;
	u32 zeros;

	// load reads block b of the columns from column on.
	__device__ inline void load(const int* from, const half* scale, const uint8_t* zero, const int* group, int b, int column, int padded) {
#pragma unroll
		for (int i = 0; i < bits; i++) words[i] = *(const uint4*)(from + (int64)(b * bits + i) * padded + column);
		int64 at = (int64)group[b] * padded + column;
		scales = *(const uint2*)(scale + at);
		zeros = *(const u32*)(zero + at);
	}

	// column returns the words of column c of the four.
	__device__ inline void column(u32 (&w)[bits], int c) const {
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = c == 0 ? words[i].x : c == 1 ? words[i].y : c == 2 ? words[i].z : words[i].w;
	}

	__device__ inline half scale(int c) const {
		half2 two = half2_of(c < 2 ? scales.x : scales.y);
		return c % 2 == 0 ? __low2half(two) : __high2half(two);
	}

	__device__ inline int zero(int c) const { return zeros >> 8 * c & 255; }
};
