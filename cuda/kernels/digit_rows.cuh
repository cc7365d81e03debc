// Products of units of an EXL2 matrix with two rows of x or four, by digits (digits.cuh), of which
// x lies in stored order.
//
// Two rows are eight columns of a product of bytes, four rows are two such products of one
// operand. A row has three digits here: what an element loses is up to 2^-20 of the largest.
//
// A warp always multiplies the same rows of the matrices, its portion, and so nobody else needs
// what it makes of x there. It asks for fp16, finds the largest of its portion of each row, and
// makes digits in their place, without a barrier; its sums count what its own digits do.
#pragma once

#include "digits.cuh"

constexpr int row_digits = 3;
constexpr int portion_block = row_digits * block_rows;  // bytes

// A Portion is the first block of x that a warp multiplies, and where it is among all portions, in
// blocks; the next one's place is where it ends.
struct Portion {
	unsigned short first, at;
};

// Of a portion's row, eight elements are 24 bytes, eight of each digit, the lowest first, in put_digits' order.
// Before, they are fp16 in the last two thirds of the row's bytes.
template <int most_rows>
struct RowDigits {
	static constexpr int sets = most_rows / 2;  // of eight columns

	const char* column;  // the lane's, of block 0 and the first set, if it were there
	int step;            // bytes, to the next set
	float lowest[sets];  // what sums of the lane's columns, of digits 0 and 1, or 2, are to be multiplied by
	float second;        // what the second of two digits is: 128, or none

	// ask asks for x. P is what has it: x, ldx, rows and in of Product (qmatmul.cu).
	template <class P>
	__device__ static void ask(char* to, const P& p, int first, int blocks) {
		int bytes = blocks * portion_block;
#pragma unroll 1
		for (int i = threadIdx.x % 32; i < 4 * blocks; i += 32) {
			int c = first * block_rows + 8 * i;
			const half* x = (const half*)p.x + (c < p.in ? c : 0);
#pragma unroll
			for (int r = 0; r < most_rows; r++) copy16(to + r * bytes + blocks * block_rows + 16 * i, x + min(r, p.rows - 1) * p.ldx, c < p.in);
		}
		commit();
	}

	// The lane's, of what has been asked for; it waits for that.
	__device__ RowDigits(char* to, int first, int blocks) {
		int lane = threadIdx.x % 32, n = lane / 4, bytes = blocks * portion_block;
		column = to + (n / 4) * bytes - first * portion_block + lane % 4 * (8 * row_digits) + min(n % 4, row_digits - 1) * 8;
		step = 2 * bytes, second = lane % 2 ? 0 : 128;
		arrived<0>();
		half2 most[most_rows], times[most_rows];
#pragma unroll
		for (int r = 0; r < most_rows; r++) most[r] = __float2half2_rn(0);
#pragma unroll 1
		for (int i = lane; i < 4 * blocks; i += 32)
#pragma unroll
			for (int r = 0; r < most_rows; r++) measure(most[r], *(const uint4*)(to + r * bytes + blocks * block_rows + 16 * i));
#pragma unroll
		for (int r = 0; r < most_rows; r++) {
			FixedPoint fixed(warp_largest(max(__float_as_uint(__low2float(most[r])), __float_as_uint(__high2float(most[r]))) & 0x7fffffff));
			times[r] = __float2half2_rn(fixed.to);
			if (r % 2 == lane % 4 / 2) lowest[r / 2] = fixed.lowest * (lane % 2 ? 128.0f * 128 * 128 : 128.0f);  // than of four digits
		}
#pragma unroll 1
		for (int i = lane; i - lane < 4 * blocks; i += 32) {
			uint4 x[most_rows];
#pragma unroll
			for (int r = 0; r < most_rows; r++)
				if (i < 4 * blocks) x[r] = *(const uint4*)(to + r * bytes + blocks * block_rows + 16 * i);
			__syncwarp();
#pragma unroll
			for (int r = 0; r < most_rows; r++)
				if (i < 4 * blocks) put(to + r * bytes + 8 * row_digits * i, x[r], times[r]);
		}
		__syncwarp();
	}

	__device__ static void put(char* to, uint4 v, half2 times) {
		u32 d[4][row_digits], x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
		for (int i = 0; i < 4; i++) digits_of(d[i], half2_of(x[i]), times);
#pragma unroll
		for (int i = 0; i < row_digits; i++) *(uint2*)(to + 8 * i) = make_uint2(__byte_perm(d[0][i], d[2][i], 0x6240), __byte_perm(d[1][i], d[3][i], 0x6240));
	}
};

// scale_rows adds integers, two digits of a lane in each set, to sums of columns g, g+8, g+16, g+24:
// the first of two times 1, the second times `second`.
template <int bits, int sets>
__device__ inline void scale_rows(float (&sums)[sets][4], const int (&d)[sets][2][4], u32 codes, u32 unit, float second, Exponent e) {
	constexpr float one = 1.0f / (1 << (8 - bits));  // of what codes have been multiplied by
	half2 s[2];
	scales_of_both(s, codes, unit, e);
	second *= one;
#pragma unroll
	for (int n = 0; n < sets; n++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int* two = d[n][i / 2] + i % 2 * 2;
			float low = fmaf(__int_as_float(two[0]), one, -bias * one), high = __int_as_float(two[1]) - bias;
			sums[n][i] = fmaf(i % 2 ? __high2float(s[i / 2]) : __low2float(s[i / 2]), fmaf(high, second, low), sums[n][i]);
		}
}

// multiply_sets adds a unit's products; `blocks` are those of a group, up to four.
template <int bits, int blocks, int most_rows, class Codes>
__device__ inline void multiply_sets(float (&sums)[most_rows / 2][4], const uint4* words, const RowDigits<most_rows>& x, int block, const Codes& codes, const u32* units, Exponent e, Turn turn) {
	constexpr int sets = most_rows / 2;
	const char* column = x.column + block * portion_block;
	int d[sets][2][4];
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		u32 low[4] = {bytes_of<bits, 0>(w, turn), bytes_of<bits, 2>(w, turn), bytes_of<bits, 1>(w, turn), bytes_of<bits, 3>(w, turn)};
		u32 high[4] = {bytes_of<bits, 4>(w, turn), bytes_of<bits, 6>(w, turn), bytes_of<bits, 5>(w, turn), bytes_of<bits, 7>(w, turn)};
#pragma unroll
		for (int n = 0; n < sets; n++) {
			uint2 b = *(const uint2*)(column + n * x.step + j * portion_block);
			if (j % blocks == 0) {
				mma_bytes_first(d[n][0], low, b);
				mma_bytes_first(d[n][1], high, b);
			} else {
				mma_bytes(d[n][0], low, b);
				mma_bytes(d[n][1], high, b);
			}
		}
		if (j % blocks == blocks - 1) scale_rows<bits>(sums, d, codes(j / blocks), units[j / blocks], x.second, e);
	}
}

// multiply_sets_of is multiply_sets by a width that is known at run time.
template <int blocks, int most_rows, class Codes>
__device__ inline void multiply_sets_of(int bits, float (&sums)[most_rows / 2][4], const uint4* words, const RowDigits<most_rows>& x, int block, const Codes& codes, const u32* units, Exponent e, Turn turn) {
	if (bits <= 4) {
		if (bits == 4) multiply_sets<4, blocks>(sums, words, x, block, codes, units, e, turn);
		else if (bits == 3) multiply_sets<3, blocks>(sums, words, x, block, codes, units, e, turn);
		else multiply_sets<2, blocks>(sums, words, x, block, codes, units, e, turn);
	} else {
		if (bits == 5) multiply_sets<5, blocks>(sums, words, x, block, codes, units, e, turn);
		else if (bits == 6) multiply_sets<6, blocks>(sums, words, x, block, codes, units, e, turn);
		else multiply_sets<8, blocks>(sums, words, x, block, codes, units, e, turn);
	}
}

// multiply_unit_rows adds the products of a unit, of so many bits and 2^shift blocks a group, up to
// four, with the rows of x from a block on.
template <int most_rows, class Codes>
__device__ inline void multiply_unit_rows(int bits, int shift, float (&sums)[most_rows / 2][4], const uint4* words, const RowDigits<most_rows>& x, int block, const Codes& codes, const u32* units, Exponent e, Turn turn) {
	if (shift == 2) multiply_sets_of<4>(bits, sums, words, x, block, codes, units, e, turn);
	else if (shift == 1) multiply_sets_of<2>(bits, sums, words, x, block, codes, units, e, turn);
	else multiply_sets_of<1>(bits, sums, words, x, block, codes, units, e, turn);
}

// keep_rows puts a warp's sums of a tile where finish adds them. Two lanes hand each other what they have
// of a row's columns, and each keeps half of them.
template <int most_rows>
__device__ inline void keep_rows(float* parts, float (&sums)[most_rows / 2][4], const RowDigits<most_rows>& x) {
	int lane = threadIdx.x % 32, g = lane / 4, odd = lane % 2;
#pragma unroll
	for (int n = 0; n < most_rows / 2; n++) {
		float* row = parts + (2 * n + lane % 4 / 2) * tile_columns + g + 16 * odd;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			float a = sums[n][i] * x.lowest[n], b = sums[n][2 + i] * x.lowest[n];
			row[8 * i] = (odd ? b : a) + __shfl_xor_sync(~0u, odd ? a : b, 1);
			sums[n][i] = sums[n][2 + i] = 0;
		}
	}
}
