// The gradient of attention (attend_back.cu) by tensor cores, with float32-class
// accuracy: Q, K and V are exact in TF32, float32 numbers are sums of two numbers
// in TF32, and products of both of the latter's low parts are left out.
//
// A block of attend_back_mma_rows has 64 rows of one head, a warp 16 of them. It goes
// over the positions twice, for the softmax's scale and D, which it stores, and for dQ.
// A block of attend_back_mma_keys has 64 positions of one head of keys and goes over
// the rows that see them, of all heads that share it. Tiles of what is gone over are
// copied one ahead. Names end in the largest dimension. Nothing is added by two blocks, so
// sums have one order.
//
// The order of sums over dimensions, rows or positions is free (split_tf32.cuh).
#include "attend_back.cuh"
#include "attend_back_tiles.cuh"
#include "order.cuh"

template <int most>
struct RowTiles {
	Halves<side, most> q;
	Floats<side, most> dy;
	struct {
		Halves<tile, most> k, v;
	} stages[2];
};

// scores_of sets s to the scores of a warp's rows and a tile's positions, and dp to
// dY·Vᵀ.
template <int most>
__device__ inline void scores_of(float (&s)[tile / 8][4], float (&dp)[tile / 8][4], const Task& t, const RowTiles<most>& m, int stage, int first, int key) {
	int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, row = warp * 16 + g;
#pragma unroll
	for (int n = 0; n < tile / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++) s[n][i] = dp[n][i] = 0;
#pragma unroll
	for (int c = 0; c < most; c += 16) {
		u32 a[4], b[tile / 16][4];
		m.q.left(a, warp * 16, c);
#pragma unroll
		for (int n = 0; n < tile / 8; n++) {
			if (n % 2 == 0) m.stages[stage].k.right(b[n / 2], n * 8, c);
			u32 part[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
			mma(s[n], a, part);
		}
	}
#pragma unroll
	for (int c = 0; c < most; c += 16) {
		u32 b[tile / 16][4];
#pragma unroll
		for (int n = 0; n < tile / 16; n++) m.stages[stage].v.right(b[n], n * 16, c);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float2 top = *(const float2*)&m.dy.x[row][c + 8 * h + 2 * q], bottom = *(const float2*)&m.dy.x[row + 8][c + 8 * h + 2 * q];
			Split<4> a({top.x, bottom.x, top.y, bottom.y});
#pragma unroll
			for (int n = 0; n < tile / 8; n++) {
				float2 v = both(b[n / 2][n % 2 * 2 + h]);
				multiply(dp[n], a, v.x, v.y);
			}
		}
	}
#pragma unroll
	for (int n = 0; n < tile / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++) s[n][i] = t.score(s[n][i], first + row + i / 2 * 8, key + n * 8 + 2 * q + i % 2);
}

// over_positions calls f with every tile of positions from one up to last, and its stage.
template <int most, typename F>
__device__ inline void over_positions(const Task& t, RowTiles<most>& m, int from, int last, bool aligned, F f) {
	auto fill = [&](int stage, int key) {
		m.stages[stage].k.fill(t.k, t.ldk, key, t.span, t.dim, aligned);
		m.stages[stage].v.fill(t.v, t.ldv, key, t.span, t.dim, aligned);
		commit();
	};
	fill(0, from);
	int stage = 0;
	for (int key = from; key <= last; key += tile, stage ^= 1) {
		if (key + tile <= last) {
			fill(stage ^ 1, key + tile);
			arrived<1>();
		} else {
			arrived<0>();
		}
		__syncthreads();
		f(key, stage);
		__syncthreads();
	}
}

template <int most>
__device__ void rows_back(Task t) {
	extern __shared__ uint4 memory[];
	RowTiles<most>& m = *(RowTiles<most>*)memory;
	int tiles = (t.span + side - 1) / side, head = blockIdx.y;
	t.move(blockIdx.x / tiles, head, head / (t.heads / t.kv_heads));
	int first = (tiles - 1 - blockIdx.x % tiles) * side, last = min(first + side, t.span) - 1;  // those with most work first
	int from = t.window > 0 ? max(0, first - t.window + 1) / tile * tile : 0;
	int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
	bool aligned = t.aligned();
	m.q.fill(t.q, t.ldq, first, t.span, t.dim, aligned);
	m.dy.fill(t.dy, t.lddy, first, t.span, t.dim, aligned);
	float s[tile / 8][4], dp[tile / 8][4];
	float top[2] = {no_score, no_score}, sum[2] = {}, along[2] = {};
	over_positions<most>(t, m, from, last, aligned, [&](int key, int stage) {
		scores_of<most>(s, dp, t, m, stage, first, key);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float most_here = top[h], part = 0, part_along = 0;
#pragma unroll
			for (int n = 0; n < tile / 8; n++) most_here = fmaxf(most_here, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
			most_here = quad_max(most_here);
			float shrink = expf(top[h] - most_here);
#pragma unroll
			for (int n = 0; n < tile / 8; n++)
#pragma unroll
				for (int i = 2 * h; i < 2 * h + 2; i++) {
					float e = weight_of(s[n][i], most_here);
					part += e;
					part_along += e == 0 ? 0 : e * dp[n][i];
				}
			sum[h] = sum[h] * shrink + quad_sum(part);
			along[h] = along[h] * shrink + quad_sum(part_along);
			top[h] = most_here;
		}
	});
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int row = first + warp * 16 + g + h * 8;
		along[h] = sum[h] > 0 ? along[h] / sum[h] : 0;
		top[h] = sum[h] > 0 ? top[h] + logf(sum[h]) : 0;
		if (q == 0 && row < t.span) *(float2*)(t.stats + (int64)row * t.heads * 2) = make_float2(top[h], along[h]);
	}
	float dq[most / 8][4] = {};
	over_positions<most>(t, m, from, last, aligned, [&](int key, int stage) {
		scores_of<most>(s, dp, t, m, stage, first, key);
#pragma unroll
		for (int n = 0; n < tile / 8; n++) {
			float ds[4];
#pragma unroll
			for (int i = 0; i < 4; i++) ds[i] = t.gradient(weight_of(s[n][i], top[i / 2]), s[n][i], dp[n][i], along[i / 2]);
			Split<4> a({ds[0], ds[2], ds[1], ds[3]});
			multiply_across<tile, most>(dq, a, m.stages[stage].k, n * 8);
		}
	});
	add_to<most>(t.dq, t.lddq, first + warp * 16, t.span, t.dim, dq, t.scale);
}

template <int most>
struct KeyTiles {
	Halves<side, most> k, v;
	struct {
		Halves<tile, most> q;
		Floats<tile, most> dy;
		float2 stats[tile];
	} stages[2];

	// fill begins to copy what rows bring.
	__device__ void fill(int stage, const Task& t, int row, bool aligned) {
		auto& to = stages[stage];
		to.q.fill(t.q, t.ldq, row, t.span, t.dim, aligned);
		to.dy.fill(t.dy, t.lddy, row, t.span, t.dim, aligned);
		if (threadIdx.x < tile) {
			int r = row + threadIdx.x;
			to.stats[threadIdx.x] = r < t.span ? *(const float2*)(t.stats + (int64)r * t.heads * 2) : make_float2(0, 0);
		}
		commit();
	}
};

// turned_scores_of sets s to the products of a warp's positions and a tile's rows, and dp
// to V·dYᵀ.
template <int most>
__device__ inline void turned_scores_of(float (&s)[tile / 8][4], float (&dp)[tile / 8][4], const KeyTiles<most>& m, int stage) {
	int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
	const auto& from = m.stages[stage];
#pragma unroll
	for (int n = 0; n < tile / 8; n++)
#pragma unroll
		for (int i = 0; i < 4; i++) s[n][i] = dp[n][i] = 0;
#pragma unroll
	for (int c = 0; c < most; c += 16) {
		u32 a[4], b[4];
		m.k.left(a, warp * 16, c);
#pragma unroll
		for (int n = 0; n < tile / 8; n++) {
			if (n % 2 == 0) from.q.right(b, n * 8, c);
			u32 part[2] = {b[n % 2 * 2], b[n % 2 * 2 + 1]};
			mma(s[n], a, part);
		}
	}
#pragma unroll
	for (int c = 0; c < most; c += 16) {
		u32 v[4];
		m.v.left(v, warp * 16, c);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float2 upper = both(v[2 * h]), lower = both(v[2 * h + 1]);
			float a[4] = {upper.x, lower.x, upper.y, lower.y};
#pragma unroll
			for (int n = 0; n < tile / 8; n++) {
				float2 dy = *(const float2*)&from.dy.x[n * 8 + g][c + 8 * h + 2 * q];
				Split<2> b({dy.x, dy.y});
				mma8(dp[n], a, b.low[0], b.low[1]);
				mma8(dp[n], a, b.high_part[0], b.high_part[1]);
			}
		}
	}
}

template <int most>
__device__ void keys_back(Task all) {
	extern __shared__ uint4 memory[];
	KeyTiles<most>& m = *(KeyTiles<most>*)memory;
	int tiles = (all.span + side - 1) / side, group = all.heads / all.kv_heads;
	int first = blockIdx.x % tiles * side;
	int end = all.window > 0 ? min(all.span, first + side - 1 + all.window) : all.span;
	int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, key = warp * 16 + g;
	bool aligned = all.aligned();
	float dk[most / 8][4] = {}, dv[most / 8][4] = {}, s[tile / 8][4], dp[tile / 8][4];
	Task t = all;
	for (int head = blockIdx.y * group; head < (blockIdx.y + 1) * group; head++) {
		t = all;
		t.move(blockIdx.x / tiles, head, blockIdx.y);
		if (head == blockIdx.y * group) {
			m.k.fill(t.k, t.ldk, first, t.span, t.dim, aligned);
			m.v.fill(t.v, t.ldv, first, t.span, t.dim, aligned);
		}
		m.fill(0, t, first, aligned);
		int stage = 0;
		for (int row = first; row < end; row += tile, stage ^= 1) {
			if (row + tile < end) {
				m.fill(stage ^ 1, t, row + tile, aligned);
				arrived<1>();
			} else {
				arrived<0>();
			}
			__syncthreads();
			const auto& from = m.stages[stage];
			turned_scores_of<most>(s, dp, m, stage);
#pragma unroll
			for (int n = 0; n < tile / 8; n++) {  // eight rows
				float w[4], ds[4];
#pragma unroll
				for (int i = 0; i < 4; i++) {
					int r = n * 8 + 2 * q + i % 2;
					float2 stats = from.stats[r];
					float score = t.score(s[n][i], row + r, first + key + i / 2 * 8);
					w[i] = weight_of(score, stats.x);
					ds[i] = t.gradient(w[i], score, dp[n][i], stats.y);
				}
				Split<4> weights({w[0], w[2], w[1], w[3]}), grads({ds[0], ds[2], ds[1], ds[3]});
#pragma unroll
				for (int c = 0; c < most / 8; c++) {
					int r = n * 8 + 2 * q, column = c * 8 + g;
					multiply(dv[c], weights, Split<2>({from.dy.x[r][column], from.dy.x[r + 1][column]}));
				}
				multiply_across<tile, most>(dk, grads, from.q, n * 8);
			}
			__syncthreads();
		}
	}
	add_to<most>(t.dk, t.lddk, first + warp * 16, t.span, t.dim, dk, t.scale);
	add_to<most>(t.dv, t.lddv, first + warp * 16, t.span, t.dim, dv, 1);
}

#define ATTEND_BACK(name, of, most)                                                                           \
	extern "C" __global__ void __launch_bounds__(threads) name(                                               \
		float* dq, float* dk, float* dv, float* stats, const float* dy, const half* q, const half* k,         \
		const half* v, int span, int heads, int kv_heads, int dim, int window, long long lddq,                \
		long long lddk, long long lddv, long long lddy, long long ldq, long long ldk, long long ldv,          \
		float scale, float softcap) {                                                                         \
		after_previous();                                                                                     \
		of<most>(Task{q, k, v, dy, dq, dk, dv, stats, span, heads, kv_heads, dim, window,                     \
		              ldq, ldk, ldv, lddy, lddq, lddk, lddv, scale, softcap});                                \
	}

ATTEND_BACK(attend_back_mma_rows_64, rows_back, 64)
ATTEND_BACK(attend_back_mma_rows_128, rows_back, 128)
ATTEND_BACK(attend_back_mma_keys_64, keys_back, 64)
ATTEND_BACK(attend_back_mma_keys_128, keys_back, 128)
