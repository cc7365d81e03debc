// Dense products by heads of few rows, each head by a matrix of its own: of x, whose heads have `in` columns and `beside` more, the
// first are multiplied, and the others are copied in front of what the matrix gives (latent attention, DeepSeek-V2,
// arXiv 2405.04434, section 2.1.2).
//
// A block has some of a head's outputs. A lane keeps eight words of 16 bytes of the matrix, which it asks for in front of the wait; some lanes,
// a power of two, share an output.
//
// Of single rows gemv_heads_keys does all that is in front of latent attention: blocks of their own turn what is beside, and
// normalize, turn and store the new key. gemv_heads_values does all behind it: it joins what blocks of attention have found.
#include "latent.cuh"
#include "order.cuh"

constexpr int warps = 4;       // of a block
constexpr int most = 8;        // rows of x of a block
constexpr int words = 8;       // of a lane
constexpr int most_in = 1024;  // columns
constexpr int threads = 32 * warps;

// dot8 returns the product of eight elements and eight others.
__device__ inline float dot8(uint4 a, const half* x) {
	Eight<half> v, u;
	v.words[0] = a, u.words[0] = *(const uint4*)x;
	float sum = 0;
#pragma unroll
	for (int e = 0; e < 8; e++) sum += widen(v.v[e]) * widen(u.v[e]);
	return sum;
}

// Matrices are those of heads: the matrix of head h from row first + h·step on.
struct Matrices {
	const half* w;  // [·, in]
	int out, in, first, step, lanes;
};

// Results are where columns of a head go: in its own `beside` and as many behind them as its matrix has rows.
struct Results {
	half* y;             // [rows, heads·(beside + out)], rows ld elements apart
	const half* places;  // of columns of y, or null
	int beside;
	int64 ld;

	__device__ half& at(int row, int column) const { return y[row * ld + (places ? (int)__half_as_ushort(places[column]) : column)]; }
};

// multiply multiplies the rows of a head that stage(r, staged) brings, of which there are some from `row` on.
template <int parts, class Stage>
__device__ inline void multiply(const Results& y, const Matrices& m, int head, int row, int rows, const Stage& stage) {
	constexpr int passes = words / parts;
	__shared__ __align__(16) half staged[most][most_in];
	int lane = threadIdx.x % 32, own = lane % m.lanes, at_once = 32 / m.lanes;
	int j = (blockIdx.x * warps + threadIdx.x / 32) * passes * at_once + lane / m.lanes;  // the first output
	const half* w = m.w + (int64)(m.first + head * m.step) * m.in;
	uint4 v[passes][parts];
#pragma unroll
	for (int p = 0; p < passes; p++)
#pragma unroll
		for (int i = 0; i < parts; i++) {
			int c = (i * m.lanes + own) * 8;
			v[p][i] = j + p * at_once < m.out && c < m.in ? *(const uint4*)(w + (int64)(j + p * at_once) * m.in + c) : make_uint4(0, 0, 0, 0);
		}
	after_previous();
	for (int r = 0; r < rows; r++) stage(row + r, staged[r]);
	__syncthreads();
#pragma unroll 1
	for (int r = 0; r < rows; r++) {
		float sums[passes] = {};
#pragma unroll
		for (int p = 0; p < passes; p++)
#pragma unroll
			for (int i = 0; i < parts; i++) {
				int c = (i * m.lanes + own) * 8;
				if (c < m.in) sums[p] += dot8(v[p][i], staged[r] + c);
			}
		for (int far = m.lanes / 2; far > 0; far /= 2)
#pragma unroll
			for (int p = 0; p < passes; p++) sums[p] += __shfl_xor_sync(~0u, sums[p], far);
		if (own > 0) continue;
#pragma unroll
		for (int p = 0; p < passes; p++)
			if (j + p * at_once < m.out) y.at(row + r, head * (y.beside + m.out) + y.beside + j + p * at_once) = __float2half_rn(sums[p]);
	}
}

// copy brings columns of a row to shared memory.
__device__ inline void copy(half* to, const half* from, int columns) {
	for (int c = threadIdx.x * 8; c < columns; c += threads * 8) *(uint4*)(to + c) = *(const uint4*)(from + c);
}

template <int parts>  // words of an output that a lane has
__device__ void gemv_heads(const Results& y, const half* x, const Matrices& m, int rows, int64 ldx) {
	int row = blockIdx.z * most, width = m.in + y.beside;
	multiply<parts>(y, m, blockIdx.y, row, min(rows - row, most), [&](int r, half* staged) {
		const half* from = x + r * ldx + blockIdx.y * width;
		copy(staged, from, m.in);
		if (blockIdx.x > 0) return;
		for (int c = threadIdx.x; c < y.beside; c += threads) y.y[r * y.ld + blockIdx.y * (y.beside + m.out) + c] = from[m.in + c];
	});
}

#define GEMV_HEADS(name, parts)                                                                                                                       \
	extern "C" __global__ void __launch_bounds__(threads) name(half* y, const half* x, const half* w, int rows, int out, int in, int beside, int first, \
	                                                           int step, int lanes, int64 ldy, int64 ldx) {                                            \
		gemv_heads<parts>({y, nullptr, beside, ldy}, x, {w, out, in, first, step, lanes}, rows, ldx);                                                       \
	}

GEMV_HEADS(gemv_heads_1, 1)
GEMV_HEADS(gemv_heads_2, 2)
GEMV_HEADS(gemv_heads_4, 4)

// turn_beside turns what is beside the columns that are multiplied, of all heads of a row, by a share of the threads of some blocks.
__device__ inline void turn_beside(const Results& y, const half* x, const Matrices& m, const Turns& turns, int row, int heads, int block, int blocks, int pos) {
	int units = turns.pairs + max(0, y.beside - 2 * turns.pairs);
	for (int i = block * threads + threadIdx.x; i < heads * units; i += blocks * threads) {
		int head = i / units, unit = i % units, c = unit + turns.pairs;
		const half* from = x + head * (m.in + y.beside) + m.in;
		half* to = y.y + row * y.ld + head * (y.beside + m.out);
		if (unit < turns.pairs)
			turns.put(to, from, unit, turns.at(unit, pos));
		else
			to[c] = from[c];
	}
}

// gemv_heads_keys makes queries, and stores keys, of single rows.
extern "C" __global__ void __launch_bounds__(threads) gemv_heads_keys(
	half* y, const half* x, const half* w, const half* kv, half* pages, const float* scale, const float* freqs, const int* pos, const int* seq, const int* table, int* fault,
	int rows, int heads, int out, int in, int beside, int lanes, int latent, int pairs, int interleaved, int sequences, int table_cols, int count, int page_rows,
	int64 ldy, int64 ldx, int64 ldkv, float turn_scale, float eps, float offset) {
	Results to = {y, nullptr, beside, ldy};
	Matrices m = {w, out, in, 0, out, lanes};
	int row = blockIdx.z * most, width = in + beside, last = min(rows, row + most);
	if (blockIdx.y < heads) {
		multiply<1>(to, m, blockIdx.y, row, last - row, [&](int r, half* staged) { copy(staged, x + r * ldx + blockIdx.y * width, in); });
		return;
	}
	after_previous();
	Turns turns = {freqs, pairs, interleaved, turn_scale};
	Newest newest = {kv, scale, pos, seq, table, pages, fault, latent, sequences, table_cols, count, page_rows, ldkv, eps, offset};
	int apart = gridDim.x > 1;  // the first block has keys alone then
	for (int r = row; r < last; r++) {
		if (blockIdx.x == 0) newest.put<threads>(r, beside, turns);
		if (blockIdx.x >= apart) turn_beside(to, x + r * ldx, m, turns, r, heads, blockIdx.x - apart, gridDim.x - apart, pos[r]);
	}
}

// join brings what blocks have found of a row's head to shared memory.
__device__ inline void join(half* staged, const Found& f, int row, int head, int parts) {
	if (parts == 1) {
		copy(staged, f.means + f.of(row, head, 0) * f.latent, f.latent);
		return;
	}
	__shared__ float factors[most_parts], sums[threads * elements];
	constexpr int each = most_parts / 32;
	int64 at = f.of(row, head, 0);
	__syncthreads();  // what is shared is read of the row before
	if (threadIdx.x < 32) {
		float2 t[each];
		float top = no_score, sum = 0;
#pragma unroll
		for (int i = 0; i < each; i++) {
			int part = threadIdx.x + 32 * i;
			t[i] = part < parts ? *(const float2*)(f.totals + 2 * (at + part)) : make_float2(no_score, 0);
			top = fmaxf(top, t[i].x);
		}
		for (int step = 1; step < 32; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
#pragma unroll
		for (int i = 0; i < each; i++) t[i].y *= exp2f(t[i].x - top), sum += t[i].y;
		sum = warp_sum(sum);
#pragma unroll
		for (int i = 0; i < each; i++) factors[threadIdx.x + 32 * i] = t[i].y / sum;
	}
	__syncthreads();
	int columns = f.latent / elements, groups = threads / columns, group = threadIdx.x / columns;  // each has some of the parts
	if (group < groups) {
		float all[elements] = {};
		const half* from = f.means + at * f.latent + threadIdx.x % columns * elements;
#pragma unroll 16
		for (int i = group; i < parts; i += groups) {
			Eight<half> v;
			v.words[0] = *(const uint4*)(from + (int64)i * f.latent);
#pragma unroll
			for (int e = 0; e < elements; e++) all[e] += factors[i] * widen(v.v[e]);
		}
#pragma unroll
		for (int e = 0; e < elements; e++) sums[threadIdx.x * elements + e] = all[e];
	}
	__syncthreads();
	for (int c = threadIdx.x; c < f.latent; c += threads) {
		float all = 0;
		for (int g = 0; g < groups; g++) all += sums[g * f.latent + c];
		staged[c] = __float2half_rn(all);
	}
}

// Names are of the words of an output that a lane has.
#define GEMV_HEADS_VALUES(name, own)                                                                                                            \
	extern "C" __global__ void __launch_bounds__(threads)                                                                                     \
	name(half* y, const half* places, const half* w, const half* means, const float* totals, const int* pos, int rows, int heads, int of, int out, int in, \
	     int first, int step, int lanes, int window, int64 ldy) {                                                                               \
		Found found = {(half*)means, (float*)totals, heads, of, in};                                                                               \
		int row = blockIdx.z * most;                                                                                                                \
		multiply<own>({y, places, 0, ldy}, {w, out, in, first, step, lanes}, blockIdx.y, row, min(rows - row, most),                                 \
		                [&](int r, half* staged) { join(staged, found, r, blockIdx.y, Divided(pos[r], window).parts(of)); });                             \
	}

GEMV_HEADS_VALUES(gemv_heads_values_1, 1)
GEMV_HEADS_VALUES(gemv_heads_values_2, 2)
