// How every block of a kernel chooses a row's experts for itself, behind the logits of the router
// (choose.cu), in the order of route.cuh.
#pragma once

#include "digits.cuh"
#include "route.cuh"

constexpr int most_experts = 512;

// Chosen is the experts of the row, and their weights.
struct Chosen {
	int experts[32];
	float weights[32];
};

// A Counting is how a block ranks experts: all at once, each by those before it.
struct Counting {
	unsigned by[most_experts];   // what is ranked by, as ordered
	float score[most_experts];  // logits
};

// score_of returns the score of a logit, of a softmax but for a factor.
__device__ inline float score_of(const Rule& r, float logit, float most) {
	return r.score == softmax_all ? expf(logit - most) : r.score == sigmoids ? sigmoid(logit) : logit;
}

// moments returns the largest logit, and the sum of a softmax, to each lane of a warp.
__device__ inline void moments(const Counting& c, int experts, float& most, float& sum) {
	int lane = threadIdx.x % 32;
	most = never(), sum = 0;
#pragma unroll 4
	for (int e = lane; e < experts; e += 32) most = fmaxf(most, c.score[e]);
#pragma unroll
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
#pragma unroll 4
	for (int e = lane; e < experts; e += 32) sum += expf(c.score[e] - most);
	sum = warp_sum(sum);
}

// count_ranks ranks by counting what is before each expert, two threads an expert; not of
// groups, nor SparseMixer's. Weights are left by the first warp, to itself.
template <bool weighs>
__device__ inline void count_ranks(Chosen& to, Counting& c, const Given& g, const Rule& r) {
	int lane = threadIdx.x % 32, padded = (g.experts + 15) / 16 * 16;
	for (int e = threadIdx.x; e < padded; e += blockDim.x) {
		float v = e < g.experts ? __ldcg(g.logits + e) : never();
		c.score[e] = v, c.by[e] = ordered(v == v ? v : never());
	}
	__syncthreads();
	float most = 0, sum = 1;
	if (r.score == softmax_all && (g.correction || weighs && threadIdx.x < 32)) moments(c, g.experts, most, sum);
	if (g.correction) {
		__syncthreads();
		for (int e = threadIdx.x; e < g.experts; e += blockDim.x) {
			float v = score_of(r, c.score[e], most) / sum + g.correction[e];
			c.by[e] = ordered(v == v ? v : never());
		}
		__syncthreads();
	}
#pragma unroll 1
	for (int i = threadIdx.x; i < 2 * padded; i += blockDim.x) {
		int e = i / 2, rank = 0;
		unsigned mine = c.by[e];
#pragma unroll 4
		for (int j = i % 2 * 4; j < padded; j += 8) {  // equal ones are before it if they are of fours before its own
			uint4 v = *(const uint4*)(c.by + j);
			unsigned least = mine - (j + 4 <= e);
			rank += (v.x > least) + (v.y > least) + (v.z > least) + (v.w > least);
		}
		if (e / 4 % 2 == i % 2) {
#pragma unroll
			for (int j = 0; j < 3; j++) rank += j < e % 4 && c.by[e / 4 * 4 + j] == mine;
		}
		rank += __shfl_xor_sync(~0u, rank, 1);
		if (rank < g.chosen && i % 2 == 0) to.experts[rank] = e;
	}
	__syncthreads();
	if (!weighs || threadIdx.x >= 32) return;
	float weight = lane < g.chosen ? score_of(r, c.score[to.experts[lane]], most) : 0;
	if (r.score == softmax_all) weight /= sum;
	float scale = scale_of(r, weight, g.chosen);
	to.weights[lane] = weight * scale;
}

// rank_first has the first warp choose one expert after the other. It is not in line: what it takes of
// registers, and of code that is fetched, should not be others'.
__device__ __noinline__ void rank_first(Chosen& to, float* memory, Given g, Rule r) {
	float weight;
	int e = rank<most_experts / 32>(g, r, 0, memory, weight);
	to.experts[threadIdx.x] = e, to.weights[threadIdx.x] = weight;
}

constexpr int ranked = 128;  // experts that Logits has

// Logits are those of up to `ranked` experts, of which each lane of a warp has every 32nd.
struct Logits {
	float v[ranked / 32];

	__device__ Logits(const float* logits, int experts) {
#pragma unroll
		for (int j = 0; j < ranked / 32; j++) {
			int e = j * 32 + threadIdx.x % 32;
			v[j] = e < experts ? __ldcg(logits + e) : 0;
		}
	}

	// choose leaves the experts that are chosen, and their weights.
	__device__ void choose(Chosen& to, const Given& g, const Rule& r) const {
		unsigned left[ranked / 32];
		int lane = threadIdx.x % 32, mine = 0;
#pragma unroll
		for (int j = 0; j < ranked / 32; j++) left[j] = j * 32 + lane < g.experts ? ordered(v[j] == v[j] ? v[j] : never()) : 0;
#pragma unroll 1
		for (int i = 0; i < g.chosen; i++) {
			int at = first(left, largest(left));
#pragma unroll
			for (int j = 0; j < ranked / 32; j++) left[j] = at == j * 32 + lane ? 0 : left[j];
			if (lane == i) mine = at;
		}
		float most = 0, sum = 1, weight = of(mine);
		if (r.score == softmax_all) moments(g.experts, most, sum);
		weight = lane < g.chosen ? score_of(r, weight, most) / sum : 0;
		float scale = scale_of(r, weight, g.chosen);
		to.experts[lane] = mine, to.weights[lane] = weight * scale;
	}

	// of returns an expert's, each lane another one's: reading it once more would wait behind words.
	__device__ float of(int expert) const {
		float mine = 0;
#pragma unroll
		for (int j = 0; j < ranked / 32; j++) {
			float other = __shfl_sync(~0u, v[j], expert % 32);
			if (expert / 32 == j) mine = other;
		}
		return mine;
	}

	// moments returns the largest logit, and the sum of a softmax.
	__device__ void moments(int experts, float& most, float& sum) const {
		int lane = threadIdx.x % 32;
		most = never(), sum = 0;
#pragma unroll
		for (int j = 0; j < ranked / 32; j++)
			if (j * 32 + lane < experts) most = fmaxf(most, v[j]);
#pragma unroll
		for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
#pragma unroll
		for (int j = 0; j < ranked / 32; j++)
			if (j * 32 + lane < experts) sum += expf(v[j] - most);
		sum = warp_sum(sum);
	}
	__device__ static unsigned largest(const unsigned (&keys)[ranked / 32]) { return warp_largest(max(max(keys[0], keys[1]), max(keys[2], keys[3]))); }

	// first returns where a key is.
	__device__ static int first(const unsigned (&keys)[ranked / 32], unsigned key) {
		int at = ranked;
#pragma unroll
		for (int j = ranked / 32 - 1; j >= 0; j--)
			if (keys[j] == key) at = j * 32 + threadIdx.x % 32;
		return ranked - (int)warp_largest(ranked - at);
	}
};
static_assert(ranked / 32 == 4, "as largest has it");

// Keys are what experts are chosen by, as the router's kernel leaves it behind the row's digits: four of a lane, those that
// there are not zeros.
constexpr int keys_behind = 8;  // words

__device__ inline u32 key_of(float logit) { return ordered(logit == logit ? logit : never()); }

struct Keys {
	uint4 v;

	__device__ Keys(uint4 v) : v(v) {}
	__device__ Keys(const u32* keys) { asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(keys + threadIdx.x % 32 * 4) : "memory"); }

	// kth leaves the expert of the kth largest, the first among equals.
	__device__ void kth(int* to, int k) const {
		u32 a = v.x, b = v.y, c = v.z, d = v.w, most;
		sort(a, b), sort(c, d), sort(a, c), sort(b, d), sort(b, c);
		bool alike = __any_sync(~0u, b && (a == b || b == c || c && c == d));
#pragma unroll 1
		for (int i = 0;; i++) {  // equal ones of lanes are one
			most = warp_largest(a);
			if (i == k) break;
			if (a == most) a = b, b = c, c = d, d = 0;
		}
		int up_to = __popc(__ballot_sync(~0u, v.x >= most)) + __popc(__ballot_sync(~0u, v.y >= most)) + __popc(__ballot_sync(~0u, v.z >= most)) + __popc(__ballot_sync(~0u, v.w >= most));
		int at = first(v, most);
		if (alike || up_to != k + 1) at = one_by_one(k);
		if (at < ranked && (!(alike || up_to != k + 1) || threadIdx.x == 0)) *to = at;
	}
	// one_by_one returns it to the first lane.
	__device__ int one_by_one(int k) const {
		uint4 left = v;
		int at;
#pragma unroll 1
		for (int i = 0;; i++) {
			at = ranked - (int)warp_largest(ranked - first(left, warp_largest(max(max(left.x, left.y), max(left.z, left.w)))));
			if (i == k) return at;
			int mine = at - threadIdx.x % 32 * 4;
			if (mine == 0) left.x = 0;
			if (mine == 1) left.y = 0;
			if (mine == 2) left.z = 0;
			if (mine == 3) left.w = 0;
		}
	}
	__device__ static void sort(u32& a, u32& b) {
		u32 low = min(a, b);
		a = max(a, b), b = low;
	}
	// first returns which expert of the lane has a key, or `ranked`.
	__device__ static int first(uint4 keys, u32 key) {
		int at = keys.x == key ? 0 : keys.y == key ? 1 : keys.z == key ? 2 : keys.w == key ? 3 : ranked;
		return at == ranked ? ranked : threadIdx.x % 32 * 4 + at;
	}
};

// choose_by_logits has one warp choose for its block, where experts are chosen by their logits alone.
__device__ inline void choose_by_logits(Chosen& to, const Given& g, const Rule& r) {
	if (threadIdx.x < 32) Logits(g.logits, g.experts).choose(to, g, r);
	__syncthreads();
}

// choose has every block choose. The memory may be used for other things when all threads
// have passed another barrier.
template <bool weighs>
__device__ inline void choose(Chosen& to, void* memory, const Given& g, const Rule& r) {
	if (r.groups > 1 || r.score == sparse_mixer) {
		if (threadIdx.x < 32) rank_first(to, (float*)memory, g, r);
		__syncthreads();
	} else {
		count_ranks<weighs>(to, *(Counting*)memory, g, r);
	}
}
