// Latent attention: y = softmax(scale·q·Kᵀ)·V by heads that all share one head of keys,
// the last `latent` columns of which are the values (DeepSeek-V2, arXiv 2405.04434,
// section 2.1.2, in its absorbed form).
//
// As all heads of all rows of a run read the same keys, a block takes queries by their
// number, row·heads + head: 16 for each pair of its warps. Of each 32 keys, which pass
// through shared memory, the warps of a pair multiply half, and then half of the
// columns of the values by all weights. The positions are divided among `splits`
// blocks, by the last row's position; attend_join.cu joins what they find.
#include "attend.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "quad.cuh"

constexpr int most_dim = 576, most_latent = 512;
constexpr int padding = 8;  // of a row in shared memory
constexpr int stride = most_dim + padding;
constexpr int keys = 32;    // at a time
constexpr int weights_stride = keys + padding;
constexpr int queries = 16;  // of a pair of warps

// Task is what the kernel is given.
struct Task {
	half* y;        // [rows, heads·latent], rows ldy elements apart
	float* out;     // [rows, heads, splits, latent], or null: there is one split
	float* stats;   // [rows, heads, splits, 2]: largest score times log2(e), sum of weights
	const half* q;  // [rows, heads·dim], rows ldq elements apart
	const int* pos;  // [rows]
	const int* seq;  // [rows]
	int span, heads, dim, latent;
	int64 ldy, ldq;
	Scoring how;
	int window;
};

// Shared is the shared memory of a block.
template <int pairs, int stages>
struct Shared {
	half q[pairs * queries][stride], k[stages][keys][stride];
	half weights[pairs * queries][weights_stride];
	float top[2][pairs * queries];  // of a tile, by the warps of a pair
};

// fill copies rows of `dim` halves, and zeros up to a multiple of 16 columns; source
// says where row r is, or null for zeros.
template <int threads, class Source>
__device__ inline void fill(half (*to)[stride], int rows, int dim, Source source) {
	int chunks = (dim + 15) / 16 * 2;
	for (int i = threadIdx.x; i < rows * chunks; i += threads) {
		int r = i / chunks, at = i % chunks * 8;
		const half* from = source(r);
		bool there = from && at < dim;
		copy16(&to[r][at], there ? from + at : (const half*)to, there);
	}
}

// State is that of a warp: of queries g and g + 8 of its pair, g = lane/4, the sums of
// half of the values' columns, and of the weights of its half of the keys.
struct State {
	float out[most_latent / 16][4] = {}, top[2] = {no_score, no_score}, sum[2] = {0, 0}, factor[2];
	int own[2];  // positions of the queries
};

// score returns the products of a pair's queries with the warp's half of the keys.
template <int pairs, int stages>
__device__ inline void score(float (&s)[2][4], const Shared<pairs, stages>& m, const half (*k)[stride], int dim) {
	int lane = threadIdx.x % 32, pair = threadIdx.x / 64, side = threadIdx.x / 32 % 2;
	const half *q = &m.q[pair * queries + lane % 16][lane / 16 * 8], *key = &k[side * 16 + lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8];
#pragma unroll 4
	for (int at = 0; at < dim; at += 16) {
		u32 a[4], b[4];
		ldmatrix(a, q + at);
		ldmatrix(b, key + at);
		u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
		mma(s[0], a, low);
		mma(s[1], a, high);
	}
}

// weigh turns a tile's scores into weights, in shared memory.
template <int pairs, int stages>
__device__ inline void weigh(State& state, Shared<pairs, stages>& m, float (&s)[2][4], const Task& t, int from, int end) {
	int lane = threadIdx.x % 32, pair = threadIdx.x / 64, side = threadIdx.x / 32 % 2, row = pair * queries + lane / 4;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float most = no_score;
#pragma unroll
		for (int j = 0; j < 2; j++)
#pragma unroll
			for (int e = 2 * h; e < 2 * h + 2; e++) {
				int p = from + side * 16 + 8 * j + lane % 4 * 2 + e % 2;
				bool seen = p < end && p <= state.own[h] && (t.window <= 0 || p > state.own[h] - t.window);
				s[j][e] = seen ? capped(s[j][e] * state.factor[h], t.how.cap) * log2e : no_score;
				most = fmaxf(most, s[j][e]);
			}
		most = quad_max(most);
		if (lane % 4 == 0) m.top[side][row + 8 * h] = most;
	}
	__syncthreads();
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float most = fmaxf(state.top[h], fmaxf(m.top[0][row + 8 * h], m.top[1][row + 8 * h])), shrink = exp2f(state.top[h] - most), part = 0;
#pragma unroll
		for (int j = 0; j < 2; j++) {
			float a = s[j][2 * h] <= no_score ? 0 : exp2f(s[j][2 * h] - most), b = s[j][2 * h + 1] <= no_score ? 0 : exp2f(s[j][2 * h + 1] - most);
			part += a + b;
			*(u32*)&m.weights[row + 8 * h][side * 16 + 8 * j + lane % 4 * 2] = pack(a, b);
		}
		state.sum[h] = state.sum[h] * shrink + part, state.top[h] = most;
		if (shrink != 1)
#pragma unroll
			for (int j = 0; j < most_latent / 16; j++) state.out[j][2 * h] *= shrink, state.out[j][2 * h + 1] *= shrink;
	}
	__syncthreads();
}

// add adds a tile's weighted values.
template <int pairs, int stages>
__device__ inline void add(State& state, const Shared<pairs, stages>& m, const half (*v)[stride], const Task& t) {
	int lane = threadIdx.x % 32, pair = threadIdx.x / 64, side = threadIdx.x / 32 % 2;
	int first = side * most_latent / 2;
#pragma unroll
	for (int i = 0; i < keys / 16; i++) {
		u32 a[4];
		ldmatrix(a, &m.weights[pair * queries + lane % 16][16 * i + lane / 16 * 8]);
#pragma unroll
		for (int j = 0; j < most_latent / 32; j++) {
			if (first + 16 * j >= t.latent) break;
			u32 b[4];
			ldmatrix_trans(b, &v[16 * i + lane % 16][t.dim - t.latent + first + 16 * j + lane / 16 * 8]);
			u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
			mma(state.out[2 * j], a, low);
			mma(state.out[2 * j + 1], a, high);
		}
	}
}

// write stores the result of a pair's queries, or what the split has found.
template <int pairs, int stages>
__device__ inline void write(State& state, Shared<pairs, stages>& m, const Task& t, int first, int count, int row0) {
	int lane = threadIdx.x % 32, pair = threadIdx.x / 64, side = threadIdx.x / 32 % 2;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float part = quad_sum(state.sum[h]);
		if (lane % 4 == 0) m.top[side][pair * queries + lane / 4 + 8 * h] = part;
	}
	__syncthreads();
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int i = pair * queries + lane / 4 + 8 * h, at = (first + i) % t.heads;
		if (first + i >= count) continue;
		int64 row = row0 + (first + i) / t.heads, query = row * t.heads + at;
		float sum = m.top[0][i] + m.top[1][i], inverse = 1 / sum;
		if (t.out && side == 0 && lane % 4 == 0) {
			float* s = t.stats + (query * gridDim.x + blockIdx.x) * 2;
			s[0] = state.top[h], s[1] = sum;
		}
#pragma unroll
		for (int j = 0; j < most_latent / 16; j++) {
			int col = side * most_latent / 2 + 8 * j + lane % 4 * 2;
			if (col >= t.latent) break;
			float x = state.out[j][2 * h], y = state.out[j][2 * h + 1];
			if (t.out)
				*(float2*)(t.out + (query * gridDim.x + blockIdx.x) * t.latent + col) = make_float2(x, y);
			else
				*(u32*)(t.y + row * t.ldy + at * t.latent + col) = pack(x * inverse, y * inverse);
		}
	}
}

template <int pairs, int stages>
__device__ void attend(const Task& t, const Cache& c) {
	extern __shared__ uint4 memory[];
	Shared<pairs, stages>& m = *(Shared<pairs, stages>*)memory;
	constexpr int threads = 64 * pairs;
	after_previous();
	int row0 = blockIdx.z * t.span, first = blockIdx.y * pairs * queries, count = t.span * t.heads;
	int begin = t.pos[row0], of = t.seq[row0], lane = threadIdx.x % 32, pair = threadIdx.x / 64;
	int last = min(count, first + pairs * queries) - 1;
	int end = begin + last / t.heads + 1, start = t.window > 0 ? max(0, begin + first / t.heads - t.window + 1) : 0;
	int share = ((end - start + gridDim.x - 1) / gridDim.x + keys - 1) / keys * keys;
	start += blockIdx.x * share, end = min(end, start + share);

	State state;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		state.own[h] = begin + min(last, first + pair * queries + lane / 4 + 8 * h) / t.heads;
		state.factor[h] = t.how.factor(state.own[h]);
	}
	fill<threads>(m.q, pairs * queries, t.dim, [&](int r) {
		int i = first + r;
		return i < count ? t.q + (row0 + i / t.heads) * t.ldq + i % t.heads * t.dim : (const half*)nullptr;
	});
	auto copy = [&](int from) {
		int stage = (from - start) / keys % stages;
		if (from < end) fill<threads>(m.k[stage], keys, t.dim, [&](int r) { return from + r < end ? c.k + c.row(of, from + r) : (const half*)nullptr; });
		commit();
	};
#pragma unroll
	for (int i = 0; i < stages; i++) copy(start + i * keys);
	for (int from = start; from < end; from += keys) {
		arrived<stages - 1>();
		__syncthreads();
		const half(*tile)[stride] = m.k[(from - start) / keys % stages];
		float s[2][4] = {};
		score(s, m, tile, t.dim);
		weigh(state, m, s, t, from, end);
		add(state, m, tile, t);
		__syncthreads();  // the tile is read
		copy(from + stages * keys);
	}
	arrived<0>();
	write(state, m, t, first, count, row0);
}

// Names are of the pairs of warps.
#define ATTEND(name, pairs, stages)                                                                 \
	extern "C" __global__ void __launch_bounds__(64 * pairs, 1)                                     \
	name(half* y, float* out, float* stats, const half* q, const half* k, const int* table,         \
	     const int* pos, const int* seq, int table_cols, int page_rows, int span, int heads,        \
	     int dim, int latent, int64 ldy, int64 ldq, float scale, float cap, float temperature,      \
	     int temperature_span, int window) {                                                        \
		Cache c = {k, k, table, table_cols, page_rows, dim};                                        \
		attend<pairs, stages>({y, out, stats, q, pos, seq, span, heads, dim, latent, ldy, ldq,      \
		                       {scale, cap, temperature, temperature_span}, window}, c);            \
	}

ATTEND(attend_latent_4, 4, 2)
ATTEND(attend_latent_2, 2, 1)
ATTEND(attend_latent_1, 1, 1)
