// Attention of runs of rows: y = softmax(scale·q·Kᵀ)·V by heads, each row seeing
// the positions up to its own, the last `window` of them if window > 0.
//
// A block takes 64 rows of a run and one head, a warp 16 of them, whose queries
// and sums stay in registers; keys and values pass through shared memory, `keys`
// positions at a time, with the softmax rescaled as they come (Dao 2022,
// FlashAttention, algorithm 1). Scores are weighed in fp32; weights are rounded to
// fp16 for the second product. Heads are padded with zeros to the variant's size. Of more than 256
// dimensions two warps have the same rows, and half of the columns each: they add up their scores.
//
// Runs of few rows have several heads that share keys in a block, and the keys may be divided among blocks, as in attend_hopper.cuh.
//
// H200, 2026-11-21, 32 heads of 128: 2048 rows from the start 460 µs, 75 TFLOP/s; behind
// 6144 others 2.6 ms, 93 TFLOP/s.
#include "attend.cuh"
#include "attend_found.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "quad.cuh"

constexpr int rows_a_block = 64;
constexpr int units = rows_a_block / 16, threads = 32 * units;
constexpr int most_columns = 256;  // of a warp
constexpr int padding = 8;  // of a row in shared memory
constexpr int keys = 64, keys_256 = 32, keys_512 = 32;  // positions at a time
constexpr int threads_512 = 2 * threads, exchange_512 = threads_512 * keys_512 / 8 * 16;  // bytes of what warps exchange

// Shape is a variant: dimensions of a head and positions at a time. Rows in
// shared memory have 16 bytes more, so that ldmatrix has no conflicts.
template <int d, int n>
struct Shape {
	static constexpr int dim = d, keys = n, stride = d + padding;
	static constexpr int sharing = d > most_columns ? d / most_columns : 1, columns = d / sharing, threads = 32 * units * sharing;
};

// fill copies rows of `dim` halves to shared memory; source says where row i is,
// or null for zeros.
template <class S, class Source>
__device__ inline void fill(half* to, int rows, int dim, Source source) {
	constexpr int chunks = S::dim / 8;
	for (int i = threadIdx.x; i < rows * chunks; i += S::threads) {
		int row = i / chunks, at = i % chunks * 8;
		const half* from = source(row);
		half* p = to + row * S::stride + at;
		if (from && at + 8 <= dim && (size_t)from % 16 == 0) {
			copy16(p, from + at, true);
		} else {
			for (int j = 0; j < 8; j++) p[j] = from && at + j < dim ? from[at + j] : __float2half(0);
		}
	}
}

// Softmax is the state of a warp's 16 rows: of rows g and g+8 in each lane.
template <class S>
struct Softmax {
	float top[2], sum[2], out[S::columns / 8][4];

	// weigh turns scores into weights and rescales what was summed before.
	__device__ void weigh(float (&s)[S::keys / 8][4]) {
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float most = top[h];
#pragma unroll
			for (int j = 0; j < S::keys / 8; j++) most = fmaxf(most, fmaxf(s[j][2 * h], s[j][2 * h + 1]));
			most = quad_max(most);
			float shrink = __expf(top[h] - most), part = 0;
#pragma unroll
			for (int j = 0; j < S::keys / 8; j++)
#pragma unroll
				for (int e = 2 * h; e < 2 * h + 2; e++) {
					s[j][e] = s[j][e] <= no_score ? 0 : __expf(s[j][e] - most);
					part += s[j][e];
				}
			sum[h] = sum[h] * shrink + quad_sum(part);
			top[h] = most;
#pragma unroll
			for (int j = 0; j < S::columns / 8; j++) out[j][2 * h] *= shrink, out[j][2 * h + 1] *= shrink;
		}
	}
};

static_assert(threads_512 == Shape<512, keys_512>::threads && exchange_512 == threads_512 / 32 * keys_512 / 8 * 32 * 16, "as cuda/attend.go launches it");

// add_others adds what the warps have found that have the same rows.
template <class S>
__device__ inline void add_others(float (&s)[S::keys / 8][4], float4 (*products)[S::keys / 8][32]) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
	for (int j = 0; j < S::keys / 8; j++) products[warp][j][lane] = make_float4(s[j][0], s[j][1], s[j][2], s[j][3]);
	__syncthreads();
#pragma unroll
	for (int j = 0; j < S::keys / 8; j++) {
		float4 all = make_float4(0, 0, 0, 0);
#pragma unroll
		for (int w = 0; w < S::sharing; w++) {
			float4 p = products[warp / S::sharing * S::sharing + w][j][lane];
			all.x += p.x, all.y += p.y, all.z += p.z, all.w += p.w;
		}
		s[j][0] = all.x, s[j][1] = all.y, s[j][2] = all.z, s[j][3] = all.w;
	}
}

template <class S>
__device__ void attend(
	half* y,        // [rows, heads·dim], rows ldy elements apart
	const half* q,  // likewise, ldq
	Cache c,
	const int* pos,  // [rows]
	const int* seq,  // [rows]
	const float* sinks,  // [heads] or null
	int span, int heads, int kv_heads, int dim, int64 ldy, int64 ldq, Scoring how, int window,
	int together,  // heads of a block
	Found found) {
	extern __shared__ uint4 memory[];
	half* base = (half*)memory;
	after_previous();
	int cuts = (span + rows_a_block - 1) / rows_a_block;
	int first = blockIdx.x / cuts * span + blockIdx.x % cuts * rows_a_block;
	Stack at = {min(rows_a_block, (int)(blockIdx.x / cuts + 1) * span - first), (int)blockIdx.y * together};
	int rows = at.rows * together, kv = at.head / (heads / kv_heads) * dim;
	int begin = pos[first], of = seq[first], lane = threadIdx.x % 32, warp = threadIdx.x / 32 / S::sharing;
	int column = threadIdx.x / 32 % S::sharing * S::columns;

	fill<S>(base, rows_a_block, dim, [&](int r) { return r < rows ? q + (first + at.row_of(r)) * ldq + at.head_of(r) * dim : (const half*)nullptr; });
	commit();
	arrived<0>();
	__syncthreads();
	u32 a[S::columns / 16][4];
#pragma unroll
	for (int i = 0; i < S::columns / 16; i++) ldmatrix(a[i], base + (warp * 16 + lane % 16) * S::stride + column + 16 * i + lane / 16 * 8);

	Softmax<S> state = {{no_score, no_score}};
	int owns[2] = {begin + at.row_of(warp * 16 + lane / 4), begin + at.row_of(warp * 16 + lane / 4 + 8)};  // positions of rows
	float factors[2] = {how.factor(owns[0]), how.factor(owns[1])};
	int end = begin + at.rows, start = window > 0 ? max(0, begin - window + 1) : 0;
	int part = ((end - start + S::keys - 1) / S::keys + found.parts - 1) / found.parts * S::keys;
	start += blockIdx.z * part, end = min(end, start + part);
	half *keys = base, *values = base + S::keys * S::stride;
	for (int from = start; from < end; from += S::keys) {
		__syncthreads();  // the tile before, or the queries, are read
		fill<S>(keys, S::keys, dim, [&](int i) { return from + i < end ? c.k + c.row(of, from + i) + kv : (const half*)nullptr; });
		commit();
		fill<S>(values, S::keys, dim, [&](int i) { return from + i < end ? c.v + c.row(of, from + i) + kv : (const half*)nullptr; });
		commit();
		arrived<1>();
		__syncthreads();
		float s[S::keys / 8][4] = {};
#pragma unroll
		for (int i = 0; i < S::columns / 16; i++)
#pragma unroll
			for (int j = 0; j < S::keys / 16; j++) {
				u32 b[4];
				ldmatrix(b, keys + (16 * j + lane % 8 + lane / 16 * 8) * S::stride + column + 16 * i + lane / 8 % 2 * 8);
				u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
				mma(s[2 * j], a[i], low);
				mma(s[2 * j + 1], a[i], high);
			}
		if constexpr (S::sharing > 1) add_others<S>(s, (float4(*)[S::keys / 8][32])(base + rows_a_block * S::stride));
#pragma unroll
		for (int j = 0; j < S::keys / 8; j++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int p = from + 8 * j + lane % 4 * 2 + e % 2, own = owns[e / 2];
				bool seen = p <= own && p < end && (window <= 0 || p > own - window);
				s[j][e] = seen ? capped(s[j][e] * factors[e / 2], how.cap) : no_score;
			}
		state.weigh(s);
		arrived<0>();
		__syncthreads();
#pragma unroll
		for (int i = 0; i < S::keys / 16; i++) {
			u32 p[4] = {pack(s[2 * i][0], s[2 * i][1]), pack(s[2 * i][2], s[2 * i][3]), pack(s[2 * i + 1][0], s[2 * i + 1][1]), pack(s[2 * i + 1][2], s[2 * i + 1][3])};
#pragma unroll
			for (int j = 0; j < S::columns / 16; j++) {
				u32 b[4];
				ldmatrix_trans(b, values + (16 * i + lane % 16) * S::stride + column + 16 * j + lane / 16 * 8);
				u32 low[2] = {b[0], b[1]}, high[2] = {b[2], b[3]};
				mma(state.out[2 * j], p, low);
				mma(state.out[2 * j + 1], p, high);
			}
		}
	}
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int row = warp * 16 + lane / 4 + 8 * h;
		if (row >= rows) continue;
		int of_row = first + at.row_of(row), head = at.head_of(row);
		if (found.parts > 1) {
			int64 place = found.at(of_row, head, heads, blockIdx.z);
			if (column == 0 && lane % 4 == 0) found.store(place, state.top[h] * log2e, state.sum[h]);
#pragma unroll
			for (int j = 0; j < S::columns / 8; j++) {
				int to = column + 8 * j + lane % 4 * 2;
				if (to < dim) *(float2*)(found.sums + place * dim + to) = make_float2(state.out[j][2 * h], state.out[j][2 * h + 1]);
			}
			continue;
		}
		float inverse = 1 / state.sum[h];
		if (sinks) {  // one more score, whose value is zero
			float most = fmaxf(state.top[h], sinks[head]), shrink = __expf(state.top[h] - most);
			inverse = shrink / (state.sum[h] * shrink + __expf(sinks[head] - most));
		}
		half* to = y + of_row * ldy + head * dim;
#pragma unroll
		for (int j = 0; j < S::columns / 8; j++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int i = column + 8 * j + lane % 4 * 2 + e;
				if (i < dim) to[i] = __float2half_rn(state.out[j][2 * h + e] * inverse);
			}
	}
}

#define ATTEND(name, d, n)                                                                          \
	extern "C" __global__ void __launch_bounds__(Shape<d, n>::threads)                              \
	name(half* y, const half* q, const half* k, const half* v, const int* table, const int* pos,    \
	     const int* seq, const float* sinks, int table_cols, int page_rows, int span, int heads,    \
	     int kv_heads, int dim, int64 ldy, int64 ldq, float scale, float cap, float temperature,    \
	     int temperature_span, int window, int together, float* sums, float* stats, int parts) {    \
		Cache c = {k, v, table, table_cols, page_rows, kv_heads * dim};                             \
		Scoring how = {scale, cap, temperature, temperature_span};                                  \
		attend<Shape<d, n>>(y, q, c, pos, seq, sinks, span, heads, kv_heads, dim, ldy, ldq, how,    \
		                    window, together, {sums, stats, parts});                                \
	}

ATTEND(attend_prefill_32, 32, keys)
ATTEND(attend_prefill_64, 64, keys)
ATTEND(attend_prefill_96, 96, keys)
ATTEND(attend_prefill_128, 128, keys)
ATTEND(attend_prefill_256, 256, keys_256)
ATTEND(attend_prefill_512, 512, keys_512)
