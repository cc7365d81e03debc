// A row of logits that a column is chosen of, as a block of its columns sees it, and where the
// choice goes (sample.cu).
#pragma once

#include "half.cuh"

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
