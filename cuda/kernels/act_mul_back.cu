// The gradient of y = act(gate) · up: dgate += dy·up·act'(gate), dup += dy·act(gate).
// Without up it is that of act(gate).
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"
#include "slope.cuh"

struct SiLU {
	__device__ static Slope at(float x) {
		float s = sigmoid(x);
		return {x * s, s * (1 + x * sigmoid(-x))};
	}
};

// x·Φ(x)
struct GELU {
	__device__ static Slope at(float x) {
		float p = 0.5f * erfcf(x * -0.70710678f);
		return {x * p, p + x * expf(-0.5f * x * x) * 0.39894228f};  // 1/√2π
	}
};

// x·(1 + tanh z)/2 is x·sigmoid(2z).
struct GELUTanh {
	__device__ static Slope at(float x) {
		constexpr float a = 1.5957691f, b = 0.044715f;  // 2·√(2/π)
		float z = a * (x + b * x * x * x), s = sigmoid(z);
		return {x * s, s + x * s * sigmoid(-z) * a * (1 + 3 * b * x * x)};
	}
};

struct ReLU {
	__device__ static Slope at(float x) { return {x > 0 ? x : 0, x > 0 ? 1.f : 0.f}; }
};

template <class Act>
__device__ void act_mul_back(
	float* dgate,      // [rows, n], rows lddg elements apart
	float* dup,        // [rows, n], lddu, or null
	const float* dy,   // [rows, n], ldy
	const half* gate,  // [rows, n], ldg
	const half* up,    // [rows, n], ldu, or null
	int rows, int64 n, int64 lddg, int64 lddu, int64 ldy, int64 ldg, int64 ldu) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float dg[8], du[8], d[8], g[8], u[8];
		load8(dg, dgate + r * lddg, i, n);
		load8(d, dy + r * ldy, i, n);
		load8(g, gate + r * ldg, i, n);
		if (up) {
			load8(u, up + r * ldu, i, n);
			load8(du, dup + r * lddu, i, n);
		}
		for (int j = 0; j < 8; j++) {
			Slope s = Act::at(g[j]);
			dg[j] += d[j] * (up ? u[j] : 1) * s.slope;
			if (up) du[j] += d[j] * s.value;
		}
		store8(dgate + r * lddg, dg, i, n);
		if (up) store8(dup + r * lddu, du, i, n);
	}
}

#define ACT_MUL_BACK(name, Act)                                                                          \
	extern "C" __global__ void name(float* dgate, float* dup, const float* dy, const half* gate,         \
	                                const half* up, int rows, int64 n, int64 lddg, int64 lddu,           \
	                                int64 ldy, int64 ldg, int64 ldu) {                                   \
		act_mul_back<Act>(dgate, dup, dy, gate, up, rows, n, lddg, lddu, ldy, ldg, ldu);                 \
	}

ACT_MUL_BACK(act_mul_back_silu, SiLU)
ACT_MUL_BACK(act_mul_back_gelu, GELU)
ACT_MUL_BACK(act_mul_back_gelu_tanh, GELUTanh)
ACT_MUL_BACK(act_mul_back_relu, ReLU)
ACT_MUL_BACK(act_mul_back_sigmoid, Logistic)
ACT_MUL_BACK(act_mul_back_softplus, Softplus)
