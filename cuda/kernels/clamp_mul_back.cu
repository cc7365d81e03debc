// The gradient of gated units whose operands are limited (clamp_mul.cu): with s = σ(alpha·g),
//
//	dgate += dy·(u + added)·s·(1 + alpha·g·(1 - s)),  dup += dy·g·s
//
// but for numbers that are limited. Eight elements a thread.
#include "half.cuh"
#include "order.cuh"
#include "slope.cuh"

extern "C" __global__ void clamp_mul_back(
	float* dgate,      // [rows, n], rows lddg elements apart
	float* dup,        // [rows, n], lddu
	const float* dy,   // [rows, n], ldy
	const half* gate,  // [rows, n], ldg
	const half* up,    // [rows, n], ldu
	int rows, int64 n, int64 lddg, int64 lddu, int64 ldy, int64 ldg, int64 ldu, float limit, float most, float alpha, float added) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float dg[8], du[8], d[8], g[8], u[8];
		load8(dg, dgate + r * lddg, i, n);
		load8(du, dup + r * lddu, i, n);
		load8(d, dy + r * ldy, i, n);
		load8(g, gate + r * ldg, i, n);
		load8(u, up + r * ldu, i, n);
		for (int j = 0; j < 8; j++) {
			float x = fminf(g[j], limit), s = sigmoid(alpha * x), v = fmaxf(fminf(u[j], most), -most);
			if (g[j] <= limit) dg[j] += d[j] * (v + added) * s * (1 + alpha * x * sigmoid(-alpha * x));
			if (v == u[j]) du[j] += d[j] * x * s;
		}
		store8(dgate + r * lddg, dg, i, n);
		store8(dup + r * lddu, du, i, n);
	}
}
