// How warp groups of Hopper multiply rows by units of EXL2 matrices whose weights they make in registers (qgemm_hopper.cu, qgemm_group.cu).
#pragma once

#include "exl2.cuh"
#include "qgemm_slots.cuh"
#include "wgmma_packed.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Scales are what a lane needs of a unit beside words and x: what it is, its columns' scales, and the units of their groups.
struct Scales {
	u32 packed;
	u32 codes[unit_blocks], units[unit_blocks];

	__device__ __forceinline__ Scales(u32 head, u32 mine) {
		asm volatile("ld.shared.b32 %0, [%1+16];" : "=r"(packed) : "r"(head) : "memory");
		asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(units[0]), "=r"(units[1]), "=r"(units[2]), "=r"(units[3]) : "r"(head) : "memory");
#pragma unroll
		for (int j = 0; j < unit_blocks; j++) {
			unsigned short v;
			asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(head + mine + 16 * j) : "memory");
			codes[j] = v;
		}
	}
};

__device__ inline uint4 read_words(u32 at) {
	uint4 v;
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
	return v;
}

// rows_of describes rows of 32 halves from an address that is a multiple of 512, stored with the 16-byte chunk
// c of row r in place c ^ r/2%4 (the 64-byte swizzle): the lower half of what an operand is. Sixteen halves further along the rows is 2 more.
__device__ inline u32 rows_of(u32 address) { return (address & 0x3ffff) >> 4 | 1u << 16; }

__device__ inline uint64 operand_of(u32 rows) {
	constexpr u32 eight_rows = 512 >> 4, swizzle_64 = 2;
	uint64 v;
	asm("mov.b64 %0, {%1, %2};" : "=l"(v) : "r"(rows), "r"(eight_rows | swizzle_64 << 30));
	return v;
}

// multiply adds the products of a unit, the last of which it leaves under way; free is told when those of the unit before are done. x is the first
// block's rows, blocks being step apart. Words of a block are read while the one before is multiplied.
template <int bits, bool one_group, int n>
__device__ __forceinline__ void multiply(float (&sums)[2][n / 2], u32 from, u32 x, int step, const Scales& unit, Exponent e, u32 free) {
	u32 all[unit_blocks * bits];
	half2 scales[2];
#pragma unroll
	for (int j = -1; j < unit_blocks; j++) {
#pragma unroll
		for (int i = 0; i < bits; i++)
			if ((j < 0 || 4 * i >= (j + 1) * bits) && 4 * i < (j + 2) * bits) {
				uint4 v = read_words(from + i * 512);
				all[4 * i] = v.x, all[4 * i + 1] = v.y, all[4 * i + 2] = v.z, all[4 * i + 3] = v.w;
			}
		if (j < 0) continue;
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = all[j * bits + i];
		if (j == 0 || !one_group) scales_of(scales, unit.codes[j], unit.units[j], e);
		half2 v[16];
		numbers<bits>(v, w, e);
		u32 a[2][2][4];
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int h = 0; h < 2; h++)
#pragma unroll
				for (int i = 0; i < 4; i++) a[t][h][i] = bits_of(__hmul2(v[8 * t + i % 2 * 4 + 2 * h + i / 2], __half2half2(scale_of(scales, 2 * t + i % 2))));
		wgmma_begin();
#pragma unroll
		for (int h = 0; h < 2; h++)
#pragma unroll
			for (int t = 0; t < 2; t++) wgmma(sums[t], a[t][h], operand_of(x + j * step + 2 * h));
		wgmma_end();
		wgmma_wait<1>();
		if (j == 1 && threadIdx.x % 32 == 0 && free) barrier_arrive(free);
	}
}

// multiply_bits is multiply by a width that is known at run time, likely ones first.
template <bool one_group, int n>
__device__ __forceinline__ void multiply_bits(int bits, float (&sums)[2][n / 2], u32 from, u32 x, int step, const Scales& unit, Exponent e, u32 free) {
	if (bits == 4) multiply<4, one_group, n>(sums, from, x, step, unit, e, free);
	else if (bits == 3) multiply<3, one_group, n>(sums, from, x, step, unit, e, free);
	else if (bits == 5) multiply<5, one_group, n>(sums, from, x, step, unit, e, free);
	else if (bits == 6) multiply<6, one_group, n>(sums, from, x, step, unit, e, free);
	else if (bits == 2) multiply<2, one_group, n>(sums, from, x, step, unit, e, free);
	else multiply<8, one_group, n>(sums, from, x, step, unit, e, free);
}

#endif
