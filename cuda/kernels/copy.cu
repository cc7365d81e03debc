// Conversions between floating-point types, rounding to nearest, ties to even.
// Names end in the types of x and y.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

template <class Y, class X>
__device__ void convert(
	Y* y,        // [n]
	const X* x,  // [n]
	int64 n) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	float v[8];
	load8(v, x, i, n);
	store8(y, v, i, n);
}

#define COPY(name, X, Y) \
	extern "C" __global__ void name(Y* y, const X* x, long long n) { convert(y, x, n); }

COPY(copy_f32_f16, float, half)
COPY(copy_f32_bf16, float, bf16)
COPY(copy_f16_f32, half, float)
COPY(copy_f16_bf16, half, bf16)
COPY(copy_bf16_f32, bf16, float)
COPY(copy_bf16_f16, bf16, half)
