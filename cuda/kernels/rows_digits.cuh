// Digits (digits.cuh) of several rows: how those of four are made, and units multiplied by them.
#pragma once

#include "digits.cuh"

// measured returns the largest of a warp's, of a lane's two, as FixedPoint takes it.
__device__ inline u32 measured(half2 most) { return warp_largest(max(__float_as_uint(__low2float(most)), __float_as_uint(__high2float(most))) & 0x7fffffff); }

constexpr int four_unit = 4 * 2 * 128 + 16;  // bytes of a unit's digits, and of what the highest are of each row

// Four rows have two digits each, to the base of 254, of a unit's 128 rows: what an element loses is up to 2^-15 of the
// largest of those, in a product a fifth to two fifths of what fp16 has lost of x before, with outliers up to nine tenths (docs/decoding.md).
struct FourDigits {
	static constexpr int rows = 4, digits = 2, base = 254, block = rows * digits * block_rows, second = base;

	// part returns where in a unit a lane has its eight elements of row 2i, or 2i + 1: of block lane/8, columns 8q to 8q+7 with q = lane%4. Their
	// digits are there, the lower first.
	__device__ static int part(int i) { return threadIdx.x % 32 / 8 * block + 128 * i + threadIdx.x % 8 * 16; }

	// make makes digits of a unit, of which each lane has its parts.
	__device__ static void make(char* unit, const uint4 (&x)[2]) {
		bool other = threadIdx.x & 4;  // row of two
		half2 times[2];
#pragma unroll
		for (int i = 0; i < 2; i++) {
			half2 most = __float2half2_rn(0), none = most;
			measure(most, x[i]);
			u32 first = measured(other ? none : most), second = measured(other ? most : none), largest = other ? second : first;
			// The largest becomes up to 127.5. Where it is below 2^-9, fp16 has no larger factor, and few bits.
			int exponent = max((int)((largest + (1 << 16)) >> 23), 127 - 9);
			bool number = largest < 0x7f800000;
			times[i] = __float2half2_rn(number ? __int_as_float((127 + 6 + 127 - exponent) << 23) : 0);
			if (threadIdx.x % 32 == 0 || threadIdx.x % 32 == 4) *(float*)(unit + unit_blocks * block + 4 * (2 * i + other)) = __int_as_float(number ? (exponent - 6) << 23 : 0x7fffffff);
		}
#pragma unroll
		for (int i = 0; i < 2; i++) {
			u32 d[4][digits], v[4] = {x[i].x, x[i].y, x[i].z, x[i].w}, w[4];
#pragma unroll
			for (int j = 0; j < 4; j++) digits_of<digits, base>(d[j], half2_of(v[j]), times[i]);
#pragma unroll
			for (int j = 0; j < digits; j++) w[2 * j] = __byte_perm(d[0][j], d[2][j], 0x6240), w[2 * j + 1] = __byte_perm(d[1][j], d[3][j], 0x6240);
			*(uint4*)(unit + part(i)) = make_uint4(w[0], w[1], w[2], w[3]);
		}
		__syncwarp();
	}
	// make makes them of the fp16 that is there.
	__device__ static void make(char* unit) {
		uint4 x[2] = {*(const uint4*)(unit + part(0)), *(const uint4*)(unit + part(1))};
		make(unit, x);
	}
};

// multiply_rows_of adds a unit's products to sums of columns g, g+8, g+16, g+24; `blocks` are those of a group, up to four.
template <int bits, int blocks, class X, class Codes, class Units>
__device__ inline void multiply_rows_of(float (&sums)[4], const uint4* words, const X& x, const char* column, const Codes& codes, const Units& units, const Constants& c) {
	float one = x.one(column);
	Integers<bits> d;
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		uint2 b = *(const uint2*)(column + j * X::block);
		if (j % blocks == 0) d.begin();
		d.add(w, b, c);
		if (j % blocks != blocks - 1) continue;
		half2 s[2];
		scales_of_digits<bits>(s, codes(j / blocks), units[j / blocks], c);
		int v[4];
		d.sums(v, x.second);
#pragma unroll
		for (int i = 0; i < 4; i++) sums[i] = fmaf(__half2float(scale_of(s, i)), __int2float_rn(v[i]) * one, sums[i]);
	}
}
