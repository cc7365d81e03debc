// Products of units of an EXL2 matrix with one row by integers, which are exact.
//
// A row of x is scaled by a power of two, by which its largest element is 32 to 64, and
// written with four digits to the base of 128, units first, each rounded to the nearest: bytes
// with a sign of at most 64, which are columns of a matrix of bytes. Tensor cores multiply eight
// columns of bytes at a time by codes, which are bytes, too: as many columns as there are
// anyway, and twice as many rows at once as of fp16. Codes become bytes in one instruction or two
// for four of them (exl2.cuh): with the highest bit turned over, a code in the highest bits of a
// byte is the code less its zero.
//
// What an element of fp16 loses is up to 2^-27 of the largest, so a product is wrong by up to
// 2^-27·largest·Σ|w|: less than what sums in fp32 lose where the largest is added. Elements of at
// least 2^-16 of the largest lose nothing.
// A row with an infinity, or what is no number, has products that are no numbers.
#pragma once

#include "packed.cuh"

// A Turn is the highest bit of each byte of a word, which the compiler does not know (Exponent).
struct Turn {
	u32 v;
	__device__ Turn() { asm volatile("mov.b32 %0, 0x80808080;" : "=r"(v)); }
};

// mask_turn returns (w & mask) ^ with.
__device__ inline u32 mask_turn(u32 w, u32 mask, u32 with) {
	u32 v;
	asm("lop3.b32 %0, %1, %2, %3, 0x6A;" : "=r"(v) : "r"(w), "r"(mask), "r"(with));
	return v;
}

// masked returns (w & mask) ^ with of a piece of an operand, moved to the highest bits of bytes.
template <int bits, int operand, int i>
__device__ inline u32 masked(const u32 (&w)[bits], u32 with) {
	constexpr Piece a = piece<bits>(operand, i);
	if constexpr (a.bits == 0) {
		return with;
	} else {
		constexpr int to = a.to + 8 - bits;
		return mask_turn(moved<a.at, to>(w[a.word]), ((1u << a.bits) - 1) * 0x01010101u << to, with);
	}
}

// bytes_of returns an operand's codes, less their zero, times 2^(8-bits).
template <int bits, int operand>
__device__ inline u32 bytes_of(const u32 (&w)[bits], Turn turn) {
	return masked<bits, operand, 2>(w, masked<bits, operand, 1>(w, masked<bits, operand, 0>(w, turn.v)));
}

// A sum of integers begins as biased_zero. Then its bits are those of the float that is
// `bias` more than it, as long as it is below 2^22; of 128 products with digits it is up to 2^20.
constexpr int biased_zero = 0x4b400000;
constexpr float bias = 12582912;

// mma_bytes is d += a·b for a [16, 32] and b [32, 8] of bytes. Lane l holds, with g = l/4 and
// q = l%4, of a rows g and g+8 of columns 4q to 4q+3, and of 4q+16 to 4q+19; of b column g
// of those; of d as mma does.
__device__ inline void mma_bytes(int (&d)[4], const u32 (&a)[4], uint2 b) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
#else  // the same in four quarters
#pragma unroll
	for (int k = 0; k < 2; k++)
#pragma unroll
		for (int r = 0; r < 2; r++)
			asm volatile(
				"mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"
				: "+r"(d[2 * r]), "+r"(d[2 * r + 1])
				: "r"(a[2 * k + r]), "r"(k == 0 ? b.x : b.y));
#endif
}

// mma_bytes_first is mma_bytes with d biased_zero before.
__device__ inline void mma_bytes_first(int (&d)[4], const u32 (&a)[4], uint2 b) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%10,%10,%10};"
		: "=r"(d[0]), "=r"(d[1]), "=r"(d[2]), "=r"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y), "r"(biased_zero));
#else
	d[0] = d[1] = d[2] = d[3] = biased_zero;
	mma_bytes(d, a, b);
#endif
}

// scale_digits adds integers, two digits of a lane, to sums: the first of two times 1, the
// second times 128.
template <int bits>
__device__ inline void scale_digits(float (&sums)[2][4], const int (&d)[2][4], u32 codes, u32 unit, Exponent e) {
	constexpr float one = 1.0f / (1 << (8 - bits));  // of what codes have been multiplied by
	half2 s[2];
	scales_of_both(s, codes, unit, e);
#pragma unroll
	for (int t = 0; t < 2; t++)
#pragma unroll
		for (int i = 0; i < 4; i += 2) {
			float low = fmaf(__int_as_float(d[t][i]), one, -bias * one), high = __int_as_float(d[t][i + 1]) - bias;
			sums[t][i] = fmaf(i < 2 ? __low2float(s[t]) : __high2float(s[t]), fmaf(high, 128 * one, low), sums[t][i]);
		}
}

// Of a row of digits, eight rows of x are 32 bytes: of each digit, the lowest first, those of rows
// 0, 4, 1, 5 and of 2, 6, 3, 7. Behind the last there are zeros, as a unit may go past it.
constexpr int digit_block = 4 * block_rows;  // bytes

// digit_bytes returns the bytes of a row of digits.
__device__ inline int digit_bytes(int in) { return 4 * stride(in); }

// Digits are a row of digits as a lane reads it. Columns of the product that are no digits of one
// half of a unit's rows are those of the other half, where zeros are multiplied for the first: so the
// sums of two groups are made at once, and lanes 4g and 4g+1 have the first's, 4g+2 and 4g+3 the second's.
struct Digits {
	const char *row, *zeros;
	bool second;  // half, of the lane's columns of x
	__device__ Digits(const u32* row, int in) : Digits(row, (const char*)(row + in)) {}
	__device__ Digits(const u32* row, const char* zeros) : row((const char*)row), zeros(zeros) {
		int lane = threadIdx.x % 32;
		this->row += lane % 4 * 32 + lane / 4 % 4 * 8, second = lane / 16;
	}
};

// group_of_lane returns which of the first two groups of a unit a lane has the sums of.
__device__ inline int group_of_lane(u32 packed) { return threadIdx.x % 4 / 2 & ~packed; }

// multiply_halves adds a unit's products; `pairs` says how many pairs of groups it has, if it has
// four groups, or one.
template <int bits, int pairs, class Codes, class Units>
__device__ inline void multiply_halves(float (&sums)[2][4], const uint4* words, const char* first, const char* second, const Codes& codes, const Units& units, Exponent e, Turn turn) {
	constexpr int blocks = unit_blocks / pairs;  // of a pair
	int d[2][4];
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		uint2 b = *(const uint2*)((j % blocks < blocks / 2 ? first : second) + j * digit_block);
		u32 low[4] = {bytes_of<bits, 0>(w, turn), bytes_of<bits, 2>(w, turn), bytes_of<bits, 1>(w, turn), bytes_of<bits, 3>(w, turn)};
		u32 high[4] = {bytes_of<bits, 4>(w, turn), bytes_of<bits, 6>(w, turn), bytes_of<bits, 5>(w, turn), bytes_of<bits, 7>(w, turn)};
		if (j % blocks == 0) {
			mma_bytes_first(d[0], low, b);
			mma_bytes_first(d[1], high, b);
		} else {
			mma_bytes(d[0], low, b);
			mma_bytes(d[1], high, b);
		}
		if (j % blocks == blocks - 1) scale_digits<bits>(sums, d, codes(j / blocks), units[j / blocks * 2], e);
	}
}

// multiply_width is multiply_halves by a width that is known at run time.
template <int pairs, class Codes, class Units>
__device__ inline void multiply_width(int bits, float (&sums)[2][4], const uint4* words, const char* first, const char* second, const Codes& codes, const Units& units, Exponent e, Turn turn) {
	if (bits <= 4) {
		if (bits == 4) multiply_halves<4, pairs>(sums, words, first, second, codes, units, e, turn);
		else if (bits == 3) multiply_halves<3, pairs>(sums, words, first, second, codes, units, e, turn);
		else multiply_halves<2, pairs>(sums, words, first, second, codes, units, e, turn);
	} else {
		if (bits == 5) multiply_halves<5, pairs>(sums, words, first, second, codes, units, e, turn);
		else if (bits == 6) multiply_halves<6, pairs>(sums, words, first, second, codes, units, e, turn);
		else multiply_halves<8, pairs>(sums, words, first, second, codes, units, e, turn);
	}
}

// multiply_unit_digits adds the products of a unit, of so many bits and 2^shift blocks a group, up to
// four, with the rows of x that begin `row` bytes behind the first. codes gives those of the lane's group
// of each pair (group_of_lane), units is where the lane's of the first is.
template <class Codes, class Units>
__device__ inline void multiply_unit_digits(int bits, int shift, float (&sums)[2][4], const uint4* words, const Digits& x, int row, const Codes& codes, const Units& units, Exponent e, Turn turn) {
	const char *mine = x.row + row, *first = x.second ? x.zeros : mine, *second = x.second ? mine : x.zeros;
	if (shift > 0) multiply_width<1>(bits, sums, words, first, second, codes, units, e, turn);
	else multiply_width<2>(bits, sums, words, first, second, codes, units, e, turn);
}

// keep_digits puts a warp's sums of a tile where finish adds them, times what the row's lowest digits
// are. Lanes 4g to 4g+3 hand each other what they have of a column, and each keeps one.
__device__ inline void keep_digits(float* parts, float (&sums)[2][4], float lowest) {
	int lane = threadIdx.x % 32, q = lane % 4;
	float digit = q % 2 ? lowest * (128 * 128) : lowest, v[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		float a = sums[0][2 * i] * digit, b = sums[1][2 * i] * digit;
		v[i] = (q < 2 ? a : b) + __shfl_xor_sync(~0u, q < 2 ? b : a, 2);
		sums[0][2 * i] = sums[1][2 * i] = 0;
	}
	parts[lane / 4 + q / 2 * 16 + q % 2 * 8] = (q % 2 ? v[1] : v[0]) + __shfl_xor_sync(~0u, q % 2 ? v[0] : v[1], 1);
}

// FixedPoint is the power of two that elements of a row are multiplied by, and what its lowest
// digits are then.
struct FixedPoint {
	float to, lowest;

	// Of the bits of the largest element's absolute value, as a float.
	__device__ FixedPoint(u32 largest) {
		int exponent = max((int)(largest >> 23), 127 - 10);  // below that, fp16 has fewer bits than digits have
		to = __int_as_float((127 + 5 + 127 - exponent) << 23), lowest = __int_as_float((exponent - 5 - 21) << 23);
		if (largest >= 0x7f800000) to = 0, lowest = __int_as_float(0x7fffffff);
	}
};

// digits_of returns n digits, to some base, of two elements times a power of two, the lowest first: in bytes 0 and 2.
template <int n, int base_of = 128>
__device__ inline void digits_of(u32 (&d)[n], half2 x, half2 to) {
	const half2 integers = __float2half2_rn(1536), base = __float2half2_rn(base_of);  // 1536 and a number is an integer
#pragma unroll
	for (int i = n - 1; i >= 0; i--) {
		half2 v = __hfma2(x, to, integers);
		d[i] = bits_of(v);
		if (i > 0) x = __hfma2(x, to, __hneg2(__hsub2(v, integers))), to = base;
	}
}

// put_words stores 16 bytes in shared memory at once. The compiler makes four stores of an assignment whose place
// depends on the lane, which collide.
__device__ inline void put_words(u32* to, uint4 v) {
	asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"((u32)__cvta_generic_to_shared(to)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// put_digits stores the digits of eight rows, two in each of x. Lanes begin with one half of 32 bytes
// or the other, by swaps, so that they do not collide. Where what was read was swapped, too, x has rows
// 4 to 7 first.
__device__ inline bool swaps() { return threadIdx.x & 4; }

__device__ inline void put_digits(u32* row, const half2 (&x)[4], half2 to, bool swapped) {
	u32 d[4][4], w[8], select = swapped ? 0x2604 : 0x6240;
#pragma unroll
	for (int i = 0; i < 4; i++) digits_of(d[i], x[i], to);
#pragma unroll
	for (int i = 0; i < 4; i++) w[2 * i] = __byte_perm(d[0][i], d[2][i], select), w[2 * i + 1] = __byte_perm(d[1][i], d[3][i], select);
	uint4 low = make_uint4(w[0], w[1], w[2], w[3]), high = make_uint4(w[4], w[5], w[6], w[7]);
	bool swap = swaps();
	put_words(row + 4 * swap, swap ? high : low);
	put_words(row + 4 * !swap, swap ? low : high);
}

// warp_largest returns the largest of a warp's numbers.
__device__ inline u32 warp_largest(u32 v) {
#if __CUDA_ARCH__ >= 800
	return __reduce_max_sync(~0u, v);
#else
	for (int step = 16; step > 0; step /= 2) v = max(v, __shfl_xor_sync(~0u, v, step));
	return v;
#endif
}

// largest_of returns the larger of absolute values, and what is no number.
__device__ inline half2 largest_of(half2 a, half2 b) {
#if __CUDA_ARCH__ >= 800
	return __hmax2_nan(a, __habs2(b));
#else
	return half2_of(__vmaxu2(bits_of(a), bits_of(b) & 0x7fff7fff));
#endif
}

// measure makes `most` the largest of itself and eight elements.
__device__ inline void measure(half2& most, uint4 v) {
	most = largest_of(largest_of(most, half2_of(v.x)), half2_of(v.y));
	most = largest_of(largest_of(most, half2_of(v.z)), half2_of(v.w));
}
