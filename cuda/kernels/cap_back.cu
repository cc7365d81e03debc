// The gradient of what cap.cu computes, in place, given its result y:
// dx·scale·(1 - (y/softcap)²), or dx·scale where softcap is 0.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void cap_back(
	float* dx,       // [rows, n], rows ldx elements apart
	const float* y,  // [rows, n], ldy
	int rows, long long n, long long ldx, long long ldy, float scale, float softcap) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float d[8], v[8];
		load8(d, dx + r * ldx, i, n);
		load8(v, y + r * ldy, i, n);
		for (int j = 0; j < 8; j++) {
			float t = softcap == 0 ? 0 : v[j] / softcap;
			d[j] *= scale * ((1 - t) * (1 + t));
		}
		store8(dx + r * ldx, d, i, n);
	}
}
