// The residual stream's sum: y += scale · x. Names end in the type of x.
//
// Eight elements a thread.
//
// H200, 2026-11-21, f16, 4096 columns: a row 0.83 µs, 2048 rows 26 µs, 3.2 TB/s.
#include "half.cuh"
#include "order.cuh"

template <class X>
__device__ void add_scaled(
	float* y,    // [n]
	const X* x,  // [n]
	int64 n, float scale) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	float sum[8], v[8];
	load8(sum, y, i, n);
	load8(v, x, i, n);
	for (int j = 0; j < 8; j++) sum[j] += scale * v[j];
	store8(y, sum, i, n);
}

#define ADD_SCALED(name, X)                                                             \
	extern "C" __global__ void name(float* y, const X* x, long long n, float scale) {   \
		add_scaled(y, x, n, scale);                                                     \
	}

ADD_SCALED(add_scaled_f32, float)
ADD_SCALED(add_scaled_f16, half)
