// xIELU (arXiv 2411.13010, section 3): p·x² + beta·x where x > 0, n·(e^min(x, least) - 1 - x) + beta·x elsewhere,
// and its gradient, as if least were 0.
//
// Eight elements a thread; y may be x.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void xielu_f16(
	half* y,        // [rows, n], rows ldy elements apart
	const half* x,  // [rows, n], ldx
	int rows, int64 n, int64 ldy, int64 ldx, float p, float negative, float beta, float least) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float v[8];
		load8(v, x + r * ldx, i, n);
		for (int j = 0; j < 8; j++) {
			float z = v[j];
			v[j] = (z > 0 ? p * z * z : negative * (expm1f(fminf(z, least)) - z)) + beta * z;
		}
		store8(y + r * ldy, v, i, n);
	}
}

extern "C" __global__ void xielu_back(
	float* dx,        // [rows, n], rows lddx elements apart
	const float* dy,  // [rows, n], ldy
	const half* x,    // [rows, n], ldx
	int rows, int64 n, int64 lddx, int64 ldy, int64 ldx, float p, float negative, float beta) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float d[8], dv[8], v[8];
		load8(d, dx + r * lddx, i, n);
		load8(dv, dy + r * ldy, i, n);
		load8(v, x + r * ldx, i, n);
		for (int j = 0; j < 8; j++) {
			float z = v[j], slope = z > 0 ? 2 * p * z : negative * expm1f(z);
			d[j] += dv[j] * (slope + beta);
		}
		store8(dx + r * lddx, d, i, n);
	}
}
