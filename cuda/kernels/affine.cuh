// Matrices of codes with a scale and a zero for each column of a group of rows
// (internal/affine), as they lie in a GPU's memory: words as those of an EXL2 matrix of
// one region (exl2.cuh). Groups are of 2^shift blocks, the last one perhaps less. Scales
// and zeros lie by tiles, too, and groups: those of columns g, g+8, g+16, g+24 one after
// the other, 8 bytes and 4, for each g.
//
//	weight = fp16(scale · (code - zero))
#pragma once

#include "exl2.cuh"

using uint8_t = unsigned char;

// Zeros are what the codes of a lane's columns are less, and 1024: fp16, twice.
struct Zeros {
	half2 of[4];
	__device__ Zeros() {}
	__device__ explicit Zeros(u32 codes) {
#pragma unroll
		for (int c = 0; c < 4; c++) of[c] = half2_of(__byte_perm(codes, 0x64, 0x4040 + 0x101 * c));
	}
};

// number_over returns code - zero, exactly, of the codes at bit at of each half.
template <int bits, int at>
__device__ inline half2 number_over(u32 w, half2 zero, Exponent e) {
	constexpr float part = 1.0f / (1 << at);
	constexpr u32 mask = ((1u << bits) - 1) * 0x10001u << at;
	half2 v = half2_of(turned<bits> ? mask_turn(w, mask, 0x64006400 ^ turned<bits>) : join(w, mask, e.v));
	if constexpr (at == 0) return __hsub2(v, zero);
	else return __hfma2(v, __float2half2_rn(part), __hsub2(__float2half2_rn(1024 - 1024 * part), zero));
}

// pair_over returns the pair of an operand in bytes 0 and 2 of words, less its zero.
template <int bits, int operand>
__device__ inline half2 pair_over(const u32 (&w)[bits], half2 zero, Exponent e) {
	constexpr Piece a = piece<bits>(operand, 0), b = piece<bits>(operand, 1), c = piece<bits>(operand, 2);
	if constexpr (b.bits == 0) {
		return number_over<bits, a.at>(w[a.word], zero, e);
	} else {
		u32 v = join(moved<a.at, a.to>(w[a.word]), ((1u << a.bits) - 1) * 0x10001u << a.to, e.v);
		v = join(moved<b.at, b.to>(w[b.word]), ((1u << b.bits) - 1) * 0x10001u << b.to, v);
		if constexpr (c.bits > 0) v = join(moved<c.at, c.to>(w[c.word]), ((1u << c.bits) - 1) * 0x10001u << c.to, v);
		return __hsub2(half2_of(v), zero);
	}
}

template <int bits, int operand = 0>
__device__ inline void pairs_over(half2 (&v)[16], const u32 (&low)[bits], const u32 (&high)[bits], const Zeros& z, Exponent e) {
	v[pair_of(operand, 0)] = pair_over<bits, operand>(low, z.of[operand / 2], e);
	v[pair_of(operand, 1)] = pair_over<bits, operand>(high, z.of[operand / 2], e);
	if constexpr (operand + 1 < operands) pairs_over<bits, operand + 1>(v, low, high, z, e);
}

// differences returns the pairs of a lane's words of a block less their zeros.
template <int bits>
__device__ inline void differences(half2 (&v)[16], const u32 (&words)[bits], const Zeros& z, Exponent e) {
	u32 high[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) high[i] = words[i] >> 8;
	pairs_over<bits>(v, words, high, z, e);
}
