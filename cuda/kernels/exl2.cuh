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
// The two pairs that a column has of rows 8q and 8q+1, and 8q+4 and 8q+5, lie in the same
// bits of the low and of the high bytes of halves, and so do the two others: an operand
// of tensor cores that multiply bytes is the same bits of all four bytes of a word
// (digits.cuh). A byte has as many whole codes as fit, from its highest bits down; the
// bits that 3, 5 and 6 leave over at the bottom make the last operands, piece by piece.
// The two operands of a column are the same bits of two words where that can be, so that what they
// are too large by is one power of two. Words of 4 and 8 bits lie as tensor cores take an operand, and
// codes of 8 bits with their highest bit turned: they are multiplied as they are.
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
	static constexpr int per_byte = 8 / bits;            // whole codes
	static constexpr int rest = 8 - per_byte * bits;     // bits that are left over
	static constexpr int whole = per_byte * bits;        // operands of a block, of eight
	static constexpr int zero = 1 << (bits - 1);
};

constexpr int operands = 8;  // 2c of column c's rows 0, 4, 1, 5, and 2c+1 of rows 2, 6, 3, 7

// A Piece of an operand is some bits of each byte of a word, from bit at on: those of the
// codes from bit to on.
struct Piece {
	int word, at, bits, to;
};

// quarter returns which of four words a tensor core takes operand i of four as.
__device__ constexpr int quarter(int i) { return i % 2 * 2 + i / 2; }

// piece returns piece i of an operand, of no bits if there is none.
template <int bits>
__device__ constexpr Piece piece(int operand, int i) {
	using W = Width<bits>;
	int n = operand - W::whole;
	if (n < 0) {
		if (i > 0) return {0, 0, 0, 0};
		if (bits == 2) return {operand % 2, 2 * (operand / 2), 2, 0};
		if (bits == 3) return {operand < 4 ? operand % 2 : 2, operand < 2 || operand == 4 ? 5 : 2, 3, 0};
		if (bits == 4) return {quarter(operand % 4), 4 * (operand / 4), 4, 0};
		if (bits == 8) return {operand / 4 * 4 + quarter(operand % 4), 0, 8, 0};
		return {operand, W::rest, bits, 0};
	}
	if (bits == 3 && i < 2) return i == 0 ? Piece{n, 0, 2, 0} : Piece{2, n, 1, 2};
	if (bits == 5 && i == 0) return {n, 0, 3, 0};
	if (bits == 5 && n < 2 && i == 1) return {3 + n, 0, 2, 3};
	if (bits == 5 && n == 2 && i < 3) return {2 + i, 2, 1, 2 + i};
	if (bits == 6 && i < 3) return {3 * n + i, 0, 2, 2 * i};
	return {0, 0, 0, 0};
}

constexpr int most_pieces = 3;

// pair_of returns the pair that an operand has in the low or high bytes of halves.
__device__ constexpr int pair_of(int operand, int high) { return operand / 2 * 4 + operand % 2 + 2 * high; }

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

// turned is the highest bit of codes of two halves that are stored with it turned over.
template <int bits>
constexpr u32 turned = bits == 8 ? 0x00800080 : 0;

// mask_turn returns (w & mask) ^ with.
__device__ inline u32 mask_turn(u32 w, u32 mask, u32 with) {
	u32 v;
	asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(v) : "r"(w), "r"(mask), "r"(with));
	return v;
}

// number returns code - zero, exactly, of the codes at bit at, up to 10 - bits, of
// each half: joined with 1024, a code is 1024 + 2^at·code.
template <int bits, int at>
__device__ inline half2 number(u32 w, Exponent e) {
	constexpr float part = 1.0f / (1 << at), off = 1024 * part + Width<bits>::zero;
	constexpr u32 mask = ((1u << bits) - 1) * 0x10001u << at;
	half2 v = half2_of(turned<bits> ? mask_turn(w, mask, 0x64006400 ^ turned<bits>) : join(w, mask, e.v));
	return at == 0 ? __hsub2(v, __float2half2_rn(off)) : __hfma2(v, __float2half2_rn(part), __float2half2_rn(-off));
}

// moved returns w with bit `from` at bit `to`.
template <int from, int to>
__device__ inline u32 moved(u32 w) {
	if constexpr (from < to) return w << (to - from);
	else return w >> (from - to);
}

// pair_number returns the pair that an operand has in bytes 0 and 2 of words.
template <int bits, int operand>
__device__ inline half2 pair_number(const u32 (&w)[bits], Exponent e) {
	constexpr Piece a = piece<bits>(operand, 0), b = piece<bits>(operand, 1), c = piece<bits>(operand, 2);
	if constexpr (b.bits == 0) {
		return number<bits, a.at>(w[a.word], e);
	} else {
		u32 v = join(moved<a.at, a.to>(w[a.word]), ((1u << a.bits) - 1) * 0x10001u << a.to, e.v);
		v = join(moved<b.at, b.to>(w[b.word]), ((1u << b.bits) - 1) * 0x10001u << b.to, v);
		if constexpr (c.bits > 0) v = join(moved<c.at, c.to>(w[c.word]), ((1u << c.bits) - 1) * 0x10001u << c.to, v);
		return __hsub2(half2_of(v), __float2half2_rn(1024 + Width<bits>::zero));
	}
}

template <int bits, int operand>
__device__ inline void numbers_from(half2 (&v)[16], const u32 (&low)[bits], const u32 (&high)[bits], Exponent e) {
	v[pair_of(operand, 0)] = pair_number<bits, operand>(low, e);
	v[pair_of(operand, 1)] = pair_number<bits, operand>(high, e);
	if constexpr (operand + 1 < operands) numbers_from<bits, operand + 1>(v, low, high, e);
}

// numbers returns the pairs of a lane's words of a block as exact numbers.
template <int bits>
__device__ inline void numbers(half2 (&v)[16], const u32 (&words)[bits], Exponent e) {
	u32 high[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) high[i] = words[i] >> 8;
	numbers_from<bits, 0>(v, words, high, e);
}

// put adds the codes of pair p to the words of a block.
template <int bits>
__device__ inline void put(u32 (&words)[bits], int p, u32 first, u32 second) {
	int operand = p / 4 * 2 + p % 2, high = p % 4 / 2;
	u32 v = (first | second << 16) ^ turned<bits>;
#pragma unroll
	for (int i = 0; i < most_pieces; i++) {
		Piece a = piece<bits>(operand, i);
		if (a.bits > 0) words[a.word] |= (v >> a.to & ((1u << a.bits) - 1) * 0x10001u) << (a.at + 8 * high);
	}
}

// scales_of_spread returns the scales of columns g, g+16 and g+8, g+24, given their codes, those of the
// first half in byte 0 and of the second in byte 2, in a group with the given unit, which is there twice.
__device__ inline void scales_of_spread(half2 (&s)[2], u32 codes, u32 unit, Exponent e) {
#pragma unroll
	for (int i = 0; i < 2; i++) {
		half2 v = __hsub2(half2_of(join(codes >> 4 * i, 0x000f000fu, e.v)), __float2half2_rn(1023));
		s[i] = __hmul2(__hmul2(v, v), half2_of(unit));
	}
}

// spread returns the bytes of a half of a word as scales_of_spread takes them; select is spread_low or spread_high.
constexpr u32 spread_low = 0x4140, spread_high = 0x4342;

__device__ inline u32 spread(u32 w, u32 select) { return __byte_perm(w, 0, select); }

// scales_of is scales_of_spread of codes in 16 bits.
__device__ inline void scales_of(half2 (&s)[2], u32 codes, u32 unit, Exponent e) { scales_of_spread(s, spread(codes, spread_low), unit, e); }

// scale_of returns the scale of a column, of g+8·column.
__device__ inline half scale_of(const half2 (&s)[2], int column) { return column < 2 ? __low2half(s[column % 2]) : __high2half(s[column % 2]); }

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
