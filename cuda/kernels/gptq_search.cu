// Chooses the scales of a group: for each candidate of its largest scale every
// column takes the code with the smallest weighted squared error of its rows, the
// smallest code among equals; the candidate with the smallest sum over columns wins,
// the first among equals. Errors are sums in the order of rows, each operation
// rounded, as the CPU's are.
//
// A block has 32 columns, a lane each, which it keeps in shared memory; its warps
// share the candidates. A lane tries the codes of a candidate from the largest scale
// down, and gives the candidate up once the largest weight of each quarter of the rows alone,
// out of reach of the scales that are left, cost more than the best so far. It goes on to its next code
// by itself, two candidates at a time. The last block of a group adds the sums of all,
// in order.
#include "coding.cuh"
#include "order.cuh"

constexpr int candidates = 26;
constexpr int columns = 32;
constexpr int quarters = 4;  // of rows
constexpr float below = 0.40f, above = 1.15f;  // bounds of scales around the column's own
constexpr float least_share = 1 - 1e-4f;       // how much less than the real minimum a rounded sum can be

// Table is what the blocks of a group have in common.
struct Table {
	float scales[candidates][16], inverses[candidates][16];
	half largest[candidates];
	float least[candidates][columns];
	float2 peaks[quarters][columns];  // the largest weight and its importance
	unsigned char codes[candidates][columns];
	unsigned char bounds[candidates][columns];  // first code, and last times 16
	double parts[candidates][4];
	int order;
};

__device__ inline float infinity() { return __int_as_float(0x7f800000); }

// Shares are what candidates of the largest scale are of top: 0.40 to 1.15.
struct Shares {
	float of[candidates];

	__device__ constexpr Shares() : of() {
		for (int i = 0; i < candidates; i++) of[i] = (float)(0.40 + 0.75 * i / (candidates - 1));
	}
};
__constant__ const Shares shares;

// largest_of returns candidate i of the largest scale, no more than makes codes that fp16
// cannot hold.
__device__ inline half largest_of(int i, float top, float zero) {
	return __float2half_rn(fminf(__fmul_rn(shares.of[i], top), 65504.0f / zero));
}

// Staged is a column's weights and their importance in shared memory, by four rows;
// Direct is the same where they are. Both begin with the first row.
struct Staged {
	const float4 *w, *m;

	__device__ void four(int r, float4& weight, float4& importance) const { weight = w[r * columns], importance = m[r]; }
	__device__ void skip(int rows) { w += rows / 4 * columns, m += rows / 4; }
};

struct Direct {
	const float *w, *m;
	int n;

	__device__ void four(int r, float4& weight, float4& importance) const {
		const float* p = w + (int64)r * 4 * n;
		weight = make_float4(p[0], p[n], p[2 * (int64)n], p[3 * (int64)n]);
		importance = make_float4(m[4 * r], m[4 * r + 1], m[4 * r + 2], m[4 * r + 3]);
	}
	__device__ void skip(int rows) { w += (int64)rows * n, m += rows; }
};

constexpr int unrolled = 16;  // rows

// peak returns the weight of the largest magnitude among some rows, a multiple of eight, and
// its importance.
template <class Rows>
__device__ inline float2 peak(Rows rows, int count) {
	float2 most = {};
	auto take = [&](float w, float m) {
		if (!(fabsf(w) < fabsf(most.x))) most = make_float2(w, m);
	};
	for (int r = 0; r < count; r += 8, rows.skip(8))
#pragma unroll
		for (int i = 0; i < 2; i++) {
			float4 w, m;
			rows.four(i, w, m);
			take(w.x, m.x), take(w.y, m.y), take(w.z, m.z), take(w.w, m.w);
		}
	return most;
}

// Peaks are the largest weights of a column's quarters.
struct Peaks {
	float magnitude[quarters], importance[quarters];
	float reach[quarters];  // times a scale: what the codes reach

	__device__ Peaks(const Table& t, int lane, float zero) {
#pragma unroll
		for (int q = 0; q < quarters; q++) {
			float2 p = t.peaks[q][lane];
			magnitude[q] = fabsf(p.x), importance[q] = least_share * p.y, reach[q] = p.x < 0 ? zero : zero - 1;
		}
	}
	__device__ float largest() const {
		float most = magnitude[0];
#pragma unroll
		for (int q = 1; q < quarters; q++) most = fmaxf(most, magnitude[q]);
		return most;
	}
	// cost returns less than what scales up to the given one cost.
	__device__ float cost(float scale) const {
		float sum = 0;
#pragma unroll
		for (int q = 0; q < quarters; q++) {
			float over = fmaxf(magnitude[q] - reach[q] * scale, 0.0f);
			sum += importance[q] * over * over;
		}
		return sum;
	}
};

// bounds_of returns the first and the last code whose scales are within bounds; it
// looks around where they would be without rounding.
__device__ inline unsigned char bounds_of(const float (&scales)[16], float base) {
	float lower = __fmul_rn(below, base), upper = __fmul_rn(above, base), unit = 256 / scales[15];
	int first = min(max((int)sqrtf(lower * unit), 0), 15), last = min(max((int)sqrtf(upper * unit), 0), 15);
	while (first < 15 && !(scales[first] >= lower)) first++;
	while (first > 0 && scales[first - 1] >= lower) first--;
	while (last < 15 && !(scales[last + 1] > upper)) last++;
	while (last > first && scales[last] > upper) last--;
	return first | max(last, first) << 4;
}

// Way is one of a lane's ways through the candidates of its column: every step'th
// from the first on.
struct Way {
	int candidate, step, first, code, best;
	float least, scale, inverse, error;
	bool done;

	__device__ void begin(const Table& t, int lane, int from, int by) {
		candidate = from, step = by, done = from >= candidates;
		scale = inverse = error = least = 0;
		if (!done) enter(t, lane);
	}

	// enter begins with a candidate.
	__device__ void enter(const Table& t, int lane) {
		int b = t.bounds[candidate][lane];
		best = first = b & 15, code = b >> 4, least = infinity();
		aim(t);
	}
	__device__ void aim(const Table& t) { scale = t.scales[candidate][code], inverse = t.inverses[candidate][code], error = 0; }

	// next turns to the next code that may be better.
	__device__ void next(Table& t, const Peaks& peaks, int lane) {
		if (done) return;
		if (error <= least) least = error, best = code;
		if (code > first) {
			code--;
			aim(t);
			if (!(peaks.cost(scale) > least)) return;
		}
		t.least[candidate][lane] = least, t.codes[candidate][lane] = best;
		candidate += step;
		done = candidate >= candidates;
		if (!done) enter(t, lane);
	}

	// add adds the error of a weight. A code times a scale is exact, so that the
	// subtraction rounds once either way.
	__device__ void add(float w, float m, float low, float high) {
		float q = __fadd_rn(__fmul_rn(w, inverse), rounder);
		q = __fsub_rn(fminf(fmaxf(q, low), high), rounder);
		float e = __fmaf_rn(-q, scale, w);
		error = __fadd_rn(error, __fmul_rn(__fmul_rn(m, e), e));
	}
};

// look goes both ways of a lane until they end: what it reads of the rows serves
// both.
template <class Rows>
__device__ void look(Table& t, const Rows& rows, int count, float zero, const Peaks& peaks, int lane, Way& a, Way& b) {
	float low = rounder - zero, high = rounder + zero - 1;
	while (__any_sync(~0u, !a.done || !b.done)) {
		Rows at = rows;
#pragma unroll 1
		for (int i = 0; i < count; i += unrolled) {
#pragma unroll
			for (int r = 0; r < unrolled / 4; r++) {
				float4 w, m;
				at.four(r, w, m);
				a.add(w.x, m.x, low, high), b.add(w.x, m.x, low, high);
				a.add(w.y, m.y, low, high), b.add(w.y, m.y, low, high);
				a.add(w.z, m.z, low, high), b.add(w.z, m.z, low, high);
				a.add(w.w, m.w, low, high), b.add(w.w, m.w, low, high);
			}
			at.skip(unrolled);
		}
		a.next(t, peaks, lane);
		b.next(t, peaks, lane);
	}
}

// prepare makes the table of scales.
__device__ void prepare(Table& t, float top, float zero) {
	for (int i = threadIdx.x; i < candidates * 16; i += blockDim.x) {
		half largest = largest_of(i / 16, top, zero);
		float scale = scale_of(i % 16, largest);
		t.scales[i / 16][i % 16] = scale;
		t.inverses[i / 16][i % 16] = scale != 0 ? __frcp_rn(scale) : 0;
		if (i % 16 == 0) t.largest[i / 16] = largest;
	}
}

// finish writes what the block has found and, in the group's last block, the choice.
__device__ void finish(const Step& s, Table& t) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32, blocks = s.n / columns;
	for (int c = warp; c < candidates; c += warps) {
		double sum = t.least[c][lane];
		for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
		if (lane == 0) s.sums[(int64)blockIdx.x * candidates + c] = sum;
		s.chosen[(int64)c * s.n + blockIdx.x * columns + lane] = t.codes[c][lane];
	}
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) t.order = atomicAdd(s.count, 1);
	__syncthreads();
	if (t.order != blocks - 1) return;
	__threadfence();
	for (int i = threadIdx.x; i < candidates * 4; i += blockDim.x) {
		double sum = 0;
#pragma unroll 8
		for (int b = i % 4; b < blocks; b += 4) sum += __ldcg(s.sums + (int64)b * candidates + i / 4);
		t.parts[i / 4][i % 4] = sum;
	}
	__syncthreads();
	int best = 0;
	double least = infinity();
	for (int c = 0; c < candidates; c++) {
		double sum = (t.parts[c][0] + t.parts[c][1]) + (t.parts[c][2] + t.parts[c][3]);
		if (sum < least) best = c, least = sum;
	}
	for (int i = threadIdx.x; i < s.n; i += blockDim.x) s.scales[i] = __ldcg(s.chosen + (int64)best * s.n + i);
	if (threadIdx.x == 0) *s.largest = t.largest[best], *s.count = 0;
}

template <class Rows>
__device__ void search(const Step& s, Table& t, const Rows& rows) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	float zero = 1 << (s.bits - 1);
	for (int q = warp; q < quarters; q += warps) {
		Rows part = rows;
		part.skip(q * (s.rows / quarters));
		t.peaks[q][lane] = peak(part, s.rows / quarters);
	}
	__syncthreads();
	const Peaks peaks(t, lane, zero);
	float base = __fdiv_rn(peaks.largest(), zero - 0.5f);
	for (int c = warp; c < candidates; c += warps) t.bounds[c][lane] = bounds_of(t.scales[c], base);
	__syncwarp();
	Way a, b;
	a.begin(t, lane, warp, 2 * warps);
	b.begin(t, lane, warp + warps, 2 * warps);
	look(t, rows, s.rows, zero, peaks, lane, a, b);
}

template <bool staged>
__device__ void search(const void* list, const float* importance) {
	extern __shared__ float4 memory[];
	__shared__ Table t;
	after_previous();
	const Step s = ((const Step*)list)[blockIdx.y];
	int column = blockIdx.x * columns;
	if (column >= s.n) return;
	const float *w = s.panel + (int64)s.before * s.n + column, *m = importance + s.row;
	float zero = 1 << (s.bits - 1);
	prepare(t, __fdiv_rn(__uint_as_float(__ldcg(s.top)), zero - 0.5f), zero);
	if (staged) {
		float* to = (float*)memory;
		for (int i = threadIdx.x; i < s.rows * columns; i += blockDim.x) {
			int r = i / columns, c = i % columns;
			to[(r / 4 * columns + c) * 4 + r % 4] = w[(int64)r * s.n + c];
		}
		to += s.rows * columns;
		for (int r = threadIdx.x; r < s.rows; r += blockDim.x) to[r] = m[r];
		__syncthreads();
		search(s, t, Staged{memory + threadIdx.x % 32, memory + s.rows * columns / 4});
	} else {
		__syncthreads();
		search(s, t, Direct{w + threadIdx.x % 32, m, s.n});
	}
	__syncthreads();
	finish(s, t);
}

#define SEARCH(name, staged) \
	extern "C" __global__ void name(const void* list, const float* importance) { search<staged>(list, importance); }

SEARCH(gptq_search_staged, true)
SEARCH(gptq_search_direct, false)
