// Products of a unit of an EXL2 matrix in shared memory (exl2.cuh) by eights of rows, with tensor
// cores, as packed.cuh has them by up to eight.
#pragma once

#include "packed.cuh"
#include "unit.cuh"

// multiply adds a unit's products by eights of rows; sums are those of columns g, g+8 and
// g+16, g+24. x is of this lane: blocks are step apart, the eights second. Groups have `each` blocks, up to four, which meet their
// scales together; or any number of them, if it is one.
template <int bits, int each, int eights>
__device__ inline void multiply(float (&sums)[eights][2][4], const uint4* words, const uint4* x, int step, int second, const LaneCodes& codes, const u32* units, int shift, Exponent e) {
	float d[eights][2][4];
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits], b[eights][4];
		half2 v[16];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
#pragma unroll
		for (int n = 0; n < eights; n++) *(uint4*)b[n] = x[j * step + n * second];
		numbers<bits>(v, w, e);
		bool begin = j % each == 0;
#pragma unroll
		for (int h = 0; h < 2; h++)
#pragma unroll
			for (int t = 0; t < 2; t++) {
				const half2 *low = v + 8 * t + 2 * h, *high = low + 4;
				u32 a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])};
#pragma unroll
				for (int n = 0; n < eights; n++) {
					u32 pair[2] = {b[n][2 * h], b[n][2 * h + 1]};
					if (begin && h == 0) mma_first(d[n][t], a, pair);
					else mma(d[n][t], a, pair);
				}
			}
		if (j % each < each - 1) continue;
		int group = each == 1 ? j >> shift : j / each;
		half2 s[2];
		scales_of_spread(s, codes(group), units[group], e);
#pragma unroll
		for (int n = 0; n < eights; n++)
#pragma unroll
			for (int t = 0; t < 2; t++)
#pragma unroll
				for (int i = 0; i < 4; i++) sums[n][t][i] = fmaf(__half2float(scale_of(s, 2 * t + i / 2)), d[n][t][i], sums[n][t][i]);
	}
}

// multiply_bits is multiply by a width that is known at run time, likely ones first.
template <int each, int eights>
__device__ inline void multiply_bits(int bits, float (&sums)[eights][2][4], const uint4* words, const uint4* x, int step, int second, const LaneCodes& codes, const u32* units, int shift, Exponent e) {
	if (bits == 4) multiply<4, each>(sums, words, x, step, second, codes, units, shift, e);
	else if (bits == 3) multiply<3, each>(sums, words, x, step, second, codes, units, shift, e);
	else if (bits == 5) multiply<5, each>(sums, words, x, step, second, codes, units, shift, e);
	else if (bits == 6) multiply<6, each>(sums, words, x, step, second, codes, units, shift, e);
	else if (bits == 2) multiply<2, each>(sums, words, x, step, second, codes, units, shift, e);
	else multiply<8, each>(sums, words, x, step, second, codes, units, shift, e);
}
