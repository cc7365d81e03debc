// Experts for rows of logits, and the rows sorted by expert (device.Route).
//
// A warp chooses for a row: each lane has every 32nd expert. Scores are in float32;
// experts are ranked by logits, whose order is that of scores, unless something is
// added to the scores. A block that chooses for a few rows ranks every row by counting
// those in front of it.
#pragma once

#include "half.cuh"
#include "reduce.cuh"

constexpr int few_chosen = 64;    // rows that a block sorts; more take less time by two kernels
constexpr int most_groups = 32;   // and most experts of a row

static_assert(most_groups == 32, "a lane looks at a group, and has a chosen expert");

enum Score { softmax_all, softmax_top, sigmoids, sparse_mixer };

// Rule is device.Routing.
struct Rule {
	int score, groups, top_groups, group_max, renorm;
	float renorm_eps, scale, jitter;
};

// Given is what a choice is made from, and where the weights go.
struct Given {
	const float* logits;      // [rows, experts], rows ld elements apart
	const float* correction;  // [experts] or null
	const float* gate;        // [rows], ldg apart, or null
	float* weights;           // [rows, columns]
	int rows, experts, chosen, columns;
	int64 ld, ldg;
};

// never is -∞.
__device__ inline float never() { return __int_as_float(0xff800000); }

// before reports whether a stands before b among the best: the first among equals.
__device__ inline bool before(float a, int i, float b, int j) { return a > b || (a == b && i < j); }

// ordered returns a number whose order among unsigned ones is that of a float; zeros
// are equal.
__device__ inline unsigned ordered(float v) {
	unsigned u = v == 0 ? 0 : __float_as_uint(v);
	return u >> 31 ? ~u : u | 1u << 31;
}
__device__ inline float unordered(unsigned u) { return __uint_as_float(u >> 31 ? u & ~(1u << 31) : ~u); }

// best returns the largest of the warp's numbers and where it is.
__device__ inline void best(float& v, int& at) {
#if __CUDA_ARCH__ >= 800
	unsigned mine = ordered(v), most = __reduce_max_sync(~0u, mine);
	at = __reduce_min_sync(~0u, mine == most ? at : 1 << 30);
	v = unordered(most);
#else
	for (int step = 16; step > 0; step /= 2) {
		float w = __shfl_xor_sync(~0u, v, step);
		int i = __shfl_xor_sync(~0u, at, step);
		if (before(w, i, v, at)) v = w, at = i;
	}
#endif
}

__device__ inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }

// Choice is a warp's work on a row.
template <int per>
struct Choice {
	float score[per], by[per];
	int lane, experts;

	__device__ bool has(int j) const { return j * 32 + lane < experts; }

	// top returns the best expert that is left, and its by.
	__device__ int top(float& v) const {
		int at = lane;
		v = by[0];
#pragma unroll
		for (int j = 1; j < per; j++)
			if (by[j] > v) v = by[j], at = j * 32 + lane;
		best(v, at);
		return min(at, experts - 1);
	}
	__device__ void drop(int e) {
#pragma unroll
		for (int j = 0; j < per; j++)
			if (j * 32 + lane == e) by[j] = never();
	}
	__device__ float score_of(int e) const {
		float s = 0;
#pragma unroll
		for (int j = 0; j < per; j++)
			if (j == e / 32) s = score[j];
		return __shfl_sync(~0u, s, e % 32);
	}

	__device__ void read(const Given& g, int row) {
#pragma unroll
		for (int j = 0; j < per; j++) {
			score[j] = by[j] = has(j) ? __ldcg(g.logits + row * g.ld + j * 32 + lane) : never();
			if (by[j] != by[j]) by[j] = never();
		}
	}

	// weigh turns logits into scores, and into what is chosen by.
	__device__ void weigh(const Given& g, const Rule& r, float* shared) {
		if (r.score == softmax_all) {
			float most, sum = 0;
			top(most);
#pragma unroll
			for (int j = 0; j < per; j++) sum += score[j] = has(j) ? expf(score[j] - most) : 0;
			sum = warp_sum(sum);
#pragma unroll
			for (int j = 0; j < per; j++) score[j] /= sum;
		} else if (r.score == sigmoids) {
#pragma unroll
			for (int j = 0; j < per; j++) score[j] = has(j) ? sigmoid(score[j]) : 0;
		}
		if (!g.correction && r.groups < 2) return;
#pragma unroll
		for (int j = 0; j < per; j++)
			if (has(j)) by[j] = score[j] + (g.correction ? g.correction[j * 32 + lane] : 0);
		if (r.groups > 1) limit(r, shared);
	}

	// limit leaves only the best groups, each of which a lane looks at.
	__device__ void limit(const Rule& r, float* shared) {
#pragma unroll
		for (int j = 0; j < per; j++)
			if (has(j)) shared[j * 32 + lane] = by[j];
		__syncwarp();
		int size = experts / r.groups;
		float first = never(), second = never();
		for (int i = 0; lane < r.groups && i < size; i++) {
			float v = shared[lane * size + i];
			if (v > first)
				second = first, first = v;
			else if (v > second)
				second = v;
		}
		float mine = lane >= r.groups ? never() : r.group_max || size < 2 ? first : first + second;
		int rank = 0;
		for (int i = 0; i < r.groups; i++) rank += before(__shfl_sync(~0u, mine, i), i, mine, lane);
		unsigned kept = __ballot_sync(~0u, rank < r.top_groups);
#pragma unroll
		for (int j = 0; j < per; j++)
			if (has(j) && !(kept >> (j * 32 + lane) / size & 1)) by[j] = never();
		__syncwarp();
	}

	// mixer returns SparseMixer's weight of an expert that is chosen now, by v.
	__device__ float mixer(const Rule& r, float v) const {
		float sum = 0;
#pragma unroll
		for (int j = 0; j < per; j++)
			if (by[j] != never() && (v - score[j]) / fmaxf(fabsf(score[j]), v) <= 2 * r.jitter) sum += expf(score[j] - v);
		return 1 / warp_sum(sum);
	}
};

// scale_of returns what the scores of those chosen, one a lane, are multiplied by. Logits
// become their exponentials.
__device__ inline float scale_of(const Rule& r, float& weight, int chosen) {
	float scale = r.scale == 0 ? 1 : r.scale;
	if (r.score == softmax_top) {
		float most = __shfl_sync(~0u, weight, 0);
		weight = threadIdx.x % 32 < chosen ? expf(weight - most) : 0;
		return scale / warp_sum(weight);
	}
	if (r.score == sparse_mixer) return 1;
	return r.renorm ? scale / (warp_sum(weight) + r.renorm_eps) : scale;
}

// rank has lane k return the kth expert of a row, and its weight.
template <int per>
__device__ int rank(const Given& g, const Rule& r, int row, float* shared, float& share) {
	Choice<per> c;
	c.lane = threadIdx.x % 32, c.experts = g.experts;
	c.read(g, row);
	if (r.score != sparse_mixer) c.weigh(g, r, shared);
	int mine = 0;
	float weight = 0;
	for (int k = 0; k < g.chosen; k++) {
		float v;
		int e = c.top(v);
		float w = r.score == sparse_mixer ? c.mixer(r, v) : c.score_of(e);
		c.drop(e);
		if (c.lane == k) mine = e, weight = w;
	}
	float scale = scale_of(r, weight, g.chosen);
	share = weight * scale;
	return mine;
}

// weight_of_all is that of an expert that all rows see.
__device__ inline float weight_of_all(const Given& g, int row) { return g.gate ? sigmoid(__ldcg(g.gate + row * g.ldg)) : 1; }

// choose is rank, and writes the weights, times scales of experts, if there are some.
template <int per>
__device__ int choose(const Given& g, const Rule& r, int row, float* shared, const float* scales) {
	float share;
	int lane = threadIdx.x % 32, mine = rank<per>(g, r, row, shared, share);
	float* weights = g.weights + (int64)row * g.columns;
	if (lane < g.chosen) weights[lane] = scales ? share * scales[mine] : share;
	if (lane == 0 && g.columns > g.chosen) weights[g.chosen] = weight_of_all(g, row);
	return mine;
}

// place says where a row, the ith of those that are chosen for, stands at.
__device__ inline void place(int* order, int* experts, int* places, int i, int at, int e, int chosen, int columns) {
	order[at] = i / chosen;
	experts[at] = e;
	places[(int64)(i / chosen) * columns + i % chosen] = at;
}

// few chooses for all rows and sorts them, as a block.
template <int per>
__device__ void few(
	const Given& g, const Rule& r, int* order, int* experts, int* first, int* places,
	float* shared,         // [warps, experts] where there are groups
	const float* scales) { // [experts] or null
	__shared__ int ids[few_chosen];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, n = g.rows * g.chosen;
	for (int row = warp; row < g.rows; row += blockDim.x / 32) {
		int e = choose<per>(g, r, row, shared + warp * g.experts, scales);
		if (lane < g.chosen) ids[row * g.chosen + lane] = e;
		if (lane == 0 && g.columns > g.chosen) places[row * g.columns + g.chosen] = n + row;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < n; i += blockDim.x) {
		int e = ids[i], at = 0;
		for (int j = 0; j < n; j++) at += ids[j] < e || (ids[j] == e && j < i);
		place(order, experts, places, i, at, e, g.chosen, g.columns);
	}
	for (int e = threadIdx.x; e <= g.experts; e += blockDim.x) {
		int at = 0;
		for (int j = 0; j < n; j++) at += ids[j] < e;
		first[e] = at;
	}
}
