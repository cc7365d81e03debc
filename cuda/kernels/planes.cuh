// Operands of products of float32-class accuracy: planes of fp16.
//
// A number is one half, exactly, or the sum of two, high and low, of 11 bits each:
// 22 bits and a sign. Three products of halves then make one of float32 but for
// its last bits; the product of the low halves is left out. Numbers are lifted by
// a power of two before they are split, to where fp16 has all its bits: their
// largest is to have exponent lifted.
//
// A plane of a matrix [k, m] lies in tiles of 32 x 64, by rows of tiles, each 4 KB
// and stored as tensor cores read it: rows of 128 bytes, whose 16-byte chunk c is
// in place c ^ row%8. The two planes of a matrix follow each other.
#pragma once

#include "half.cuh"

constexpr int tile_rows = 32, tile_cols = 64, tile_halves = tile_rows * tile_cols;
constexpr int lifted = 8;

// place_of returns where element (k, m) of a plane is, given its tiles in a row.
__device__ inline int64 place_of(int k, int m, int tiles) {
	return ((int64)(k / tile_rows) * tiles + m / tile_cols) * tile_halves + k % tile_rows * tile_cols + ((m / 8 ^ k) % 8 * 8 + m % 8);
}

// power returns 2^n, within what a float can be.
__device__ inline float power(int n) { return __int_as_float((min(max(n, -126), 127) + 127) << 23); }

// exponent returns the exponent of a number's leading bit.
__device__ inline int exponent(float x) { return (__float_as_int(x) >> 23 & 255) - 127; }

// lift_of returns the factor that lifts numbers up to *largest; 1 if that is absent
// or there are no numbers but 0.
__device__ inline float lift_of(const float* largest) { return largest && *largest > 0 ? power(lifted - exponent(*largest)) : 1; }

// A Pair is a number in two halves.
struct Pair {
	half high, low;
	__device__ Pair(float x) {
		constexpr float most = 65504;  // of fp16: infinities would become NaN
		if (x == x) x = fminf(fmaxf(x, -most), most);
		high = __float2half_rn(x);
		low = __float2half_rn(x - __half2float(high));
	}
};
