// Norms of heads, in place: what norm.cu computes, for every head of every row of two
// tensors, queries and keys.
//
// A warp a head, a head being 64 to 256 elements, of which a lane holds every 32nd.
//
// H200, 2026-11-21, 32 heads of 128 of one tensor: a row 1.8 µs, 2048 rows 18 µs, 1.9 TB/s.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int warps = 8;  // of a block
constexpr int held = 8;   // elements of a lane that are read once

enum Kind { rms, layer };

// Heads are those of a tensor.
struct Heads {
	half* x;         // [rows, heads·dim], rows ld elements apart
	const float* w;  // [dim], of all heads, or [heads, dim]
	int heads, step;  // step: from one head's w to the next one's, 0 or dim
	int64 ld;
};

template <Kind kind>
__device__ void normalize(half* x, const float* w, int dim, float eps, float offset) {
	int lane = threadIdx.x % 32;
	float v[held], mean = 0, squares = 0;
#pragma unroll
	for (int i = 0; i < held; i++) v[i] = i * 32 + lane < dim ? widen(x[i * 32 + lane]) : 0;
	if (kind == layer) {
#pragma unroll
		for (int i = 0; i < held; i++) mean += v[i];
		for (int c = held * 32 + lane; c < dim; c += 32) mean += widen(x[c]);
		mean = warp_sum(mean) / dim;
	}
#pragma unroll
	for (int i = 0; i < held; i++)
		if (i * 32 + lane < dim) squares += (v[i] - mean) * (v[i] - mean);
	for (int c = held * 32 + lane; c < dim; c += 32) squares += (widen(x[c]) - mean) * (widen(x[c]) - mean);
	float inverse = 1 / sqrtf(warp_sum(squares) / dim + eps);
#pragma unroll
	for (int i = 0; i < held; i++)
		if (i * 32 + lane < dim) narrow(x[i * 32 + lane], (v[i] - mean) * inverse * (w[i * 32 + lane] + offset));
	for (int c = held * 32 + lane; c < dim; c += 32) narrow(x[c], (widen(x[c]) - mean) * inverse * (w[c] + offset));
}

template <Kind kind>
__device__ void head_norm(const Heads& q, const Heads& k, int rows, int dim, float eps, float offset) {
	after_previous();
	int head = blockIdx.x * warps + threadIdx.x / 32, all = q.heads + k.heads;
	if (head >= rows * all) return;
	int row = head / all, h = head % all;
	bool key = h >= q.heads;
	const Heads& of = key ? k : q;
	if (key) h -= q.heads;
	normalize<kind>(of.x + row * of.ld + h * dim, of.w + h * of.step, dim, eps, offset);
}

#define HEAD_NORM(name, kind)                                                                             \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                        \
		half* q, half* k, const float* wq, const float* wk, int rows, int q_heads, int k_heads, int q_step, \
		int k_step, int dim, int64 ldq, int64 ldk, float eps, float offset) {                                                  \
		head_norm<kind>({q, wq, q_heads, q_step, ldq}, {k, wk, k_heads, k_step, ldk}, rows, dim, eps, offset);            \
	}

HEAD_NORM(head_norm_rms_f16, rms)
HEAD_NORM(head_norm_layer_f16, layer)
