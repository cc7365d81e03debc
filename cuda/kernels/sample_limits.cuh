// The limits of filters by number and share, and of the typical: by bins of depths first, and
// then, by bisection, among the depths of some bins (sample.cu).
#pragma once

#include "sample_row.cuh"

// mass is a probability relative to that of the most likely token, in units of 2^-31.
__device__ inline u64 mass(float depth) { return (u64)(expf(-depth) * 2147483648.0f); }

__device__ inline int bin_of(float depth) { return depth < (float)bins / bins_a_unit ? (int)(depth * bins_a_unit) : bins - 1; }

// block_sum returns the sum over a block to each thread.
__device__ inline u64 block_sum(u64 x) {
	__shared__ u64 parts[warps];
	x = warp_sum(x);
	__syncthreads();
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
	__syncthreads();
	x = 0;
	for (int i = 0; i < warps; i++) x += parts[i];
	return x;
}

// reaching returns, to every thread, the bin with which a running sum over bins
// reaches what is needed, at the latest the last one; before is the sum before it.
template <class T>
__device__ int reaching(const T* values, u64 need, u64& before) {
	__shared__ u64 sums[warps];
	__shared__ u64 found_before;
	__shared__ int found;
	constexpr int run = bins / threads;
	u64 own = 0;
	for (int i = 0; i < run; i++) own += values[threadIdx.x * run + i];
	u64 sum = own;  // to the end of this thread's, first of the warp
	for (int step = 1; step < 32; step *= 2) {
		u64 before = __shfl_up_sync(~0u, sum, step);
		if (threadIdx.x % 32 >= step) sum += before;
	}
	__syncthreads();
	if (threadIdx.x % 32 == 31) sums[threadIdx.x / 32] = sum;
	if (threadIdx.x == 0) found = bins - 1, found_before = 0;
	__syncthreads();
	for (int i = 0; i < threadIdx.x / 32; i++) sum += sums[i];
	sum -= own;
	if (sum < need && sum + own >= need || threadIdx.x == threads - 1 && sum + own < need)
		for (int i = 0; i < run; i++) {
			u64 v = values[threadIdx.x * run + i];
			if (sum + v >= need || i == run - 1) {
				found = threadIdx.x * run + i, found_before = sum;
				break;
			}
			sum += v;
		}
	__syncthreads();
	before = found_before;
	return found;
}

__device__ inline u64 share_of(float p, u64 sum) { return (u64)ceil((double)p * (double)sum); }

// bound finds the bins that limits can be in, and takes the sums of those before.
__device__ void bound(Row& row, u32* count, u64* masses) {
	State& s = row.state;
	constexpr int run = bins / threads;
	u32 n[run];
	u64 m[run], all = 0;
#pragma unroll
	for (int i = 0; i < run; i++) {
		int bin = i * threads + threadIdx.x;
		n[i] = __ldcg(&s.count[bin]), m[i] = __ldcg(&s.masses[bin]);
	}
#pragma unroll
	for (int i = 0; i < run; i++) {
		int bin = i * threads + threadIdx.x;
		count[bin] = n[i], masses[bin] = m[i];
		s.count[bin] = 0, s.masses[bin] = 0;
		all += m[i];
	}
	all = block_sum(all);
	int last = bins - 1, first = 0;
	bool by_count = row.s.by_count(row.cols), by_share = row.s.by_share();
	u64 before = 0;
	if (by_count) last = reaching(count, (u64)row.s.top_k, before);
	if (by_share) last = min(last, reaching(masses, share_of(row.s.top_p, all), before));
	if (by_count != by_share && !row.s.by_surprise()) first = last;
	if (first == 0) before = 0;
	if (threadIdx.x == 0) s.first = first, s.last = last, s.before = by_count ? before : 0, s.mass_before = by_share ? before : 0, s.mass = all;
}

// List is the depths that a limit may be at, and what they weigh: each thread has some of
// them by itself, and what is more than that is in memory. If there are so few that one
// warp has them all, every warp does, and none waits for another.
struct List {
	const float* x;
	int n;
	bool few;
	float own[each];
	u32 weight[each];

	__device__ List(const float* x, int n) : x(x), n(n), few(n <= 32 * each) {
#pragma unroll
		for (int i = 0; i < each; i++) {
			int at = few ? i * 32 + threadIdx.x % 32 : i * threads + threadIdx.x;
			own[i] = at < n ? __ldcg(&x[at]) : __int_as_float(0x7fffffff);  // no number is within a limit
			weight[i] = at < n ? mass(own[i]) : 0;
		}
	}
	__device__ u64 total(u64 x) const { return few ? warp_sum(x) : block_sum(x); }

	template <class F>
	__device__ void for_each(F f) const {
#pragma unroll
		for (int i = 0; i < each; i++) f(own[i], weight[i]);
		for (int i = each * threads + threadIdx.x; i < n; i += threads) {
			float depth = __ldcg(&x[i]);
			f(depth, (u32)mass(depth));
		}
	}
	// sum returns what the elements within a limit add up to: their number or, weighed,
	// their probability as far as they are not deeper than most. away measures from
	// a centre.
	__device__ u64 sum(u32 limit, bool weighed, float centre, bool away, float most) const {
		u64 sum = 0;
		for_each([&](float depth, u32 weight) {
			float v = away ? fabsf(__fsub_rn(depth, centre)) : depth;
			if (__float_as_uint(v) <= limit && depth <= most) sum += weighed ? weight : 1;
		});
		return total(sum);
	}
	// smallest bisects for the smallest limit from lo on with which the sum reaches
	// what is needed.
	__device__ float smallest(u64 need, u32 lo, u32 hi, bool weighed, float centre, bool away, float most) const {
		while (lo < hi) {
			u32 mid = lo + (hi - lo) / 2;
			if (sum(mid, weighed, centre, away, most) >= need)
				hi = mid;
			else
				lo = mid + 1;
		}
		return __uint_as_float(lo);
	}
};

constexpr u32 infinite = 0x7f800000;

// mean returns the average depth, weighed by probability.
__device__ float mean(const List& list, float limit) {
	constexpr int steps = 1 << 12;
	u64 sum = 0, all = 0;
	list.for_each([&](float depth, u32 weight) {
		u64 w = depth <= limit ? weight >> 8 : 0;
		if (w > 0) sum += w * (u64)(depth * steps), all += w;
	});
	sum = list.total(sum), all = list.total(all);
	return (float)((double)sum / (double)all / steps);
}

// settle finds the limits.
__device__ void settle(Row& row, const List& list) {
	State& s = row.state;
	const float inf = __uint_as_float(infinite);
	u32 lo = __float_as_uint((float)s.first / bins_a_unit), hi = s.last == bins - 1 ? infinite : __float_as_uint((float)(s.last + 1) / bins_a_unit);
	float limit = inf, centre = 0, width = inf;
	if (row.s.by_count(row.cols)) limit = list.smallest((u64)row.s.top_k - s.before, lo, hi, false, 0, false, inf);
	if (row.s.by_share()) {
		u64 all = row.s.by_count(row.cols) ? list.sum(infinite, true, 0, false, limit) : s.mass;
		limit = list.smallest(share_of(row.s.top_p, all) - s.mass_before, lo, hi, true, 0, false, limit);
	}
	limit = fminf(limit, s.limit);
	if (row.s.by_surprise()) {
		centre = mean(list, limit);
		u64 all = list.sum(infinite, true, 0, false, limit);
		width = list.smallest(share_of(row.s.typical, all), 0, infinite, true, centre, true, limit);
	}
	if (threadIdx.x == 0) s.limit = limit, s.centre = centre, s.width = width;
}
