// Products of a unit of an EXL2 matrix in shared memory (exl2.cuh) by up to eight rows,
// with tensor cores: codes as exact numbers, columns being the rows of that product and
// rows of x its columns; scales meet the fp32 sums of a unit, or of a block where groups
// are smaller.
#pragma once

#include "exl2.cuh"
#include "mma.cuh"

// mma_first is mma with d zero before.
__device__ inline void mma_first(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
		: "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(0.0f));
#else
	d[0] = d[1] = d[2] = d[3] = 0;
	mma(d, a, b);
#endif
}

// padded_groups returns the groups that shared memory has: a last unit may go past
// the last one.
__device__ inline int padded_groups(int groups) { return (groups + 3) / 4 * 4 + 4; }

// Codes is where a lane finds the scales' codes of a unit's groups.
struct Codes {
	const uint4* groups;
	__device__ u32 operator()(int group) const { return spread(((const unsigned short*)(groups + group))[threadIdx.x % 32 / 4], spread_low); }
};

// multiply adds a unit's products; sums are those of columns g, g+8 and g+16, g+24.
template <int bits, bool one_group, int rows, class Codes>
__device__ inline void multiply(float (&sums)[2][4], const uint4* words, const uint4* x, const Codes& codes, const u32* units, int shift, Exponent e) {
	float d[2][4];
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits], b[4];
		half2 v[16];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		numbers<bits>(v, w, e);
		*(uint4*)b = x[j * 4];
		bool begin = !one_group || j == 0;
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int h = 0; h < 2; h++) {
				const half2 *low = v + 8 * t + 2 * h, *high = low + 4;
				u32 a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])}, pair[2] = {b[2 * h], b[2 * h + 1]};
				if (begin && h == 0) mma_first(d[t], a, pair);
				else mma(d[t], a, pair);
			}
		if (one_group && j < unit_blocks - 1) continue;
		int group = one_group ? 0 : j >> shift;
		half2 s[2];
		scales_of_spread(s, codes(group), units[group], e);
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i++)
				if (rows > 1 || i % 2 == 0) sums[t][i] = fmaf(__half2float(scale_of(s, 2 * t + i / 2)), d[t][i], sums[t][i]);
	}
}

// multiply_bits is multiply by a width that is known at run time, likely ones first.
template <bool one_group, int rows, class Codes>
__device__ inline void multiply_bits(int bits, float (&sums)[2][4], const uint4* words, const uint4* x, const Codes& codes, const u32* units, int shift, Exponent e) {
	if (bits == 4) multiply<4, one_group, rows>(sums, words, x, codes, units, shift, e);
	else if (bits == 3) multiply<3, one_group, rows>(sums, words, x, codes, units, shift, e);
	else if (bits == 5) multiply<5, one_group, rows>(sums, words, x, codes, units, shift, e);
	else if (bits == 6) multiply<6, one_group, rows>(sums, words, x, codes, units, shift, e);
	else if (bits == 2) multiply<2, one_group, rows>(sums, words, x, codes, units, shift, e);
	else multiply<8, one_group, rows>(sums, words, x, codes, units, shift, e);
}

// multiply_unit is multiply by a width, and groups, that are known at run time.
template <int rows, class Codes>
__device__ inline void multiply_unit(int bits, bool one_group, float (&sums)[2][4], const uint4* words, const uint4* x, const Codes& codes, const u32* units, int shift, Exponent e) {
	if (one_group) multiply_bits<true, rows>(bits, sums, words, x, codes, units, shift, e);
	else multiply_bits<false, rows>(bits, sums, words, x, codes, units, shift, e);
}

// stride is the distance between the rows of x in shared memory, in which lanes
// that read two rows at a time do not collide. A unit may go past a row's end.
constexpr int row_padding = 160;

__device__ inline int stride(int in) { return (in + 63) / 64 * 64 + row_padding; }

// keep puts a warp's sums of a tile where finish adds them.
template <int rows>
__device__ inline void keep(float* parts, float (&sums)[2][4]) {
	int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
	for (int t = 0; t < 2; t++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int row = 2 * q + i % 2;
			if (row < rows) parts[row * tile_columns + g + 16 * t + i / 2 * 8] = sums[t][i];
			sums[t][i] = 0;
		}
}
