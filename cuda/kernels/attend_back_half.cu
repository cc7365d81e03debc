// The gradient of attention (attend_back.cu) by tensor cores in fp16, for training:
// gradients of what attention computes, lifted by their largest number, weights and
// gradients of scores are rounded to fp16; sums are float32.
//
// attend_back_half_prepare rounds dY, and finds D = rowsum(dY∘Y), which is
// rowsum(P∘dP). A block of attend_back_half_rows has 64 rows of one head, a warp 16 of
// them: it goes over the positions twice, for log₂ Σ exp(score), which it stores, and
// for dQ. A block of attend_back_half_keys has 64 positions of one head of keys and goes
// over the rows that see them, of all heads that share it. Tiles of what is gone over
// are copied one ahead. Names end in the largest dimension. Nothing is added by two
// blocks, so sums have one order.
#include "attend.cuh"
#include "attend_back.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "planes.cuh"

constexpr int warps = 4, threads = 32 * warps;
constexpr int side = 64;                                      // rows, or positions, of a block
constexpr int rows_tile_64 = 64, rows_tile_128 = 32, keys_tile = 32;  // those that are gone over, at a time
constexpr int prepare_warps = 8;

// Task is what the kernels are given.
struct Task {
	const half *q, *k, *v, *dy;  // [rows, heads·dim], dy lifted
	const float *sinks, *largest;
	float *dq, *dk, *dv;
	float2* stats;               // [rows, heads]: log₂ Σ exp(score), and D, lifted
	int span, heads, kv_heads, dim, window;
	int64 ldq, ldk, ldv, lddq, lddk, lddv;
	Scoring scoring;

	// move points the task at one sequence and heads.
	__device__ void move(int sequence, int head, int kv_head) {
		int64 row = (int64)sequence * span, lddy = (int64)heads * dim;
		q += row * ldq + head * dim, dy += row * lddy + head * dim, dq += row * lddq + head * dim;
		k += row * ldk + kv_head * dim, dk += row * lddk + kv_head * dim;
		v += row * ldv + kv_head * dim, dv += row * lddv + kv_head * dim;
		stats += row * heads + head;
	}
	// seen reports whether a row sees a position.
	__device__ bool seen(int row, int key) const { return row < span && key <= row && (window <= 0 || row - key < window); }
	// all reports whether n rows all see as many positions as a tile has.
	__device__ bool all(int row, int n, int key, int tile) const {
		return row + n <= span && key + tile - 1 <= row && (window <= 0 || row + n - 1 - key < window);
	}
};

constexpr float log2_e = 1.4426950408889634f;

__device__ inline float power_of_2(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

// fast_tanh has an error of some 2^-20.
__device__ inline float fast_tanh(float x) { return 1 - __fdividef(2, power_of_2(2 * log2_e * x) + 1); }

// Tile is n rows in shared memory, of up to most dimensions.
template <int n, int most>
struct Tile {
	half x[n][most + 8];

	// fill copies rows from first on of up to end, zeros where there are none.
	__device__ void fill(const half* from, int64 ld, int first, int end, int dim) {
		if (((size_t)from % 16 | ld % 8 | dim % 8) == 0) {
			for (int i = threadIdx.x; i < n * most / 8; i += threads) {
				int r = i / (most / 8), c = i % (most / 8) * 8;
				bool there = first + r < end && c < dim;
				copy16(&x[r][c], there ? from + (first + r) * ld + c : from, there);
			}
			return;
		}
		for (int i = threadIdx.x; i < n * most; i += threads) {
			int r = i / most, c = i % most;
			x[r][c] = first + r < end && c < dim ? from[(first + r) * ld + c] : __float2half(0);
		}
	}
	// left reads 16 rows and columns, as the left operand of a product.
	__device__ void left(u32 (&a)[4], int row, int column) const {
		int lane = threadIdx.x % 32;
		ldmatrix(a, &x[row + lane % 16][column + lane / 16 * 8]);
	}
	// turned reads 16 rows and columns, as the right operand of a product with rows.
	__device__ void turned(u32 (&b)[4], int row, int column) const {
		int lane = threadIdx.x % 32;
		ldmatrix(b, &x[row + lane / 16 * 8 + lane % 8][column + lane / 8 % 2 * 8]);
	}
	// right reads 16 rows and columns, as the right operand.
	__device__ void right(u32 (&b)[4], int row, int column) const {
		int lane = threadIdx.x % 32;
		ldmatrix_trans(b, &x[row + lane / 8 % 2 * 8 + lane % 8][column + lane / 16 * 8]);
	}
};

// mma2 is two products with the halves of a right operand.
__device__ inline void mma2(float (&d0)[4], float (&d1)[4], const u32 (&a)[4], const u32 (&b)[4]) {
	u32 b0[2] = {b[0], b[1]}, b1[2] = {b[2], b[3]};
	mma(d0, a, b0);
	mma(d1, a, b1);
}

// Held is 16 rows of a tile, in registers where there is room.
template <int n, int most>
struct Held {
	static constexpr bool keeps = most <= 64;
	u32 a[keeps ? most / 16 : 1][4];
	const Tile<n, most>& tile;
	int row;
	__device__ Held(const Tile<n, most>& t, int row) : tile(t), row(row) {}
	__device__ void load() {
		if constexpr (keeps)
#pragma unroll
			for (int i = 0; i < most / 16; i++) tile.left(a[i], row, i * 16);
	}
	__device__ void get(u32 (&to)[4], int i) const {
		if constexpr (keeps) {
#pragma unroll
			for (int j = 0; j < 4; j++) to[j] = a[i][j];
		} else {
			tile.left(to, row, i * 16);
		}
	}
};

// multiply_rows sets d to the products of a warp's rows with those of a tile.
template <int tile, int n, int most>
__device__ inline void multiply_rows(float (&d)[tile / 8][4], const Held<n, most>& rows, const Tile<tile, most>& t) {
#pragma unroll
	for (int j = 0; j < tile / 8; j++)
#pragma unroll
		for (int i = 0; i < 4; i++) d[j][i] = 0;
#pragma unroll
	for (int c = 0; c < most / 16; c++) {
		u32 a[4];
		rows.get(a, c);
#pragma unroll
		for (int j = 0; j < tile / 16; j++) {
			u32 b[4];
			t.turned(b, j * 16, c * 16);
			mma2(d[2 * j], d[2 * j + 1], a, b);
		}
	}
}

__device__ inline u32 packed(float x, float y) {
	half2 h = __floats2half2_rn(x, y), most = __float2half2_rn(65504);
	h = __hmin2(__hmax2(h, __hneg2(most)), most);
	return *(u32*)&h;
}

// add_product adds x, rounded to what fp16 can hold, times a tile.
template <int tile, int most>
__device__ inline void add_product(float (&d)[most / 8][4], const float (&x)[tile / 8][4], const Tile<tile, most>& t) {
#pragma unroll
	for (int j = 0; j < tile / 16; j++) {
		const float(&l)[4] = x[2 * j], (&r)[4] = x[2 * j + 1];
		u32 a[4] = {packed(l[0], l[1]), packed(l[2], l[3]), packed(r[0], r[1]), packed(r[2], r[3])};
#pragma unroll
		for (int c = 0; c < most / 16; c++) {
			u32 b[4];
			t.right(b, j * 16, c * 16);
			mma2(d[2 * c], d[2 * c + 1], a, b);
		}
	}
}

template <int tile, int most>
struct RowTiles {
	Tile<side, most> q, dy;
	Tile<tile, most> k[2], v[2];
};

// scores_of turns products into scores, in units of log 2: factor(n, i) is that of an
// element, hidden(n, i) whether it is no score.
template <int n, class F, class H>
__device__ inline void scores_of(float (&s)[n][4], float cap, bool all, F factor, H hidden) {
	if (cap == 0) {
#pragma unroll
		for (int j = 0; j < n; j++)
#pragma unroll
			for (int i = 0; i < 4; i++) s[j][i] *= factor(j, i) * log2_e;
	} else {
		float up = cap * log2_e, down = 1 / cap;
#pragma unroll
		for (int j = 0; j < n; j++)
#pragma unroll
			for (int i = 0; i < 4; i++) s[j][i] = up * fast_tanh(s[j][i] * factor(j, i) * down);
	}
	if (all) return;
#pragma unroll
	for (int j = 0; j < n; j++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (hidden(j, i)) s[j][i] = no_score;
}

// gradients_of replaces dp by the gradients of products of q and k, and scores by
// weights, given log Σ exp, in units of log 2, and D of an element's row.
template <int n, class F, class L, class D>
__device__ inline void gradients_of(float (&dp)[n][4], float (&s)[n][4], float cap, F factor, L log_sum, D along) {
	if (cap == 0) {
#pragma unroll
		for (int j = 0; j < n; j++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				s[j][i] = power_of_2(s[j][i] - log_sum(j, i));
				dp[j][i] = s[j][i] * (dp[j][i] - along(j, i)) * factor(j, i);
			}
		return;
	}
	float down = 1 / (cap * log2_e);
#pragma unroll
	for (int j = 0; j < n; j++)
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float r = fmaxf(s[j][i] * down, -1);  // tanh, or anything where the weight is 0
			s[j][i] = power_of_2(s[j][i] - log_sum(j, i));
			dp[j][i] = s[j][i] * (dp[j][i] - along(j, i)) * factor(j, i) * (1 - r) * (1 + r);
		}
}

template <int tile, int most>
__device__ void rows_back(Task t) {
	extern __shared__ uint4 memory[];
	RowTiles<tile, most>& m = *(RowTiles<tile, most>*)memory;
	int tiles = (t.span + side - 1) / side, head = blockIdx.y;
	t.move(blockIdx.x / tiles, head, head / (t.heads / t.kv_heads));
	int first = (tiles - 1 - blockIdx.x % tiles) * side, last = min(first + side, t.span) - 1;  // those with most work first
	int from = t.window > 0 ? max(0, first - t.window + 1) / tile * tile : 0;
	int warp = threadIdx.x / 32, row = first + warp * 16 + threadIdx.x % 32 / 4;
	float factor[2] = {t.scoring.factor(row), t.scoring.factor(row + 8)};
	m.q.fill(t.q, t.ldq, first, t.span, t.dim);
	m.dy.fill(t.dy, (int64)t.heads * t.dim, first, t.span, t.dim);
	m.k[0].fill(t.k, t.ldk, from, t.span, t.dim);
	commit();
	arrived<0>();
	__syncthreads();
	Held<side, most> q(m.q, warp * 16), dy(m.dy, warp * 16);
	q.load();
	dy.load();
	float s[tile / 8][4], dp[tile / 8][4], cap = t.scoring.cap;
	auto row_factor = [&](int, int i) { return factor[i / 2]; };
	auto score = [&](int key) {
		auto hidden = [&](int n, int i) { return !t.seen(row + i / 2 * 8, key + n * 8 + threadIdx.x % 4 * 2 + i % 2); };
		scores_of(s, cap, t.all(first, side, key, tile), row_factor, hidden);
	};
	float start = t.sinks ? t.sinks[head] * log2_e : no_score, top[2] = {start, start}, sum[2] = {};
	if (t.sinks) sum[0] = sum[1] = 1;
	for (int key = from, now = 0; key <= last; key += tile, now ^= 1) {
		if (key + tile <= last) m.k[now ^ 1].fill(t.k, t.ldk, key + tile, t.span, t.dim);
		commit();
		arrived<1>();
		__syncthreads();
		multiply_rows<tile>(s, q, m.k[now]);
		score(key);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float most_here = top[h], part = 0;
#pragma unroll
			for (int n = 0; n < tile / 8; n++) most_here = fmaxf(most_here, fmaxf(s[n][2 * h], s[n][2 * h + 1]));
			most_here = quad_max(most_here);
#pragma unroll
			for (int n = 0; n < tile / 8; n++) part += power_of_2(s[n][2 * h] - most_here) + power_of_2(s[n][2 * h + 1] - most_here);
			sum[h] = sum[h] * power_of_2(top[h] - most_here) + quad_sum(part);
			top[h] = most_here;
		}
		__syncthreads();
	}
	float d[2];
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int r = row + h * 8;
		top[h] += log2f(sum[h]);
		d[h] = 0;
		if (r >= t.span) continue;
		float2& stats = t.stats[(int64)r * t.heads];
		d[h] = stats.y;
		if (threadIdx.x % 4 == 0) stats.x = top[h];
	}
	float dq[most / 8][4] = {};
	m.k[0].fill(t.k, t.ldk, from, t.span, t.dim);
	m.v[0].fill(t.v, t.ldv, from, t.span, t.dim);
	commit();
	for (int key = from, now = 0; key <= last; key += tile, now ^= 1) {
		if (key + tile <= last) {
			m.k[now ^ 1].fill(t.k, t.ldk, key + tile, t.span, t.dim);
			m.v[now ^ 1].fill(t.v, t.ldv, key + tile, t.span, t.dim);
		}
		commit();
		arrived<1>();
		__syncthreads();
		multiply_rows<tile>(s, q, m.k[now]);
		score(key);
		multiply_rows<tile>(dp, dy, m.v[now]);
		gradients_of(dp, s, cap, row_factor, [&](int, int i) { return top[i / 2]; }, [&](int, int i) { return d[i / 2]; });
		add_product<tile, most>(dq, dp, m.k[now]);
		__syncthreads();
	}
	add_to<most>(t.dq, t.lddq, first + warp * 16, t.span, t.dim, dq, 1 / lift_of(t.largest));
}

template <int tile, int most>
struct KeyTiles {
	Tile<side, most> k, v;
	Tile<tile, most> q[2], dy[2];
	float2 stats[2][tile];
	float factor[2][tile];

	// fill copies rows of one head.
	__device__ void fill(int at, const Task& t, int row) {
		q[at].fill(t.q, t.ldq, row, t.span, t.dim);
		dy[at].fill(t.dy, (int64)t.heads * t.dim, row, t.span, t.dim);
		for (int i = threadIdx.x; i < tile; i += threads) {
			stats[at][i] = row + i < t.span ? t.stats[(int64)(row + i) * t.heads] : make_float2(0, 0);
			factor[at][i] = t.scoring.factor(row + i);
		}
	}
};

template <int tile, int most>
__device__ void keys_back(Task all) {
	extern __shared__ uint4 memory[];
	KeyTiles<tile, most>& m = *(KeyTiles<tile, most>*)memory;
	int tiles = (all.span + side - 1) / side, group = all.heads / all.kv_heads, sequence = blockIdx.x / tiles;
	int first = blockIdx.x % tiles * side, warp = threadIdx.x / 32, q = threadIdx.x % 4, key = first + warp * 16 + threadIdx.x % 32 / 4;
	int end = all.window > 0 ? min(all.span, first + side - 1 + all.window) : all.span;
	int steps = (end - first + tile - 1) / tile, count = steps * group;
	auto of = [&](int step) {  // the task of a step's head
		Task t = all;
		t.move(sequence, blockIdx.y * group + step / steps, blockIdx.y);
		return t;
	};
	Task t = of(0);
	m.k.fill(t.k, t.ldk, first, t.span, t.dim);
	m.v.fill(t.v, t.ldv, first, t.span, t.dim);
	m.fill(0, t, first);
	commit();
	arrived<0>();
	__syncthreads();
	Held<side, most> k(m.k, warp * 16), v(m.v, warp * 16);
	k.load();
	v.load();
	float dk[most / 8][4] = {}, dv[most / 8][4] = {};
	for (int step = 0; step < count; step++) {
		int now = step % 2, row = first + step % steps * tile;
		if (step + 1 < count) m.fill(now ^ 1, of(step + 1), first + (step + 1) % steps * tile);
		commit();
		arrived<1>();
		__syncthreads();
		float s[tile / 8][4], dp[tile / 8][4], cap = t.scoring.cap;
		auto of_row = [&](int n, int i) { return n * 8 + 2 * q + i % 2; };
		auto factor = [&](int n, int i) { return m.factor[now][of_row(n, i)]; };
		auto log_sum = [&](int n, int i) { return m.stats[now][of_row(n, i)].x; };
		auto along = [&](int n, int i) { return m.stats[now][of_row(n, i)].y; };
		auto hidden = [&](int n, int i) { return !t.seen(row + of_row(n, i), key + i / 2 * 8); };
		multiply_rows<tile>(s, k, m.q[now]);
		scores_of(s, cap, t.all(row, tile, first, side), factor, hidden);
		multiply_rows<tile>(dp, v, m.dy[now]);
		gradients_of(dp, s, cap, factor, log_sum, along);
		add_product<tile, most>(dv, s, m.dy[now]);
		add_product<tile, most>(dk, dp, m.q[now]);
		__syncthreads();
	}
	float scale = 1 / lift_of(t.largest);
	add_to<most>(t.dk, t.lddk, first + warp * 16, t.span, t.dim, dk, scale);
	add_to<most>(t.dv, t.lddv, first + warp * 16, t.span, t.dim, dv, scale);
}

// A warp a row and head.
extern "C" __global__ void __launch_bounds__(32 * prepare_warps) attend_back_half_prepare(
	half* rounded,         // [rows, heads·dim]
	float* stats,          // [rows, heads, 2]
	const float* dy,       // [rows, heads·dim], rows lddy elements apart
	const half* y,         // likewise, ldy
	const float* largest,  // [1]
	int rows, int heads, int dim, long long lddy, long long ldy) {
	after_previous();
	int64 item = (int64)blockIdx.x * prepare_warps + threadIdx.x / 32, row = item / heads, head = item % heads;
	if (row >= rows) return;
	float lift = lift_of(largest), sum = 0;
	for (int c = threadIdx.x % 32; c < dim; c += 32) {
		float g = dy[row * lddy + head * dim + c] * lift;
		sum += g * __half2float(y[row * ldy + head * dim + c]);
		rounded[item * dim + c] = __float2half_rn(g);
	}
	for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
	if (threadIdx.x % 32 == 0) stats[2 * item + 1] = sum;
}

#define ATTEND_BACK(name, of, tile, most)                                                                       \
	extern "C" __global__ void __launch_bounds__(threads, most <= 64 ? 3 : 2) name(                             \
		float* dq, float* dk, float* dv, float* stats, const half* dy, const half* q, const half* k,            \
		const half* v, const float* sinks, const float* largest, int span, int heads, int kv_heads, int dim,    \
		int window, long long lddq, long long lddk, long long lddv, long long ldq, long long ldk,               \
		long long ldv, float scale, float softcap, float temperature, int temperature_span) {                   \
		after_previous();                                                                                       \
		of<tile, most>(Task{q, k, v, dy, sinks, largest, dq, dk, dv, (float2*)stats, span, heads, kv_heads,     \
		                    dim, window, ldq, ldk, ldv, lddq, lddk, lddv,                                       \
		                    {scale, softcap, temperature, temperature_span}});                                  \
	}

ATTEND_BACK(attend_back_half_rows_64, rows_back, rows_tile_64, 64)
ATTEND_BACK(attend_back_half_rows_128, rows_back, rows_tile_128, 128)
ATTEND_BACK(attend_back_half_keys_64, keys_back, keys_tile, 64)
ATTEND_BACK(attend_back_half_keys_128, keys_back, keys_tile, 128)
