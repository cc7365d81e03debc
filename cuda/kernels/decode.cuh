// What kernels of single rows share.
#pragma once

#include "fault.cuh"
#include "norm.cuh"
#include "order.cuh"
#include "rope.cuh"
#include "rows.cuh"

// Norms are those of heads: their weights, [dim], or null, of queries and of keys.
struct Norms {
	const float *q, *k;
	int kind;
	float eps, offset;
};

// Attend is what kernels are given.
struct Attend {
	half* y;             // [rows, heads·dim], rows ldy elements apart
	const half* places;  // [heads·dim]: where in a row of y a column goes, or null; dim is a multiple of 4 then
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
	Norms norms;

	// there reports whether a row's position has a page.
	__device__ bool there(const Cache& c, int row) const { return there(c, pos[row], seq[row]); }
	__device__ bool there(const Cache& c, int p, int of) const {
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
	const float* values = nullptr;  // weights of the norm of values, [dim], which is as that of keys; or null
	bool late = false;              // norms of queries and keys follow the rotation
	bool whole = false;             // they are of a row's heads together, and their weights [heads·dim] and [kv_heads·dim]
	int rows = 1, fresh = 1;        // how many rows of a run have these heads, and of how many positions, up to the last one, the cache does not have keys and values yet
	__device__ Heads(const Attend& a, int set, int most) {
		int group = a.heads / a.kv_heads, sets = (group + most - 1) / most;
		kv = set / sets, first = kv * group + set % sets * most, leads = set % sets == 0;
		count = min(most, (kv + 1) * group - first);
	}
	// Slots are a row's heads, those of the last row first, then those of the row in front of it, `back` rows before.
	__device__ int slots() const { return rows * count; }
	__device__ int back(int slot) const { return rows == 1 ? 0 : slot / count; }
	__device__ int head(int slot) const { return first + (rows == 1 ? slot : slot % count); }
	// weights returns those of a head's norm.
	__device__ const float* weights(const float* w, int head, const Attend& a) const { return whole ? w + head * a.dim : w; }
	// Of a set of up to `most`, `sets` of which are the `group` of a head of keys.
	__device__ Heads(int set, int most, int sets, int group) : kv(sets == 1 ? set : set / sets), first(kv * group + (set - kv * sets) * most), count(min(most, (kv + 1) * group - first)), leads(kv * sets == set) {}
};

// dim_of is the dimensions of a head: as many as the kernel is made for where heads are
// full.
template <int D, bool full>
__device__ inline int dim_of(const Attend& a) {
	return full ? D : a.dim;
}

// fresh reads what the kernel in front has written. The compiler may neither do so before
// the wait for it, nor where nobody asks, as it may with __ldcg.
__device__ inline half fresh(const half* p) {
	unsigned short v;
	asm volatile("ld.global.cg.u16 %0, [%1];" : "=h"(v) : "l"(p) : "memory");
	return __ushort_as_half(v);
}

// Pairs are a lane's of a head: those of the numbers that rotate together, 32 lanes apart.
template <int D, bool full>
struct Pairs {
	static constexpr int n = D / 64;
	int x[n], y[n];  // where they are
	float u[n], v[n];

	__device__ Pairs(const Attend& a) {
#pragma unroll
		for (int j = 0; j < n; j++) {
			int i = threadIdx.x % 32 + 32 * j;
			bool apart = i < a.pairs && !a.interleaved;
			x[j] = apart ? i : 2 * i, y[j] = apart ? i + a.pairs : 2 * i + 1;
		}
	}
	__device__ Pairs(const half* from, const Attend& a) : Pairs(a) {
		int dim = dim_of<D, full>(a);
#pragma unroll
		for (int j = 0; j < n; j++) {
			u[j] = x[j] < dim ? widen(fresh(from + x[j])) : 0, v[j] = y[j] < dim ? widen(fresh(from + y[j])) : 0;
		}
	}

	__device__ void put(half* to) const {
#pragma unroll
		for (int j = 0; j < n; j++) to[x[j]] = __float2half_rn(u[j]), to[y[j]] = __float2half_rn(v[j]);
	}

	// normalize is head_norm.cu's, without weights if w is null; of a part of what is normalized, whose root mean square is known, its inverse is given.
	__device__ void normalize(const float* w, const Attend& a, float inverse = 0) {
		int dim = dim_of<D, full>(a);
		float su[n], sv[n], mean = 0, squares = 0;
#pragma unroll
		for (int j = 0; j < n; j++) su[j] = !w ? 1 - a.norms.offset : x[j] < dim ? w[x[j]] : 0, sv[j] = !w ? 1 - a.norms.offset : y[j] < dim ? w[y[j]] : 0, mean += u[j] + v[j];
		mean = a.norms.kind == layer ? warp_sum(mean) / dim : 0;
#pragma unroll
		for (int j = 0; j < n; j++) {
			if (x[j] < dim) u[j] -= mean, squares += u[j] * u[j];
			if (y[j] < dim) v[j] -= mean, squares += v[j] * v[j];
		}
		if (inverse == 0) inverse = 1 / sqrtf(warp_sum(squares) / dim + a.norms.eps);
#pragma unroll
		for (int j = 0; j < n; j++) {
			u[j] = widen(__float2half_rn(u[j] * inverse * (su[j] + a.norms.offset)));
			v[j] = widen(__float2half_rn(v[j] * inverse * (sv[j] + a.norms.offset)));
		}
	}

	// weigh multiplies by weights of a norm.
	__device__ void weigh(const float* w, const Attend& a) {
		int dim = dim_of<D, full>(a);
#pragma unroll
		for (int j = 0; j < n; j++) u[j] *= x[j] < dim ? w[x[j]] + a.norms.offset : 0, v[j] *= y[j] < dim ? w[y[j]] + a.norms.offset : 0;
	}

	// rotate is by turns(j, i) of the lane's pair j, the head's pair i.
	template <class Turns>
	__device__ void rotate(const Attend& a, const Turns& turns) {
#pragma unroll
		for (int j = 0; j < n; j++) {
			int i = threadIdx.x % 32 + 32 * j;
			if (i >= a.pairs) continue;
			float2 t = turns(j, i);
			float c = u[j], s = v[j];
			u[j] = c * t.x - s * t.y, v[j] = s * t.x + c * t.y;
		}
	}

	// finish puts them in shared memory, normalized, if there are weights, and rotated. A norm that is late follows the rotation, which the root
	// mean square does not change: its weights do. inverse is normalize's.
	__device__ void finish(half* to, const float* weights, const Attend& a, const float2* turns, bool late, float inverse = 0) {
		if (weights) normalize(late ? nullptr : weights, a, inverse);
		rotate(a, [&](int, int i) { return turns[i]; });
		if (weights && late) weigh(weights, a);
		put(to);
	}
};

// bring has a warp copy a head to shared memory, finished.
template <int D, bool full>
__device__ inline void bring(half* to, const half* from, const float* weights, const Attend& a, const float2* turns, bool late = false, float inverse = 0) {
	Pairs<D, full> p(from, a);
	p.finish(to, weights, a, turns, late, inverse);
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

// Spot is where four columns of y go, from one of them on.
struct Spot {
	int column;
	uint2 places;
	__device__ Spot(const Attend& a, int column) : column(column) {
		if (a.places) places = __ldg((const uint2*)(a.places + column));
	}
};

// put_result stores the quotient of a head's four sums from `at` on, and of its
// weights, one of which may be its sink's, in a row of y. All four are there where heads are
// full.
template <bool full>
__device__ inline void put_result(const Attend& a, half* row, const Spot& spot, const Part& p, int head, int at) {
	const float* sink = a.sinks ? a.sinks + head : nullptr;
	float top = sink ? fmaxf(p.top, *sink * log2e) : p.top, shrink = exp2f(p.top - top);
	float sum = sink ? p.sum * shrink + exp2f(*sink * log2e - top) : p.sum, inverse = shrink / sum;
	float v[4] = {p.out.x * inverse, p.out.y * inverse, p.out.z * inverse, p.out.w * inverse};
#pragma unroll
	for (int i = 0; i < 4; i++) {
		int to = a.places ? (i < 2 ? spot.places.x : spot.places.y) >> i % 2 * 16 & 0xffff : spot.column + i;
		if (full || at + i < a.dim) row[to] = __float2half_rn(v[i]);
	}
}
