// The gate of a feed-forward network: y = act(gate) · up.
//
// Eight elements a thread; y may be gate or up, if columns are in their order.
//
// H200, 2026-11-21, SiLU, 11008 columns: a row 1.0 µs (2.4 with expf and exact
// division), 2048 rows 37 µs, 3.7 TB/s.
#include "gates.cuh"
#include "half.cuh"
#include "order.cuh"

template <class Act>
__device__ void act_mul(
	half* y,           // [rows, n], rows ldy elements apart
	const half* gate,  // [rows, n], ldg
	const half* up,    // [rows, n], ldu
	const half* places,  // [n]: where in a row of y a column goes, a 16-bit number, or null
	int rows, int64 n, int64 ldy, int64 ldg, int64 ldu) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float g[8], u[8];
		load8(g, gate + r * ldg, i, n);
		load8(u, up + r * ldu, i, n);
		for (int j = 0; j < 8; j++) g[j] = Act::of(g[j]) * u[j];
		if (!places) {
			store8(y + r * ldy, g, i, n);
			continue;
		}
		for (int j = 0; j < 8; j++)
			if (i + j < n) y[r * ldy + __half_as_ushort(places[i + j])] = __float2half_rn(g[j]);
	}
}

#define ACT_MUL(name, Act)                                                                     \
	extern "C" __global__ void name(half* y, const half* gate, const half* up, const half* places, \
	                                int rows, int64 n, int64 ldy, int64 ldg, int64 ldu) {          \
		act_mul<Act>(y, gate, up, places, rows, n, ldy, ldg, ldu);                                 \
	}

ACT_MUL(act_mul_silu_f16, SiLU)
ACT_MUL(act_mul_gelu_f16, GELU)
ACT_MUL(act_mul_gelu_tanh_f16, GELUTanh)
ACT_MUL(act_mul_relu_f16, ReLU)
ACT_MUL(act_mul_sigmoid_f16, Logistic)
ACT_MUL(act_mul_softplus_f16, Softplus)
