// Logits, in place: x = softcap·tanh(scale·x/softcap), or scale·x where softcap
// is 0.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void cap_f32(
	float* x,  // [n]
	long long n, float scale, float softcap) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	float v[8];
	load8(v, x, i, n);
	for (int j = 0; j < 8; j++) {
		v[j] *= scale;
		if (softcap != 0) v[j] = softcap * tanhf(v[j] / softcap);
	}
	store8(x, v, i, n);
}
