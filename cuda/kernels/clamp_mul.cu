// Gated units whose operands are limited: y = (u + added)·g·σ(alpha·g), with g = min(gate, limit) and u = up
// limited to ±most.
//
// Eight elements a thread; y may be gate or up.
#include "half.cuh"
#include "limited.cuh"
#include "order.cuh"

extern "C" __global__ void clamp_mul_f16(
	half* y,           // [rows, n], rows ldy elements apart
	const half* gate,  // [rows, n], ldg
	const half* up,    // [rows, n], ldu
	int rows, int64 n, int64 ldy, int64 ldg, int64 ldu, float limit, float most, float alpha, float added) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float g[8], u[8];
		load8(g, gate + r * ldg, i, n);
		load8(u, up + r * ldu, i, n);
		for (int j = 0; j < 8; j++) g[j] = limited(g[j], u[j], limit, most, alpha, added);
		store8(y + r * ldy, g, i, n);
	}
}
