// Products of units of an EXL2 matrix with two rows of x or four, by digits (digits.cuh), of which
// x lies in stored order.
//
// Eight columns of a product of bytes are three digits of two rows each, to the base of 128, or two digits of
// four rows each, to the base of 254. Both are of a unit's 128 rows, scaled by a power of two for the largest of
// them: of that an element loses up to 2^-20, or 2^-15, which in a whole product is less than what fp16 has lost of x
// before (docs/decoding.md).
//
// A warp always multiplies the same units' rows, and so nobody else needs what it makes of x there. It asks for
// fp16, and makes digits in its place, without a barrier.
#pragma once

#include "digits.cuh"
#include "unit.cuh"

// Bytes of a unit's digits of two rows and four, and of what the lowest ones of each row are.
constexpr int two_unit = 2 * 3 * 128 + 16;
constexpr int four_unit = 4 * 2 * 128 + 16;

// Eight elements of x are a lane's part of a unit's rows: of block lane/8, rows 8q to 8q+7 with q = lane%4, and of row of x
// lane/4%2; of four rows, twice.
template <int rows>
struct Rows {
	static constexpr int digits = rows == 2 ? 3 : 2, base = rows == 2 ? 128 : 254, top = rows == 2 ? 5 : 6;
	static constexpr int block = rows * digits * block_rows;      // bytes
	static constexpr int unit = unit_blocks * block + 16;         // with what the lowest digits of each row are
	static constexpr int parts = rows / 2;                        // of a lane

	// Where fp16 is, and where digits are, of a lane's part: eight bytes of each digit, the lowest first, in put_digits' order.
	__device__ static int halves(int part) {
		int lane = threadIdx.x % 32;
		return rows == 2 ? unit_blocks * block - 512 + 16 * lane : made(part);
	}
	__device__ static int made(int part) {
		int lane = threadIdx.x % 32;
		return rows == 2 ? 24 * lane : lane / 8 * block + 128 * part + lane % 8 * 16;
	}

	int column;          // where in a unit the lane's column of operands is
	int lowest;          // and what its row's lowest digits are
	float second, last;  // what the second of two digits is, in lowest ones, and what sums are to be multiplied by

	__device__ Rows() {
		int lane = threadIdx.x % 32, n = lane / 4, q = lane % 4;
		if (rows == 2) {
			column = n / 4 * 96 + q * 24 + min(n % 4, 2) * 8;
			lowest = unit_blocks * block + q / 2 * 4, second = q % 2 ? 0 : base, last = q % 2 ? base * base : 1;
		} else {
			column = n / 2 * 64 + q * 16 + n % 2 * 8;
			lowest = unit_blocks * block + q * 4, second = base, last = 1.0f / base;
		}
	}

	// note notes the block where a unit begins, for ask, which asks for x of it. P is what has that: x, ldx, rows and
	// in of Product (qmatmul.cu).
	__device__ static void note(char* unit, int first) { *(int*)(unit + unit_blocks * block) = first; }

	template <class P>
	__device__ static void ask(char* to, const P& p) {
		int lane = threadIdx.x % 32, c = (*(const int*)(to + unit_blocks * block) + lane / 8) * block_rows + lane % 4 * 8;
		const half* x = (const half*)p.x + (c < p.in ? c : 0);
#pragma unroll
		for (int i = 0; i < parts; i++) copy16(to + halves(i), x + min(2 * i + lane / 4 % 2, p.rows - 1) * p.ldx, c < p.in);
	}

	// make makes digits of n units that the lane has asked for, and that are there.
	template <int n>
	__device__ static void make(char* first) {
		constexpr int all = n * parts;
		bool other = threadIdx.x & 4;  // row of two
		uint4 x[all];
		half2 times[all];
#pragma unroll
		for (int i = 0; i < all; i++) x[i] = *(const uint4*)(first + i / parts * unit + halves(i % parts));
#pragma unroll
		for (int i = 0; i < all; i++) {
			half2 most = __float2half2_rn(0);
			measure(most, x[i]);
			u32 largest = max(__float_as_uint(__low2float(most)), __float_as_uint(__high2float(most))) & 0x7fffffff;
			u32 one_row = warp_largest(other ? 0 : largest), other_row = warp_largest(other ? largest : 0);
			largest = other ? other_row : one_row;
			// Two digits are up to 127.5 of the highest. Below 2^(top-15), fp16 has no larger factors, and fewer bits.
			int exponent = max((int)((largest + (digits == 2 ? 1 << 16 : 0)) >> 23), 127 + top - 15);
			bool number = largest < 0x7f800000;
			times[i] = __float2half2_rn(number ? __int_as_float((2 * 127 + top - exponent) << 23) : 0);
			float one = number ? __int_as_float((exponent - top - (digits == 3 ? 14 : 0)) << 23) : __int_as_float(0x7fffffff);
			if (threadIdx.x % 32 == 0 || threadIdx.x % 32 == 4) *(float*)(first + i / parts * unit + unit_blocks * block + 4 * (2 * (i % parts) + other)) = one;
		}
		if (rows == 2) __syncwarp();
#pragma unroll
		for (int i = 0; i < all; i++) put(first + i / parts * unit + made(i % parts), x[i], times[i]);
	}

	__device__ static void put(char* to, uint4 v, half2 times) {
		u32 d[4][digits], x[4] = {v.x, v.y, v.z, v.w}, w[2 * digits];
#pragma unroll
		for (int i = 0; i < 4; i++) digits_of<digits, base>(d[i], half2_of(x[i]), times);
#pragma unroll
		for (int i = 0; i < digits; i++) w[2 * i] = __byte_perm(d[0][i], d[2][i], 0x6240), w[2 * i + 1] = __byte_perm(d[1][i], d[3][i], 0x6240);
		if constexpr (digits == 2) {
			*(uint4*)to = make_uint4(w[0], w[1], w[2], w[3]);
		} else {
#pragma unroll
			for (int i = 0; i < digits; i++) *(uint2*)(to + 8 * i) = make_uint2(w[2 * i], w[2 * i + 1]);
		}
	}
};

static_assert(Rows<2>::unit == two_unit && Rows<4>::unit == four_unit, "as they are declared");

// multiply_rows_of adds a unit's products to sums of columns g, g+8, g+16, g+24; `blocks` are those of a group, up to four.
template <int bits, int blocks, int rows, class Codes>
__device__ inline void multiply_rows_of(float (&sums)[4], const uint4* words, const Rows<rows>& x, const char* unit, const Codes& codes, const u32* units, Exponent e, Turn turn) {
	const char* column = unit + x.column;
	// Codes have been multiplied by 2^(8-bits).
	float low_one = *(const float*)(unit + x.lowest) * (1.0f / (1 << (8 - bits))), high_one = low_one * x.second, off = -bias * low_one;
	int d[2][4];
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		uint2 b = *(const uint2*)(column + j * Rows<rows>::block);
		u32 low[4] = {bytes_of<bits, 0>(w, turn), bytes_of<bits, 2>(w, turn), bytes_of<bits, 1>(w, turn), bytes_of<bits, 3>(w, turn)};
		u32 high[4] = {bytes_of<bits, 4>(w, turn), bytes_of<bits, 6>(w, turn), bytes_of<bits, 5>(w, turn), bytes_of<bits, 7>(w, turn)};
		if (j % blocks == 0) {
			mma_bytes_first(d[0], low, b);
			mma_bytes_first(d[1], high, b);
		} else {
			mma_bytes(d[0], low, b);
			mma_bytes(d[1], high, b);
		}
		if (j % blocks != blocks - 1) continue;
		half2 s[2];
		scales_of_both(s, codes(j / blocks), units[j / blocks], e);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const int* two = d[i / 2] + i % 2 * 2;
			float v = fmaf(__int_as_float(two[1]) - bias, high_one, fmaf(__int_as_float(two[0]), low_one, off));
			sums[i] = fmaf(i % 2 ? __high2float(s[i / 2]) : __low2float(s[i / 2]), v, sums[i]);
		}
	}
}

// multiply_rows_width is multiply_rows_of by a width that is known at run time.
template <int blocks, int rows, class Codes>
__device__ inline void multiply_rows_width(int bits, float (&sums)[4], const uint4* words, const Rows<rows>& x, const char* unit, const Codes& codes, const u32* units, Exponent e, Turn turn) {
	if (bits <= 4) {
		if (bits == 4) multiply_rows_of<4, blocks>(sums, words, x, unit, codes, units, e, turn);
		else if (bits == 3) multiply_rows_of<3, blocks>(sums, words, x, unit, codes, units, e, turn);
		else multiply_rows_of<2, blocks>(sums, words, x, unit, codes, units, e, turn);
	} else {
		if (bits == 5) multiply_rows_of<5, blocks>(sums, words, x, unit, codes, units, e, turn);
		else if (bits == 6) multiply_rows_of<6, blocks>(sums, words, x, unit, codes, units, e, turn);
		else multiply_rows_of<8, blocks>(sums, words, x, unit, codes, units, e, turn);
	}
}

// multiply_rows adds the products of a unit, of so many bits and 2^shift blocks a group, up to four, with
// digits of x that are at `unit`.
template <int rows, class Codes>
__device__ inline void multiply_rows(int bits, int shift, float (&sums)[4], const uint4* words, const Rows<rows>& x, const char* unit, const Codes& codes, const u32* units, Exponent e, Turn turn) {
	if (shift == 2) multiply_rows_width<4>(bits, sums, words, x, unit, codes, units, e, turn);
	else if (shift == 1) multiply_rows_width<2>(bits, sums, words, x, unit, codes, units, e, turn);
	else multiply_rows_width<1>(bits, sums, words, x, unit, codes, units, e, turn);
}

// keep_rows puts a warp's sums of a tile where finish adds them. Of two rows, two lanes hand each other what they
// have of a row's columns, and each keeps half of them.
template <int rows>
__device__ inline void keep_rows(float* parts, float (&sums)[4], const Rows<rows>& x) {
	int lane = threadIdx.x % 32, q = lane % 4, odd = q % 2;
#pragma unroll
	for (int i = 0; i < 4; i++) sums[i] *= x.last;
	float* to = parts + lane / 4;
	if constexpr (rows == 2) {
		to += q / 2 * tile_columns + 16 * odd;
#pragma unroll
		for (int i = 0; i < 2; i++) to[8 * i] = (odd ? sums[2 + i] : sums[i]) + __shfl_xor_sync(~0u, odd ? sums[i] : sums[2 + i], 1);
	} else {
#pragma unroll
		for (int i = 0; i < 4; i++) to[q * tile_columns + 8 * i] = sums[i];
	}
#pragma unroll
	for (int i = 0; i < 4; i++) sums[i] = 0;
}
