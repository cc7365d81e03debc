// The residual stream's sum: y += scale · x. Names end in the type of x.
//
// Eight elements a thread.
//
// H200, 2026-11-21, f16, 4096 columns: a row 0.83 µs, 2048 rows 26 µs, 3.2 TB/s.
#include "half.cuh"
#include "order.cuh"

template <class X>
__device__ void add_scaled(
	float* y,    // [rows, n], rows ldy elements apart
	const X* x,  // [rows, n], ldx
	int rows, int64 n, int64 ldy, int64 ldx, float scale) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float sum[8], v[8];
		load8(sum, y + r * ldy, i, n);
		load8(v, x + r * ldx, i, n);
		for (int j = 0; j < 8; j++) sum[j] += scale * v[j];
		store8(y + r * ldy, sum, i, n);
	}
}

#define ADD_SCALED(name, X)                                                             \
	extern "C" __global__ void name(float* y, const X* x, int rows, int64 n, int64 ldy, \
	                                int64 ldx, float scale) {                           \
		add_scaled(y, x, rows, n, ldy, ldx, scale);                                     \
	}

ADD_SCALED(add_scaled_f32, float)
ADD_SCALED(add_scaled_f16, half)
