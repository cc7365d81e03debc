// What kernels of linear attention by the gated delta rule, or by that of Mamba-2 (plain), share (delta_convolve.cu, delta.cu, delta_back.cu).
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

// keep leaves a run's last inputs to what goes on behind it: each thread some columns. The grid's x and y are all blocks of the run.
__device__ inline void keep(const Shape& s, const Inputs& x, half* left, bool begins, int run, int threads) {
	int end = (run + 1) * s.span, kept = s.kernel - 1, columns = s.columns();
	int first = (blockIdx.y * gridDim.x + blockIdx.x) * threads + threadIdx.x;
#pragma unroll 1
	for (int c = first; c < columns; c += gridDim.x * gridDim.y * threads) {
		float last[most_kernel - 1];
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++) {
			int at = end - kept + i, before = run * s.span - at;
			if (i < kept) last[i] = before > 0 ? in_front(s, left, begins, before, c) : x.at(s, at, c);
		}
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++)
			if (i < kept) left[(int64)i * columns + c] = __float2half_rn(last[i]);
	}
}

// Part is what a warp has of a row's columns: a head.
struct Part {
	int row, number, dim, begin;
	bool of_keys;
	__device__ Part(const Shape& s, int threads) {
		int parts = 2 * s.key_heads + s.value_heads;
		int64 all = ((int64)blockIdx.x * threads + threadIdx.x) / 32;
		row = all / parts, number = all % parts, of_keys = number < 2 * s.key_heads;
		dim = of_keys ? s.key_dim : s.value_dim, begin = of_keys ? number * s.key_dim : 2 * s.keys() + (number - 2 * s.key_heads) * s.value_dim;
	}
};

// Gates are a row's g and β, or, if plain, Δ.
struct Gates {
	float g, beta;
	__device__ Gates(float decay, float a, float b, float most) {
		g = expf(-expf(decay) * softplus(a)), beta = most / (1 + expf(-b));
	}
	__device__ Gates(float decay, float a, float least, bool plain) {
		beta = fmaxf(softplus(a), least), g = expf(-expf(decay) * beta);
	}
	__device__ static float softplus(float a) { return a > 20 ? a : log1pf(expf(a)); }
};
