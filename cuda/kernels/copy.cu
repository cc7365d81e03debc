// Conversions between floating-point types, rounding to nearest, ties to even.
// Names end in the types of x and y.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

template <class Y, class X>
__device__ void convert(
	Y* y,        // [rows, n], rows ldy elements apart
	const X* x,  // [rows, n], ldx
	int rows, int64 n, int64 ldy, int64 ldx) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float v[8];
		load8(v, x + r * ldx, i, n);
		store8(y + r * ldy, v, i, n);
	}
}

#define COPY(name, X, Y)                                                                  \
	extern "C" __global__ void name(Y* y, const X* x, int rows, int64 n, int64 ldy, int64 ldx) { \
		convert(y, x, rows, n, ldy, ldx);                                                 \
	}

COPY(copy_f32_f32, float, float)
COPY(copy_f16_f16, half, half)
COPY(copy_bf16_bf16, bf16, bf16)
COPY(copy_f32_f16, float, half)
COPY(copy_f32_bf16, float, bf16)
COPY(copy_f16_f32, half, float)
COPY(copy_f16_bf16, half, bf16)
COPY(copy_bf16_f32, bf16, float)
COPY(copy_bf16_f16, bf16, half)
