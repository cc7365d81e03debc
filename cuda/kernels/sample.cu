// Chooses a column of each row of logits, as internal/sampling says.
//
// Four kernels, of which rows that are all greedy need the first, and rows without
// filters by number or share the first and the last. Blocks of 2048 columns, a row each of
// gridDim.y. The last block of each to finish does what needs all of them:
//
//	most    the largest logit, penalties taken off; greedy rows are done
//	bins    how many logits are how deep below it, and their probability: which bins a
//	        filter's limit can be in
//	select  the depths in those bins, and, by bisection, the limits themselves
//	draw    the best of the tokens kept
//
// Probabilities are integers, so that sums do not depend on the order of atomic
// operations. State is zero between calls.
//
// The depth of a token is how far its logit is below the largest, in units of the
// temperature.
#include "half.cuh"
#include "order.cuh"

using u32 = unsigned;
using u64 = unsigned long long;

constexpr int threads = 256;
constexpr int each = 8;               // columns of a thread
constexpr int columns = each * threads;  // of a block
constexpr int bins = 2048;            // of 1/64 each; the last one has all that is deeper
constexpr int bins_a_unit = 64;
constexpr int warps = threads / 32;
constexpr int ring_entries = 64;  // device.RingEntries

// Settings is a row of sampling.Settings.
struct Settings {
	float temperature, top_k, top_p, min_p, typical, repetition, frequency, presence;

	__device__ bool by_count(int cols) const { return top_k > 0 && top_k < cols; }
	__device__ bool by_share() const { return top_p > 0 && top_p < 1; }
	__device__ bool by_surprise() const { return typical > 0 && typical < 1; }
	__device__ bool selects(int cols) const { return by_count(cols) || by_share() || by_surprise(); }
};

struct State {
	u64 best;      // of most, then of draw: a number's place, and ~column
	int bad;       // largest of cols - column of columns that are not finite
	int finished;  // blocks
	int done;      // the row is chosen
	float top;     // the largest logit
	int first, last;         // bins that the list has
	u32 before;              // tokens in bins before
	u64 mass_before, mass;   // their probability, and that of all
	int listed;
	float limit, centre, width;
	u32 count[bins];
	u64 masses[bins];
};
constexpr int state_bytes = 24704;
static_assert(sizeof(State) <= state_bytes, "State");

// column returns this thread's ith column.
__device__ inline int column(int i) { return blockIdx.x * columns + i * threads + threadIdx.x; }

struct Row {
	const float* x;
	const int* seen;  // or null
	Settings s;
	State& state;
	int cols;

	__device__ Row(const float* x, const float* settings, const int* seen, unsigned char* state, int cols, int64 ldx)
		: x(x + blockIdx.y * ldx), seen(seen ? seen + (int64)blockIdx.y * cols : nullptr), s(((const Settings*)settings)[blockIdx.y]),
		  state(*(State*)(state + (int64)blockIdx.y * state_bytes)), cols(cols) {}

	// logits reads this thread's columns, all at once, and takes penalties off; past the end
	// there is anything. bad becomes the largest of cols - column of those not finite.
	__device__ void logits(float (&v)[each], int& bad) const {
		int n[each];
#pragma unroll
		for (int i = 0; i < each; i++) {
			int c = min(column(i), cols - 1);
			v[i] = x[c], n[i] = seen ? seen[c] : 0;
		}
		bad = 0;
#pragma unroll
		for (int i = 0; i < each; i++) {
			if (!isfinite(v[i])) bad = max(bad, cols - min(column(i), cols - 1));
			if (n[i] == 0) continue;
			if (s.repetition != 0) v[i] = v[i] > 0 ? __fdiv_rn(v[i], s.repetition) : __fmul_rn(v[i], s.repetition);
			v[i] = __fsub_rn(__fsub_rn(v[i], __fmul_rn((float)n[i], s.frequency)), s.presence);
		}
	}
	// depths reads how deep this thread's columns are.
	__device__ void depths(float (&v)[each]) const {
		int bad;
		logits(v, bad);
		float top = state.top, rate = __fdiv_rn(1, s.temperature);
#pragma unroll
		for (int i = 0; i < each; i++) v[i] = __fmul_rn(__fsub_rn(top, v[i]), rate);
	}
};

// place orders numbers as unsigned ones; no number has place 0.
__device__ inline u32 place(float v) {
	u32 b = __float_as_uint(v + 0.0f);
	return b >> 31 ? ~b : b | 0x80000000u;
}
__device__ inline float number(u32 place) { return __uint_as_float(place >> 31 ? place & 0x7fffffffu : ~place); }

__device__ inline u64 candidate(float v, int column) { return (u64)place(v) << 32 | (u32)~column; }
__device__ inline int column_of(u64 best) { return ~(u32)best; }

// warp_max and warp_sum return the largest number, and the sum, of a warp to each thread.
__device__ inline u64 warp_max(u64 x) {
#if __CUDA_ARCH__ >= 800
	u32 high = __reduce_max_sync(~0u, (u32)(x >> 32));
	return (u64)high << 32 | __reduce_max_sync(~0u, x >> 32 == high ? (u32)x : 0);
#else
	for (int step = 16; step > 0; step /= 2) x = max(x, __shfl_xor_sync(~0u, x, step));
	return x;
#endif
}
__device__ inline u64 warp_sum(u64 x) {
#if __CUDA_ARCH__ >= 800
	constexpr u32 part = (1 << 22) - 1;  // of which 32 add up to less than 32 bits
	u64 low = __reduce_add_sync(~0u, (u32)x & part), middle = __reduce_add_sync(~0u, (u32)(x >> 22) & part);
	return low + (middle << 22) + ((u64)__reduce_add_sync(~0u, (u32)(x >> 44)) << 44);
#else
	for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
	return x;
#endif
}

// offer has the state know the best candidate of a block.
__device__ inline void offer(State& s, u64 best) {
	__shared__ u64 bests[warps];
	best = warp_max(best);
	if (threadIdx.x % 32 == 0) bests[threadIdx.x / 32] = best;
	__syncthreads();
	if (threadIdx.x == 0) {
		for (int i = 1; i < warps; i++) best = max(best, bests[i]);
		if (best > 0) atomicMax(&s.best, best);
	}
}

// is_last reports, to every thread, whether this block of the row is the last one to
// get here; it then sees what the others have written.
__device__ inline bool is_last(State& s) {
	__shared__ bool last;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) last = atomicAdd(&s.finished, 1) == gridDim.x - 1;
	__syncthreads();
	__threadfence();
	if (last && threadIdx.x == 0) s.finished = 0;
	return last;
}

// Outcome is where a row's choice goes: out, and, unless they are null, its tokens once
// more, its position, which grows, and its next entry in the host's ring: the token, or -1
// minus a column that is not finite, below the entry's number.
struct Outcome {
	int *out, *next, *advanced, *ring, *numbers;
	int ring_rows, position, number;

	// The constructor reads what choose changes, early, which nobody else does.
	__device__ Outcome(int* out, int* next, int* advanced, int* ring, int* numbers, int ring_rows)
		: out(out), next(next), advanced(advanced), ring(ring), numbers(numbers), ring_rows(ring_rows),
		  position(advanced ? advanced[blockIdx.y] : 0), number(ring ? numbers[blockIdx.y] : 0) {}

	__device__ void choose(int* seen, int cols, int token, int bad) const {
		int row = blockIdx.y;
		out[row] = token;
		out[gridDim.y + row] = bad;
		if (next) next[row] = token;
		if (advanced) advanced[row] = position + 1;
		if (seen) seen[(int64)row * cols + token]++;
		if (!ring) return;
		u32 n = number;
		volatile u64* entry = (u64*)ring + (int64)(n % ring_entries) * ring_rows + row;
		*entry = (u64)n << 32 | (u32)(bad >= 0 ? -1 - bad : token);  // at once, so that the host sees both or neither
		numbers[row] = n + 1;
	}
};

extern "C" __global__ void __launch_bounds__(256) sample_most(
	int* out,               // [2, rows]
	int* next,              // [rows] or null
	int* advanced,          // [rows] or null
	int* ring,              // [ring_entries, ring_rows] of 64 bits, or null
	int* numbers,           // [rows], of the next entries
	int ring_rows,
	const float* x,         // [rows, cols], rows ldx elements apart
	const float* settings,  // [rows, 8]
	int* seen,              // [rows, cols] or null
	unsigned char* state,         // [rows, state_bytes]
	int cols, int64 ldx) {
	after_previous();
	Row row(x, settings, seen, state, cols, ldx);
	Outcome to(out, next, advanced, ring, numbers, ring_rows);
	u64 best = 0;
	int bad;
	float v[each];
	row.logits(v, bad);
#pragma unroll
	for (int i = 0; i < each; i++)
		if (column(i) < cols) best = max(best, candidate(v[i], column(i)));
	if (bad > 0) atomicMax(&row.state.bad, bad);
	offer(row.state, best);
	if (!is_last(row.state) || threadIdx.x > 0) return;
	State& s = row.state;
	best = *(volatile u64*)&s.best;
	bad = *(volatile int*)&s.bad;
	s.top = number(best >> 32);
	s.limit = s.width = __int_as_float(0x7f800000), s.centre = 0;
	if (row.s.min_p > 0) s.limit = -(float)log((double)row.s.min_p);
	s.done = bad > 0 || row.s.temperature == 0;
	s.best = 0, s.bad = 0;
	if (s.done) to.choose(seen, cols, bad > 0 ? 0 : column_of(best), bad > 0 ? cols - bad : -1);
}

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

extern "C" __global__ void __launch_bounds__(256) sample_bins(
	const float* x, const float* settings, int* seen, unsigned char* state, int cols, int64 ldx) {
	__shared__ u32 count[bins];
	__shared__ u64 masses[bins];
	u32* halves = (u32*)masses;  // [2, bins]: sums of the low and high 16 bits, as additions of 64 bits are slow there
	after_previous();
	Row row(x, settings, seen, state, cols, ldx);
	State& s = row.state;
	if (s.done || !row.s.selects(cols)) return;
	float depth[each];
	row.depths(depth);
	for (int i = threadIdx.x; i < bins; i += threads) count[i] = halves[i] = halves[bins + i] = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < each; i++) {
		int bin = bin_of(depth[i]);
		if (column(i) >= cols || bin == bins - 1) continue;  // nobody asks how many are in the last one, and they weigh nothing
		u32 m = mass(depth[i]);
		atomicAdd(&count[bin], 1);
		if (m > 0) atomicAdd(&halves[bin], m & 0xffff), atomicAdd(&halves[bins + bin], m >> 16);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < bins; i += threads) {
		u64 m = halves[i] + ((u64)halves[bins + i] << 16);
		if (count[i] > 0) atomicAdd(&s.count[i], count[i]);
		if (m > 0) atomicAdd(&s.masses[i], m);
	}
	if (is_last(s)) bound(row, count, masses);
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

extern "C" __global__ void __launch_bounds__(256) sample_select(
	const float* x, const float* settings, int* seen, unsigned char* state,
	float* list,  // [rows, cols]
	int cols, int64 ldx) {
	__shared__ int here, at;
	after_previous();
	Row row(x, settings, seen, state, cols, ldx);
	State& s = row.state;
	if (s.done || !row.s.selects(cols)) return;
	list += (int64)blockIdx.y * cols;
	float depth[each];
	bool listed[each];
	int n = 0, first = s.first, last = s.last;
	row.depths(depth);
	if (threadIdx.x == 0) here = 0;
	__syncthreads();
#pragma unroll
	for (int i = 0; i < each; i++) {
		int bin = bin_of(depth[i]);
		listed[i] = column(i) < cols && bin >= first && bin <= last;
		n += listed[i];
	}
	int place = n > 0 ? atomicAdd(&here, n) : 0;
	__syncthreads();
	if (threadIdx.x == 0) at = atomicAdd(&s.listed, here);
	__syncthreads();
	place += at;
#pragma unroll
	for (int i = 0; i < each; i++)
		if (listed[i]) list[place++] = depth[i];
	if (!is_last(s)) return;
	List all(list, *(volatile int*)&s.listed);
	settle(row, all);
	if (threadIdx.x == 0) s.listed = 0;
}

__device__ inline u64 mix(u64 z) {
	z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9ull;
	z = (z ^ z >> 27) * 0x94D049BB133111EBull;
	return z ^ z >> 31;
}

// log_exponential returns the logarithm of an exponentially distributed number.
__device__ inline float log_exponential(u64 row, int token) {
	u32 bits = mix(row + 0x9E3779B97F4A7C15ull * (u64)(token + 1)) >> 32;
	float u = ((float)bits + 0.5f) * 0x1p-32f;
	return logf(-log1pf(-u));
}

extern "C" __global__ void __launch_bounds__(256) sample_draw(
	int* out, int* next, int* advanced, int* ring, int* numbers, int ring_rows,
	const float* x,
	const int* pos,    // [rows]
	const float* settings,
	const int* seeds,  // [rows, 2]
	int* seen, unsigned char* state, int cols, int64 ldx) {
	after_previous();
	Row row(x, settings, seen, state, cols, ldx);
	State& s = row.state;
	if (s.done) return;
	Outcome to(out, next, advanced, ring, numbers, ring_rows);
	u64 seed = (u32)seeds[2 * blockIdx.y] | (u64)(u32)seeds[2 * blockIdx.y + 1] << 32;
	u64 key = mix(seed + 0x9E3779B97F4A7C15ull * (u64)(pos[blockIdx.y] + 1)), best = 0;
	float limit = s.limit, centre = s.centre, width = s.width;
	float depth[each];
	row.depths(depth);
#pragma unroll
	for (int i = 0; i < each; i++)
		if (int c = column(i); c < cols && depth[i] <= limit && fabsf(__fsub_rn(depth[i], centre)) <= width)
			best = max(best, candidate(-depth[i] - log_exponential(key, c), c));
	offer(s, best);
	if (!is_last(s) || threadIdx.x > 0) return;
	best = *(volatile u64*)&s.best;
	s.best = 0;
	to.choose(seen, cols, best > 0 ? column_of(best) : 0, -1);
}
