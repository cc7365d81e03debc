// How every block of a kernel chooses a row's experts for itself, behind the logits of the router
// (choose.cu), in the order of route.cuh.
#pragma once

#include "digits.cuh"
#include "route.cuh"

constexpr int most_experts = 512;

// Chosen is the experts of a row, so many at most, and their weights.
template <int most>
struct Chosen {
	int experts[most];
	float weights[most];

	// add_all adds the expert that all rows see, by the logit of its gate, if it has one. A thread calls it. It is not in line, as code that is
	// jumped over makes what is behind it come late.
	__device__ __noinline__ void add_all(int chosen, int expert, bool gated, float logit) {
		experts[chosen] = expert, weights[chosen] = gated ? sigmoid(logit) : 1;
	}
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
template <bool weighs, class To>
__device__ inline void count_ranks(To& to, Counting& c, const Given& g, const Rule& r) {
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
template <class To>
__device__ __noinline__ void rank_first(To& to, float* memory, Given g, Rule r) {
	float weight;
	int e = rank<most_experts / 32>(g, r, 0, memory, weight);
	to.experts[threadIdx.x] = e, to.weights[threadIdx.x] = weight;
}

constexpr int ranked = 128;  // experts that a warp ranks at once

__device__ inline u32 key_of(float v) { return ordered(v == v ? v : never()); }

// Logits are those of experts, of which each lane of a warp has every 32nd, so many.
template <int per>
struct Logits {
	static constexpr int none = 32 * per;
	float v[per];

	__device__ Logits(const float* logits, int experts) {
#pragma unroll
		for (int j = 0; j < per; j++) {
			int e = j * 32 + threadIdx.x % 32;
			v[j] = e < experts ? __ldcg(logits + e) : 0;
		}
	}

	// choose leaves the experts that are chosen, by logits or by their sigmoids corrected, and their weights.
	template <bool corrected, class To>
	__device__ void choose(To& to, const Given& g, const Rule& r) const {
		unsigned left[per];
		int lane = threadIdx.x % 32, mine = 0;
#pragma unroll
		for (int j = 0; j < per; j++) left[j] = j * 32 + lane < g.experts ? key_of(corrected ? sigmoid(v[j]) + __ldg(g.correction + j * 32 + lane) : v[j]) : 0;
#pragma unroll 1
		for (int i = 0; i < g.chosen; i++) {
			int at = first(left, largest(left));
#pragma unroll
			for (int j = 0; j < per; j++) left[j] = at == j * 32 + lane ? 0 : left[j];
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
		for (int j = 0; j < per; j++) {
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
		for (int j = 0; j < per; j++)
			if (j * 32 + lane < experts) most = fmaxf(most, v[j]);
#pragma unroll
		for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
#pragma unroll
		for (int j = 0; j < per; j++)
			if (j * 32 + lane < experts) sum += expf(v[j] - most);
		sum = warp_sum(sum);
	}
	__device__ static unsigned largest(const unsigned (&keys)[per]) {
		unsigned most = keys[0];
#pragma unroll
		for (int j = 1; j < per; j++) most = max(most, keys[j]);
		return warp_largest(most);
	}

	// first returns where a key is.
	__device__ static int first(const unsigned (&keys)[per], unsigned key) {
		int at = none;
#pragma unroll
		for (int j = per - 1; j >= 0; j--)
			if (keys[j] == key) at = j * 32 + threadIdx.x % 32;
		return none - (int)warp_largest(none - at);
	}
};

// Keys are what experts are chosen by, as the router's kernel leaves it behind the row's digits, `ranked` or a multiple of that, those that
// there are not zeros: a warp has `ranked`, four a lane.
constexpr int keys_behind = 8;  // words

// warps_of returns how many warps rank so many experts, which have as many times `ranked` keys.
__device__ inline int warps_of(int experts) { return (experts + ranked - 1) / ranked; }

// row_words is how many words are left of a row of so many elements.
__device__ inline int row_words(int in) { return in + keys_behind + most_experts; }

struct Keys {
	uint4 v;

	__device__ Keys(uint4 v) : v(v) {}
	__device__ Keys(const u32* keys) {  // the first warp's are the first
		keys += threadIdx.x / 32 * ranked;
		asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(keys + threadIdx.x % 32 * 4) : "memory");
	}

	// kth leaves the expert of the kth largest, the first among equals.
	__device__ void kth(int* to, int k) const {
		u32 a = v.x, b = v.y, c = v.z, d = v.w, most;
		sort(a, b, c, d);
		bool alike = __any_sync(~0u, b && (a == b || b == c || c && c == d));
#pragma unroll 1
		for (int i = 0;; i++) {  // equal ones of lanes are one
			most = warp_largest(a);
			if (i == k) break;
			drop(a == most, a, b, c, d);
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
	// largest leaves the k + 1 largest, in order, equal ones as often as there are.
	__device__ void largest(u32* to, int k) const {
		u32 a = v.x, b = v.y, c = v.z, d = v.w;
		sort(a, b, c, d);
#pragma unroll 1
		for (int i = 0; i <= k; i++) {
			u32 most = warp_largest(a);
			bool first = one_of(a == most);
			if (first) to[i] = most;
			drop(first, a, b, c, d);
		}
	}
	// one_of reports whether the lane is the first for which something is so.
	__device__ static bool one_of(bool so) { return threadIdx.x % 32 == __ffs(__ballot_sync(~0u, so)) - 1; }
	// drop takes the largest of a lane's away, if so.
	__device__ static void drop(bool so, u32& a, u32& b, u32& c, u32& d) {
		if (so) a = b, b = c, c = d, d = 0;
	}
	__device__ static void sort(u32& a, u32& b) {
		u32 low = min(a, b);
		a = max(a, b), b = low;
	}
	__device__ static void sort(u32& a, u32& b, u32& c, u32& d) { sort(a, b), sort(c, d), sort(a, c), sort(b, d), sort(b, c); }
	// first returns which expert of the lane has a key, or `ranked`.
	__device__ static int first(uint4 keys, u32 key) {
		int at = keys.x == key ? 0 : keys.y == key ? 1 : keys.z == key ? 2 : keys.w == key ? 3 : ranked;
		return at == ranked ? ranked : threadIdx.x % 32 * 4 + at;
	}
};

// A Ranking is how the first warps of a block choose one of more than `ranked` experts. All threads pass two barriers between its parts, in this order, and one behind the last.
struct Ranking {
	static constexpr int most_warps = most_experts / ranked;
	u32 best[most_warps][32];  // of each warp
	u32 key;                   // that of the expert
	int before;                // experts in front of it that have the same key
	int found;

	// first leaves what each warp has that may be the kth largest.
	__device__ void first(const Keys& keys, int experts, int k) {
		int warp = threadIdx.x / 32;
		if (warp < warps_of(experts)) keys.largest(best[warp], k);
		if (threadIdx.x == 0) found = most_experts;
	}
	// second has the first warp find it among those.
	__device__ void second(int experts, int k) {
		int lane = threadIdx.x;
		if (lane >= 32) return;
		u32 left[most_warps];
#pragma unroll
		for (int w = 0; w < most_warps; w++) left[w] = w < warps_of(experts) && lane <= k ? best[w][lane] : 0;
		static_assert(most_warps == 4, "as they are sorted");
		u32 a = left[0], b = left[1], c = left[2], d = left[3], most, last = 0;
		Keys::sort(a, b, c, d);
		int alike = 0;
		for (int i = 0;; i++, last = most) {
			most = warp_largest(a);
			alike = i > 0 && last == most ? alike + 1 : 0;
			if (i == k) break;
			Keys::drop(Keys::one_of(a == most), a, b, c, d);
		}
		if (lane == 0) key = most, before = alike;
	}
	// third has each warp look for it.
	__device__ void third(const Keys& keys, const u32* all, int experts) {
		if (before) {
			if (threadIdx.x == 0) one_by_one(all, experts);
		} else if (threadIdx.x / 32 < warps_of(experts)) {
			int at = Keys::first(keys.v, key);
			if (at < ranked) atomicMin(&found, threadIdx.x / 32 * ranked + at);
		}
	}
	// one_by_one looks for one of equal ones.
	__device__ __noinline__ void one_by_one(const u32* all, int experts) {
		int e = 0;
		for (int n = before; e < experts - 1; e++)
			if (__ldcg(all + e) == key && n-- == 0) break;
		found = e;
	}
};

// Choosing is how experts are chosen: up to `ranked`, or more, by keys, which the router's kernel knows; or as any are.
// Code for other choices, though jumped over, costs 2 % of a step.
enum Choosing { by_key, by_keys, by_any };

// most_of returns how many experts there are at most.
__device__ constexpr int most_of(Choosing how) { return how == by_key ? ranked : most_experts; }

// choose_by_logits has one warp choose for its block, where experts are chosen by their logits alone, or by sigmoids that are corrected.
// The expert that all rows see is one more where all_too, which only `wide` kernels ask.
template <Choosing how, bool corrected, bool wide, class To>
__device__ inline void choose_by_logits(To& to, const Given& g, const Rule& r, bool all_too) {
	if (threadIdx.x < 32) {
		float gate = wide && all_too && g.gate ? __ldcg(g.gate) : 0;
		Logits<most_of(how) / 32>(g.logits, g.experts).template choose<corrected>(to, g, r);
		if constexpr (wide) __syncwarp();
		if (wide && all_too && threadIdx.x == 0) to.add_all(g.chosen, g.experts, g.gate, gate);
	}
	__syncthreads();
}

// choose has every block choose. The memory may be used for other things when all threads
// have passed another barrier.
template <bool weighs, class To>
__device__ inline void choose(To& to, void* memory, const Given& g, const Rule& r) {
	if (r.groups > 1 || r.score == sparse_mixer) {
		if (threadIdx.x < 32) rank_first(to, (float*)memory, g, r);
		__syncthreads();
	} else {
		count_ranks<weighs>(to, *(Counting*)memory, g, r);
	}
}
