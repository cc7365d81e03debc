// Attention of single rows, as attend_decode.cu without its sinks and temperatures,
// where few heads of keys make that join many parts of each.
//
// The positions of a row are divided among `splits` blocks, by the row's own
// position, which is in memory: the grid does not depend on it. A block takes
// some heads that share keys and values, 64 positions at a time: eight lanes a
// key for the scores; for the sums, a thread for eight dimensions of every n-th
// position. What the blocks of a row find is joined by attend_join.cu.
//
// Heads of more than 256 dimensions have no other kernel: of them it takes rows of runs, too.
//
// H200, 2026-11-21, 32 heads of 128 and 8 of keys: 8000 positions 33 µs, 1.0 TB/s, where
// attend_decode.cu takes 44.
#include "attend.cuh"
#include "attend_found.cuh"
#include "order.cuh"

constexpr int threads = 128;
constexpr int most_dim = 256, most_wide = 512;
constexpr int positions = 64;  // at a time
constexpr int lanes_a_key = 8;
constexpr int keys_a_pass = threads / lanes_a_key;
constexpr int passes = positions / keys_a_pass;

// Shared is the shared memory of a block that takes up to most_heads heads of up to D dimensions.
template <int most_heads, int D>
struct Shared {
	float q[most_heads][D];
	float scores[most_heads][positions];
	float top[most_heads], sum[most_heads], shrink[most_heads];
	int64 rows[positions];   // where the positions of a tile are
	float parts[threads][9];  // eight sums of a thread, and no conflicts
};

// score computes the scores of a tile of n positions. All passes ask for their keys
// before the first needs them.
template <int most_heads, int D>
__device__ inline void score(Shared<most_heads, D>& m, const half* keys, int n, int heads, int dim, float cap) {
	int part = threadIdx.x % lanes_a_key, key = threadIdx.x / lanes_a_key;
	float sums[passes][most_heads] = {};
	for (int at = part * 8; at < dim; at += lanes_a_key * 8) {
		float k[passes][8];
#pragma unroll
		for (int p = 0; p < passes; p++) load8(k[p], keys + m.rows[min(key + p * keys_a_pass, n - 1)], at, dim);
#pragma unroll
		for (int h = 0; h < most_heads; h++) {
			if (h >= heads) break;
#pragma unroll
			for (int j = 0; j < 8; j++) {
				float q = m.q[h][at + j];
#pragma unroll
				for (int p = 0; p < passes; p++) sums[p][h] += q * k[p][j];
			}
		}
	}
#pragma unroll
	for (int h = 0; h < most_heads; h++) {
		if (h >= heads) break;
#pragma unroll
		for (int p = 0; p < passes; p++) {
			float s = sums[p][h];
			for (int step = lanes_a_key / 2; step > 0; step /= 2) s += __shfl_xor_sync(~0u, s, step);
			int i = key + p * keys_a_pass;
			if (part == 0) m.scores[h][i] = i < n ? capped(s, cap) : no_score;
		}
	}
}

// weigh turns the scores of a tile into weights, a warp a head.
template <int most_heads, int D>
__device__ inline void weigh(Shared<most_heads, D>& m, int heads) {
	int lane = threadIdx.x % 32;
	for (int h = threadIdx.x / 32; h < heads; h += threads / 32) {
		float a = m.scores[h][lane], b = m.scores[h][lane + 32], top = m.top[h], most = fmaxf(top, fmaxf(a, b));
		for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
		a = a <= no_score ? 0 : __expf(a - most), b = b <= no_score ? 0 : __expf(b - most);
		m.scores[h][lane] = a, m.scores[h][lane + 32] = b;
		float part = a + b;
		for (int step = 16; step > 0; step /= 2) part += __shfl_xor_sync(~0u, part, step);
		__syncwarp();  // every lane has read the top
		if (lane == 0) {
			float shrink = __expf(top - most);
			m.shrink[h] = shrink, m.sum[h] = m.sum[h] * shrink + part, m.top[h] = most;
		}
	}
}

// add adds a tile's weighted values, eight dimensions from `at` on of positions
// `first` and every `step` further, four of which are asked for at a time.
template <int most_heads, int D>
__device__ inline void add(float (&sums)[most_heads][8], const Shared<most_heads, D>& m, const half* values, int n, int heads, int dim, int at, int first, int step) {
#pragma unroll
	for (int h = 0; h < most_heads; h++) {
		if (h >= heads) break;
#pragma unroll
		for (int j = 0; j < 8; j++) sums[h][j] *= m.shrink[h];
	}
	constexpr int ahead = 4;
	for (int i = first; i < n; i += ahead * step) {
		float v[ahead][8];
#pragma unroll
		for (int p = 0; p < ahead; p++) load8(v[p], values + m.rows[min(i + p * step, n - 1)], at, dim);
#pragma unroll
		for (int p = 0; p < ahead; p++) {
			if (i + p * step >= n) break;
#pragma unroll
			for (int h = 0; h < most_heads; h++) {
				if (h >= heads) break;
				float weight = m.scores[h][i + p * step];
#pragma unroll
				for (int j = 0; j < 8; j++) sums[h][j] += weight * v[p][j];
			}
		}
	}
}

template <int most_heads, int D>
__device__ inline void attend(
	Found found,       // of so many splits
	const half* q,     // [rows, heads·dim], rows ldq elements apart
	Cache c,
	const int* pos,    // [rows]
	const int* seq,    // [rows]
	int heads, int kv_heads, int dim, int64 ldq, float scale, float cap, int window) {
	__shared__ Shared<most_heads, D> m;
	after_previous();
	int group = heads / kv_heads, sets = (group + most_heads - 1) / most_heads;
	int kv_head = blockIdx.y / sets, head = kv_head * group + blockIdx.y % sets * most_heads;
	int count = min(most_heads, (kv_head + 1) * group - head);
	int row = blockIdx.z, split = blockIdx.x, splits = found.parts, end = pos[row] + 1, of = seq[row];
	int start = window > 0 ? max(0, end - window) : 0;
	int share = ((end - start + splits - 1) / splits + positions - 1) / positions * positions;
	start += split * share;
	end = min(end, start + share);

	if (start < end)
		for (int i = threadIdx.x; i < count * D; i += threads) {
			int h = i / D, at = i % D;
			m.q[h][at] = at < dim ? scale * __half2float(q[row * ldq + (head + h) * dim + at]) : 0;
		}
	if (threadIdx.x < most_heads) m.top[threadIdx.x] = no_score, m.sum[threadIdx.x] = 0;
	int chunks = (dim + 7) / 8, step = threads / chunks;  // threads of a position, and positions that they take at a time
	int at = threadIdx.x % chunks * 8, first = threadIdx.x / chunks;
	float sums[most_heads][8] = {};
	for (int from = start; from < end; from += positions) {
		int n = min(positions, end - from);
		if (threadIdx.x < n) m.rows[threadIdx.x] = c.row(of, from + threadIdx.x) + kv_head * dim;
		__syncthreads();
		score(m, c.k, n, count, dim, cap);
		__syncthreads();
		weigh(m, count);
		__syncthreads();
		if (first < step) add(sums, m, c.v, n, count, dim, at, first, step);
		__syncthreads();
	}
	float* to = found.sums + found.at(row, head, heads, split) * dim;
#pragma unroll
	for (int h = 0; h < most_heads; h++) {
		if (h >= count) break;
#pragma unroll
		for (int j = 0; j < 8; j++) m.parts[threadIdx.x][j] = sums[h][j];
		__syncthreads();
		for (int d = threadIdx.x; d < dim; d += threads) {
			float sum = 0;
			for (int i = 0; i < step; i++) sum += m.parts[i * chunks + d / 8][d % 8];
			to[(int64)h * splits * dim + d] = sum;
		}
		__syncthreads();
	}
	if (threadIdx.x < count) {
		found.store(found.at(row, head + threadIdx.x, heads, split), m.top[threadIdx.x] * log2e, m.sum[threadIdx.x]);
	}
}

// The name's number is the heads of a block.
#define ATTEND(name, most_heads, D)                                                                    \
	extern "C" __global__ void __launch_bounds__(threads)                                           \
	name(float* out, float* stats, const half* q, const half* k, const half* v, const int* table,   \
	     const int* pos, const int* seq, int table_cols, int page_rows, int heads, int kv_heads,    \
	     int dim, int splits, int64 ldq, float scale, float cap, int window) {                      \
		Cache c = {k, v, table, table_cols, page_rows, kv_heads * dim};                             \
		attend<most_heads, D>({out, stats, splits}, q, c, pos, seq, heads, kv_heads, dim, ldq, scale, \
		                      cap, window);                                                         \
	}

ATTEND(attend_parts_1, 1, most_dim)
ATTEND(attend_parts_4, 4, most_dim)
ATTEND(attend_parts_8, 8, most_dim)
ATTEND(attend_parts_wide, 8, most_wide)
