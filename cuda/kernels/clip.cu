// Limits, in place: x = min(max(x, -limit), limit).
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void clip_f16(
	half* x,  // [rows, n], rows ldx elements apart
	int rows, int64 n, int64 ldx, float limit) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int row = blockIdx.y; row < rows; row += gridDim.y) {
		float v[8];
		load8(v, x + row * ldx, i, n);
		for (int j = 0; j < 8; j++) v[j] = v[j] > limit ? limit : v[j] < -limit ? -limit : v[j];  // NaN stays
		store8(x + row * ldx, v, i, n);
	}
}
