// Products of float32 numbers with tensor cores, at twice the rate of TF32 (split_tf32.cuh) and with all of float32's range: each
// number is a sum of two in bfloat16, products of both low parts are left out, and so is what is below 2^-17 of a number.
#pragma once

#include "mma.cuh"

// mma_bf16 is mma of bfloat16.
__device__ inline void mma_bf16(float (&d)[4], const u32 (&a)[4], u32 b0, u32 b1) {
#if __CUDA_ARCH__ >= 800
	asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
	    : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
	    : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
#endif
}

// as_bf16 rounds two neighbours, of which the first one's bits are the lower half.
__device__ inline u32 as_bf16(float first, float second) {
	u32 r = 0;
#if __CUDA_ARCH__ >= 800
	asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(second), "f"(first));
#endif
	return r;
}

// Pair is two neighbours.
struct Pair {
	u32 high, low;
	__device__ Pair(float first, float second) {
		high = as_bf16(first, second);
		low = as_bf16(first - __uint_as_float(high << 16), second - __uint_as_float(high & 0xffff0000));
	}
};

// Left is what a lane has of a left side [16, 16], of two neighbouring results of mma.
struct Left {
	u32 high[4], low[4];
	__device__ Left() {}
	__device__ Left(const float (&x)[4], const float (&y)[4]) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const float* d = (i < 2 ? x : y) + i % 2 * 2;
			Pair p(d[0], d[1]);
			high[i] = p.high, low[i] = p.low;
		}
	}
};

// multiply adds to n results, from the one numbered first on, products of a with right sides [16, 8], of which each two have four registers.
template <int n, int all>
__device__ inline void multiply(float (&d)[all][4], int first, const Left& a, const u32 (&high)[n / 2][4], const u32 (&low)[n / 2][4]) {
#pragma unroll
	for (int i = 0; i < n; i++) mma_bf16(d[first + i], a.low, high[i / 2][i % 2 * 2], high[i / 2][i % 2 * 2 + 1]);
#pragma unroll
	for (int i = 0; i < n; i++) mma_bf16(d[first + i], a.high, low[i / 2][i % 2 * 2], low[i / 2][i % 2 * 2 + 1]);
#pragma unroll
	for (int i = 0; i < n; i++) mma_bf16(d[first + i], a.high, high[i / 2][i % 2 * 2], high[i / 2][i % 2 * 2 + 1]);
}
