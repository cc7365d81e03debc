// Products of a unit of an EXL2 matrix by one row, as packed.cuh has them, in as few
// instructions as there may be: a loop over a unit's blocks. Kernels whose warps multiply
// one unit or a few spend more time on fetching instructions than on running them.
#pragma once

#include "packed.cuh"

// words_of_block reads a lane's words of a block of a unit, whose first are at words.
template <int bits>
__device__ inline void words_of_block(u32 (&w)[bits], const uint4* words, int block) {
	if constexpr (bits % 4 == 0) {
#pragma unroll
		for (int i = 0; i < bits / 4; i++) *(uint4*)(w + 4 * i) = words[(block * bits / 4 + i) * 32];
	} else {
		constexpr int at_once = bits % 2 == 0 ? 2 : 1;
#pragma unroll
		for (int i = 0; i < bits; i += at_once) {
			int n = block * bits + i;
			const u32* from = (const u32*)(words + n / 4 * 32) + n % 4;
			if constexpr (at_once == 2)
				*(uint2*)(w + i) = *(const uint2*)from;
			else
				w[i] = *from;
		}
	}
}

// multiply_rolled adds a unit's products with the row, which is the first of eight.
template <int bits, class Codes>
__device__ inline void multiply_rolled(bool one_group, float (&sums)[2][4], const uint4* words, const uint4* x, const Codes& codes, const u32* units, int shift, Exponent e) {
	float d[2][4] = {};
#pragma unroll 1
	for (int j = 0; j < unit_blocks; j++) {
		alignas(16) u32 w[bits];
		alignas(16) u32 b[4];
		half2 v[16];
		words_of_block<bits>(w, words, j);
		*(uint4*)b = x[j * 4];
		numbers<bits>(v, w, e);
#pragma unroll
		for (int h = 0; h < 2; h++)
#pragma unroll
			for (int t = 0; t < 2; t++) {
				const half2 *low = v + 8 * t + 2 * h, *high = low + 4;
				u32 a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])}, pair[2] = {b[2 * h], b[2 * h + 1]};
				mma(d[t], a, pair);
			}
		if (one_group && j < unit_blocks - 1) continue;
		int group = j >> shift;
		half2 s[2];
		scales_of_both(s, codes(group), units[group], e);
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i += 2) {
				sums[t][i] = fmaf(i < 2 ? __low2float(s[t]) : __high2float(s[t]), d[t][i], sums[t][i]);
				d[t][i] = 0;
			}
	}
}

// multiply_unit_rolled is multiply_rolled by a width, and groups, that are known at run time.
template <class Codes>
__device__ inline void multiply_unit_rolled(int bits, bool one_group, float (&sums)[2][4], const uint4* words, const uint4* x, const Codes& codes, const u32* units, int shift, Exponent e) {
	switch (bits) {
		case 2: return multiply_rolled<2>(one_group, sums, words, x, codes, units, shift, e);
		case 3: return multiply_rolled<3>(one_group, sums, words, x, codes, units, shift, e);
		case 4: return multiply_rolled<4>(one_group, sums, words, x, codes, units, shift, e);
		case 5: return multiply_rolled<5>(one_group, sums, words, x, codes, units, shift, e);
		case 6: return multiply_rolled<6>(one_group, sums, words, x, codes, units, shift, e);
		default: return multiply_rolled<8>(one_group, sums, words, x, codes, units, shift, e);
	}
}
