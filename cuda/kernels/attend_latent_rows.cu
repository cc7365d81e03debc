// Latent attention of single rows: as attend_latent.cu, but a team of eight warps has the same sixteen heads, and what blocks find
// is joined by whoever multiplies it (gemv_heads.cu). A row has as many blocks as its length wants.
//
// Of positions, which pass through shared memory, eight for each warp of a team at a time, a warp multiplies some columns of the keys of 32 by the queries,
// weighs eight, and then multiplies its share of the values' columns by all weights.
#include "latent.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "quad.cuh"

constexpr int most_dim = 576, most_latent = 512;
constexpr int padding = 8;  // of a row in shared memory
constexpr int stride = most_dim + padding;
constexpr int queries = 16;  // heads of a team
constexpr int slices = 4;    // of columns, of a warp each

// Task is what the kernel is given.
struct Task {
	Found found;
	const half* q;  // [rows, heads·dim], rows ldq elements apart
	const int *pos, *seq;
	int dim, sequences, pages;
	int64 ldq;
	Scoring how;
	int window;
};

// Shape is that of a block: teams of warps, and how many halves of the keys that these take at a time are there or on their way.
template <int teams_, int team_, int stages_>
struct Shape {
	static constexpr int teams = teams_, team = team_, stages = stages_;
	static constexpr int warps = teams * team, heads = teams * queries;
	static constexpr int keys = 8 * team, half_of = keys / 2;  // at a time
	static constexpr int tiles = most_latent / team / 8;       // of eight columns, of a warp
	static_assert(half_of % 16 == 0 && team % slices == 0, "as score has it");
};

// Shared is the shared memory of a block.
template <class S>
struct Shared {
	half q[S::heads][stride], k[S::stages][S::half_of][stride];
	half weights[S::heads][S::keys + padding];
	float top[S::team][S::heads];                            // of a tile, by the warps of a team
	float4 left[S::warps / slices][slices][slices - 1][32];  // products of some columns, for the warps that have the others
};

// Tile is the keys that are multiplied at a time, in two places.
struct Tile {
	const half (*first)[stride], (*second)[stride];
};

// State is what a warp has found of heads g and g + 8 of its team, g = lane/4: sums of its columns, and of the weights of its positions.
template <int tiles>
struct State {
	float out[tiles][4] = {}, top[2] = {no_score, no_score}, sum[2] = {0, 0};
};

// Keys is how positions of a row come to shared memory, half a tile at a time.
template <class S>
struct Keys {
	static constexpr int rows = S::half_of / S::warps;  // of a warp
	Shared<S>& m;
	const Cache& c;
	int seq, dim, end, last;  // of whole tiles: behind the end, the last one is there again
	int next, stage = 0;      // what is asked for next, and where it goes
	int own;                  // where the key of the lane's row of that is, in rows of the cache

	__device__ Keys(Shared<S>& m, const Cache& c, int seq, int dim, int start, int end)
		: m(m), c(c), seq(seq), dim(dim), end(end), last(start + (end - start + S::keys - 1) / S::keys * S::keys), next(start) { find(); }
	__device__ void find() {
		int p = min(next + (int)threadIdx.x / 32 * rows + (int)threadIdx.x % 32 % rows, end - 1);
		own = c.table[seq * c.table_cols + p / c.page_rows] * c.page_rows + p % c.page_rows;
	}

	// ask asks for the next half of a tile, if there is one. All threads call it.
	__device__ void ask() {
		static_assert(most_dim / 8 <= 64 + 8 && 32 % rows == 0 && rows <= 4 && rows * S::warps == S::half_of, "a row is two words of 16 bytes a lane, and eight more");
		int lane = threadIdx.x % 32;
		if (next < last) {
			half(*to)[stride] = m.k[stage] + threadIdx.x / 32 * rows;
			const half* first = c.k + lane * 8;
#pragma unroll
			for (int r = 0; r < rows; r++) {
				const half* row = first + (int64)__shfl_sync(~0u, own, r) * dim;
				if (lane * 8 < dim) copy16(&to[r][lane * 8], row, true);
				if (lane * 8 + 256 < dim) copy16(&to[r][lane * 8 + 256], row + 256, true);
			}
			int r = lane / 8 % rows, at = 512 + lane % 8 * 8;
			const half* row = c.k + (int64)__shfl_sync(~0u, own, r) * dim;
			if (lane / 8 < rows && at < dim) copy16(&to[r][at], row + at, true);
			if ((next += S::half_of) < last) find();
		}
		commit();
		stage = (stage + 1) % S::stages;
	}
};

// score returns the products of a team's queries with the warp's eight keys. Four warps have the same 32 keys, and a part of the columns each.
template <class S>
__device__ inline void score(float (&s)[4], Shared<S>& m, const Tile& k, int dim) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, mine = warp % slices, group = warp % S::team / slices;
	int steps = ((dim + 15) / 16 + slices - 1) / slices, from = mine * steps * 16, to = min(dim, from + steps * 16);
	const half *q = &m.q[warp / S::team * queries + lane % 16][lane / 16 * 8], *keys[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		int at = group * 32 + i * 16;
		keys[i] = &(at < S::half_of ? k.first : k.second)[at % S::half_of + lane % 8 + lane / 16 * 8][lane / 8 % 2 * 8];
	}
	float all[slices][4] = {};
#pragma unroll 3
	for (int at = from; at < to; at += 16) {
		u32 a[4], b[2][4];
		ldmatrix(a, q + at);
		ldmatrix(b[0], keys[0] + at), ldmatrix(b[1], keys[1] + at);
#pragma unroll
		for (int n = 0; n < slices; n++) {
			u32 of[2] = {b[n / 2][n % 2 * 2], b[n / 2][n % 2 * 2 + 1]};
			mma(all[n], a, of);
		}
	}
	auto& left = m.left[warp / slices];
#pragma unroll
	for (int n = 0; n < slices; n++) {
		if (n == mine)
			for (int e = 0; e < 4; e++) s[e] = all[n][e];
		else
			left[mine][n - (n > mine)][lane] = make_float4(all[n][0], all[n][1], all[n][2], all[n][3]);
	}
	asm volatile("bar.sync %0, %1;" ::"r"(1 + warp / slices), "r"(32 * slices) : "memory");
#pragma unroll
	for (int n = 0; n < slices; n++) {
		if (n == mine) continue;
		float4 v = left[n][mine - (mine > n)][lane];
		s[0] += v.x, s[1] += v.y, s[2] += v.z, s[3] += v.w;
	}
}

// weigh turns scores, for which all have waited, into weights in shared memory.
template <class S>
__device__ inline void weigh(State<S::tiles>& state, Shared<S>& m, const float (&s)[4]) {
	constexpr int team = S::team;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, row = warp / team * queries + lane / 4;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float top = state.top[h];
#pragma unroll
		for (int w = 0; w < team; w++) top = fmaxf(top, m.top[w][row + 8 * h]);
		float shrink = exp2f(state.top[h] - top), a = exp2f(s[2 * h] - top), b = exp2f(s[2 * h + 1] - top);
		*(u32*)&m.weights[row + 8 * h][warp % team * 8 + lane % 4 * 2] = pack(a, b);
		state.sum[h] = state.sum[h] * shrink + a + b, state.top[h] = top;
		if (shrink != 1)
#pragma unroll
			for (int j = 0; j < S::tiles; j++) state.out[j][2 * h] *= shrink, state.out[j][2 * h + 1] *= shrink;
	}
}

// add adds a tile's weighted values, of columns from `first` on: of more than the warp stores, if these are few.
template <class S>
__device__ inline void add(State<S::tiles>& state, const Shared<S>& m, const Tile& v, int first) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
	for (int i = 0; i < S::keys / 16; i++) {
		u32 a[4], b[S::tiles / 2][4];
		ldmatrix(a, &m.weights[warp / S::team * queries + lane % 16][16 * i + lane / 16 * 8]);
		const half* from = &(16 * i < S::half_of ? v.first : v.second)[16 * i % S::half_of + lane % 16][first + lane / 16 * 8];
#pragma unroll
		for (int j = 0; j < S::tiles / 2; j++) ldmatrix_trans(b[j], from + 16 * j);
#pragma unroll
		for (int j = 0; j < S::tiles / 2; j++) {
			u32 low[2] = {b[j][0], b[j][1]}, high[2] = {b[j][2], b[j][3]};
			mma(state.out[2 * j], a, low);
			mma(state.out[2 * j + 1], a, high);
		}
	}
}

// leave stores what the block has found.
template <class S>
__device__ inline void leave(State<S::tiles>& state, Shared<S>& m, const Found& found, int first, int count) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, side = warp % S::team;
	__syncthreads();
#pragma unroll
	for (int h = 0; h < 2; h++) {
		float sum = quad_sum(state.sum[h]);
		if (lane % 4 == 0) m.top[side][warp / S::team * queries + lane / 4 + 8 * h] = sum;
	}
	__syncthreads();
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int i = warp / S::team * queries + lane / 4 + 8 * h, head = blockIdx.y * S::heads + i;
		if (head >= found.heads) continue;
		int64 at = found.of(blockIdx.z, head, blockIdx.x);
		float sum = 0;
		for (int w = 0; w < S::team; w++) sum += m.top[w][i];
		float inverse = 1 / sum;
		if (side == 0 && lane % 4 == 0) *(float2*)(found.totals + 2 * at) = make_float2(state.top[h], sum);
#pragma unroll
		for (int j = 0; j < S::tiles; j++)
			if (8 * j < count && first + 8 * j < found.latent) *(u32*)(found.means + at * found.latent + first + 8 * j + lane % 4 * 2) = pack(state.out[j][2 * h] * inverse, state.out[j][2 * h + 1] * inverse);
	}
}

// bring_queries asks for those of a block, with zeros behind their columns, and where there are no heads.
template <class S>
__device__ inline void bring_queries(Shared<S>& m, const Task& t) {
	constexpr int threads = 32 * S::warps, chunks = stride / 8;
	const half* q = t.q + blockIdx.z * t.ldq;
	for (int i = threadIdx.x; i < S::heads * chunks; i += threads) {
		int r = i / chunks, at = i % chunks * 8, head = blockIdx.y * S::heads + r;
		bool there = head < t.found.heads && at < t.dim;
		copy16(&m.q[r][at], there ? q + head * t.dim + at : t.q, there);
	}
}

template <class S>
__device__ void attend(const Task& t, const Cache& c) {
	extern __shared__ uint4 memory[];
	Shared<S>& m = *(Shared<S>*)memory;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, side = warp % S::team, behind = (stride - t.dim) / 8;
	for (int i = threadIdx.x; i < S::stages * S::half_of * behind; i += 32 * S::warps) *(uint4*)&m.k[0][i / behind][t.dim + i % behind * 8] = make_uint4(0, 0, 0, 0);
	after_previous();
	int pos = t.pos[blockIdx.z], seq = t.seq[blockIdx.z];
	Divided seen(pos, t.window);
	int parts = seen.parts(gridDim.x), all = seen.tiles(), part = blockIdx.x;
	if (pos < 0 || part >= parts || seq < 0 || seq >= t.sequences || pos / c.page_rows >= c.table_cols) return;
	int page = c.table[seq * c.table_cols + pos / c.page_rows];
	if (page < 0 || page >= t.pages) return;
	bring_queries(m, t);  // with the first keys
	int start = seen.start + all * part / parts * at_once, end = min(seen.end, seen.start + all * (part + 1) / parts * at_once);
	Keys<S> keys(m, c, seq, t.dim, start, end);
	for (int i = 0; i < S::stages - 2; i++) keys.ask();
	State<S::tiles> state;
	float cap = t.how.cap, factor = t.how.factor(pos);
	int each = (t.found.latent + S::team * 16 - 1) / (S::team * 16) * 16, first = side * each, row = warp / S::team * queries + lane / 4;
	for (int from = start, stage = 0; from < end; from += S::keys, stage = (stage + 2) % S::stages) {
		arrived<S::stages - 4>();
		__syncthreads();
		keys.ask(), keys.ask();  // where all have read the tile before
		Tile tile = {m.k[stage], m.k[(stage + 1) % S::stages]};
		float s[4] = {};
		score(s, m, tile, t.dim);
#pragma unroll
		for (int h = 0; h < 2; h++) {
#pragma unroll
			for (int e = 2 * h; e < 2 * h + 2; e++) {
				int p = from + side * 8 + lane % 4 * 2 + e % 2;
				s[e] = p < end ? capped(s[e] * factor, cap) * log2e : no_score;
			}
			float most = quad_max(fmaxf(s[2 * h], s[2 * h + 1]));
			if (lane % 4 == 0) m.top[side][row + 8 * h] = most;
		}
		__syncthreads();
		weigh(state, m, s);
		__syncthreads();
		add(state, m, tile, t.dim - t.found.latent + first);
	}
	leave(state, m, t.found, first, each);
}

// Names are of the teams of a block.
#define ATTEND(name, teams, team, stages)                                                                        \
	extern "C" __global__ void __launch_bounds__(32 * teams * team, 1)                                           \
	name(half* means, float* totals, const half* q, const half* k, const int* table, const int* pos, const int* seq, \
	     int table_cols, int sequences, int pages, int page_rows, int heads, int most, int dim, int latent, int64 ldq,                \
	     float scale, float cap, float temperature, int temperature_span, int window) {                          \
		Cache c = {k, k, table, table_cols, page_rows, dim};                                                     \
		attend<Shape<teams, team, stages>>({{means, totals, heads, most, latent}, q, pos, seq, dim, sequences, pages, ldq,             \
		                                    {scale, cap, temperature, temperature_span}, window}, c);                         \
	}

ATTEND(attend_latent_rows_2, 2, 8, 4)
ATTEND(attend_latent_rows_1, 1, 8, 4)
ATTEND(attend_latent_rows_small, 1, 4, 4)
