// Logits, in place: x = softcap·tanh(scale·x/softcap), or scale·x where softcap
// is 0.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void cap_f32(
	float* x,  // [rows, n], rows ldx elements apart
	int rows, int64 n, int64 ldx, float scale, float softcap) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float v[8];
		load8(v, x + r * ldx, i, n);
		for (int j = 0; j < 8; j++) {
			v[j] *= scale;
			if (softcap != 0) v[j] = softcap * tanhf(v[j] / softcap);
		}
		store8(x + r * ldx, v, i, n);
	}
}
