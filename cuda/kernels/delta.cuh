// What kernels of linear attention by the gated delta rule share (delta.cu, delta_back.cu).
#pragma once

#include "fault.cuh"
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int most_dim = 256;     // of a head
constexpr int most_kernel = 16;   // positions that a convolution adds up

// Shape is that of heads and of the rows.
struct Shape {
	int key_heads, value_heads, key_dim, value_dim, kernel, span;
	__device__ int keys() const { return key_heads * key_dim; }
	__device__ int columns() const { return 2 * keys() + value_heads * value_dim; }
};

// Inputs are q, k and v, rows apart by so many elements.
struct Inputs {
	const half *q, *k, *v;
	int64 ldq, ldk, ldv;

	// at returns column c of all of a row.
	__device__ float at(const Shape& s, int row, int c) const {
		int keys = s.keys();
		if (c < keys) return __half2float(q[row * ldq + c]);
		if (c < 2 * keys) return __half2float(k[row * ldk + c - keys]);
		return __half2float(v[row * ldv + c - 2 * keys]);
	}
};

// in_front returns column c n positions in front of a run's first, of what its sequence has left.
__device__ inline float in_front(const Shape& s, const half* left, bool begins, int n, int c) {
	return begins ? 0 : __half2float(left[(int64)(s.kernel - 1 - n) * s.columns() + c]);
}

// Gates are a row's g and β.
struct Gates {
	float g, beta;
	__device__ Gates(float decay, float a, float b) {
		float soft = a > 20 ? a : log1pf(expf(a));
		g = expf(-expf(decay) * soft), beta = 1 / (1 + expf(-b));
	}
};
