// The gradient of limiting x to ±limit: dx becomes zero where x is beyond it.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void clip_back(
	float* dx,      // [rows, n], rows lddx elements apart
	const half* x,  // [rows, n], ldx
	int rows, int64 n, int64 lddx, int64 ldx, float limit) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float d[8], v[8];
		load8(d, dx + r * lddx, i, n);
		load8(v, x + r * ldx, i, n);
		for (int j = 0; j < 8; j++)
			if (!(fabsf(v[j]) <= limit)) d[j] = 0;
		store8(dx + r * lddx, d, i, n);
	}
}
