// What kernels of single rows share.
#pragma once

#include "fault.cuh"
#include "order.cuh"
#include "rope.cuh"
#include "rows.cuh"

// Attend is what kernels are given.
struct Attend {
	half* y;             // [rows, heads·dim], rows ldy elements apart
	const half* q;       // [rows, heads·dim]
	const half *k, *v;   // [rows, kv_heads·dim], or null: the cache has them
	const float* freqs;  // [pairs]
	const float* sinks;  // [heads], or null
	const int* pos;      // [rows]
	const int* seq;      // [rows]
	int* fault;
	int rows, sequences, pages, heads, kv_heads, dim, pairs, interleaved;
	int64 ldy, ldq, ldk, ldv;
	float turn_scale;
	Scoring how;
	int window;

	// there reports whether a row's position has a page.
	__device__ bool there(const Cache& c, int row) const {
		int p = pos[row], of = seq[row];
		if (of < 0 || of >= sequences || p < 0 || p / c.page_rows >= c.table_cols) return false;
		int page = c.table[of * c.table_cols + p / c.page_rows];
		return page >= 0 && page < pages;
	}
};

// Heads are those that an item's block takes: count from first on, and their head
// of keys.
struct Heads {
	int kv, first, count;
	bool leads;  // they are the first of their head of keys
	__device__ Heads(const Attend& a, int set, int most) {
		int group = a.heads / a.kv_heads, sets = (group + most - 1) / most;
		kv = set / sets, first = kv * group + set % sets * most, leads = set % sets == 0;
		count = min(most, (kv + 1) * group - first);
	}
};

// rotate copies a head to shared memory, rotated, a thread of `step` every pair.
template <int D>
__device__ inline void rotate(half* to, const half* from, const Attend& a, const float2* turns, int at, int step) {
	for (int i = at; i < D / 2; i += step) {
		bool turned = i < a.pairs, apart = turned && !a.interleaved;
		int x = apart ? i : 2 * i, y = apart ? i + a.pairs : 2 * i + 1;
		half zero = __float2half(0), u = x < a.dim ? from[x] : zero, v = y < a.dim ? from[y] : zero;
		if (turned) {
			float2 t = turns[i];
			float c = widen(u), s = widen(v);
			narrow(u, c * t.x - s * t.y);
			narrow(v, s * t.x + c * t.y);
		}
		to[x] = u, to[y] = v;
	}
}

// Part is four sums of a head that are relative to a score.
struct Part {
	float top, sum;
	float4 out;
};

// join is a part that stands for n others.
template <int n>
__device__ inline Part join(const Part (&p)[n]) {
	Part all = {no_score, 0, make_float4(0, 0, 0, 0)};
#pragma unroll
	for (int i = 0; i < n; i++) all.top = fmaxf(all.top, p[i].top);
#pragma unroll
	for (int i = 0; i < n; i++) {
		float f = exp2f(p[i].top - all.top);
		all.sum += f * p[i].sum;
		all.out.x += f * p[i].out.x, all.out.y += f * p[i].out.y, all.out.z += f * p[i].out.z, all.out.w += f * p[i].out.w;
	}
	return all;
}

// put_result stores the quotient of a head's four sums from `at` on, and of its
// weights, one of which may be its sink's.
__device__ inline void put_result(half* y, const Part& p, int at, int dim, const float* sink) {
	float top = sink ? fmaxf(p.top, *sink * log2e) : p.top, shrink = exp2f(p.top - top);
	float sum = sink ? p.sum * shrink + exp2f(*sink * log2e - top) : p.sum, inverse = shrink / sum;
	float v[4] = {p.out.x * inverse, p.out.y * inverse, p.out.z * inverse, p.out.w * inverse};
#pragma unroll
	for (int i = 0; i < 4; i++)
		if (at + i < dim) y[at + i] = __float2half_rn(v[i]);
}
