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
#include "order.cuh"
#include "sample_limits.cuh"

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
