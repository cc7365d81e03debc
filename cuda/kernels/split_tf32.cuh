// Products of float32 numbers with tensor cores: each is a sum of two numbers in TF32, and
// products of both low parts are left out.
//
// The order of sums is free, as long as both operands have the same: lane l takes, with q = l%4,
// neighbours 2q and 2q+1 of eight where the instruction means q and q+4. So what one product
// leaves in registers is an operand of the next.
#pragma once

// mma8 is d += a·b in TF32, a [16, 8] and b [8, 8], in the order of sums above: lane l
// holds, with g = l/4 and q = l%4, of a the elements (g, 2q), (g+8, 2q), (g, 2q+1),
// (g+8, 2q+1), of b (2q, g), (2q+1, g), and of d what mma has.
__device__ inline void mma8(float (&d)[4], const float (&a)[4], float b0, float b1) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(__float_as_uint(a[0])), "r"(__float_as_uint(a[1])), "r"(__float_as_uint(a[2])), "r"(__float_as_uint(a[3])),
		  "r"(__float_as_uint(b0)), "r"(__float_as_uint(b1)));
#endif
}

// high rounds to TF32.
__device__ inline float high(float x) {
#if __CUDA_ARCH__ >= 800
	unsigned r;
	asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x));
	return __uint_as_float(r);
#else
	return x;
#endif
}

// Split is float32 numbers as sums of two in TF32.
template <int n>
struct Split {
	float high_part[n], low[n];
	__device__ explicit Split(const float (&x)[n]) {
#pragma unroll
		for (int i = 0; i < n; i++) high_part[i] = high(x[i]), low[i] = high(x[i] - high_part[i]);
	}
};

// multiply is d += a·b for b that is exact, and for any b.
__device__ inline void multiply(float (&d)[4], const Split<4>& a, float b0, float b1) {
	mma8(d, a.low, b0, b1);
	mma8(d, a.high_part, b0, b1);
}
__device__ inline void multiply(float (&d)[4], const Split<4>& a, const Split<2>& b) {
	mma8(d, a.low, b.high_part[0], b.high_part[1]);
	mma8(d, a.high_part, b.low[0], b.low[1]);
	mma8(d, a.high_part, b.high_part[0], b.high_part[1]);
}
