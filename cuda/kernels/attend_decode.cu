// Attention of single rows, each of its own sequence: y = softmax(scale·q·Kᵀ)·V by
// heads over the positions up to the row's own. Where keys and values are given,
// they are the rows' own: queries and keys are rotated, and keys and values stored,
// by the blocks that need them.
//
// The units of work, of which every warp of a block takes 16 positions, are divided
// among blocks by split.cuh. A warp multiplies keys, then values, by all heads that
// share them with tensor cores, straight from memory to registers: dimensions of
// keys, and of values, are taken in the order in which lanes load them, 16 bytes at
// a time. Parts of an item are joined by the block that comes last.
//
// Sums are rescaled only when a score exceeds what they are relative to by 2⁸:
// weights are at most that, which fp16 holds as well as 1.
#include "attend.cuh"
#include "fault.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "rope.cuh"
#include "split.cuh"

constexpr int warps = 4, threads = 32 * warps;
constexpr int positions = at_once * warps;  // of a unit
constexpr int extra = 2;                    // numbers that a part has beside its sums: largest score, sum of weights
constexpr float log2e = 1.4426950408889634f, leeway = 8;

// Attend is what the kernel is given.
struct Attend {
	half* y;            // [rows, heads·dim], rows ldy elements apart
	const half* q;      // [rows, heads·dim]
	const half *k, *v;  // [rows, kv_heads·dim], or null: the cache has them
	const float* freqs;  // [pairs]
	const float* sinks;  // [heads], or null
	const int* pos;      // [rows]
	const int* seq;      // [rows]
	int* fault;
	float* parts;   // [blocks, 2, heads of a set, dim + extra]
	int* counters;  // [rows, sets]: zeros, and left so
	int rows, sequences, pages, heads, kv_heads, dim, pairs, interleaved;
	int64 ldy, ldq, ldk, ldv;
	float turn_scale;
	Scoring how;
	int window;

	// there reports whether a row's position has a page.
	__device__ bool there(const Cache& c, int row) const {
		int p = pos[row], of = seq[row];
		if (of < 0 || of >= sequences || p < 0 || p / c.page_rows >= c.table_cols) return false;
		int page = c.table[of * c.table_cols + p / c.page_rows];
		return page >= 0 && page < pages;
	}
};

// Shared is the shared memory of a block: queries, the new key and value, and what
// the warps have found.
template <int D, int N>
struct Shared {
	static constexpr int heads = 8 * N, stride = D + 8;
	half q[heads][stride], k[D], v[D];
	float2 turns[D / 2];
	float sums[warps][heads][D + 4], top[warps][heads], sum[warps][heads];
	int last;
};

// Heads are those that an item's block takes: count from first on, and their head
// of keys.
struct Heads {
	int kv, first, count;
	__device__ Heads(const Attend& a, int set, int most) {
		int group = a.heads / a.kv_heads, sets = (group + most - 1) / most;
		kv = set / sets, first = kv * group + set % sets * most;
		count = min(most, (kv + 1) * group - first);
	}
};

// rotate copies a head to shared memory, from thread `at` of `step` on, with the
// rotation of its position.
template <int D>
__device__ inline void rotate(half* to, const half* from, const Attend& a, const float2* turns, int at, int step) {
	for (int i = at; i < D / 2; i += step) {
		bool turned = i < a.pairs, apart = turned && !a.interleaved;
		int x = apart ? i : 2 * i, y = apart ? i + a.pairs : 2 * i + 1;
		half zero = __float2half(0), u = x < a.dim ? from[x] : zero, v = y < a.dim ? from[y] : zero;
		if (turned) {
			float2 t = turns[i];
			float c = widen(u), s = widen(v);
			narrow(u, c * t.x - s * t.y);
			narrow(v, s * t.x + c * t.y);
		}
		to[x] = u, to[y] = v;
	}
}

// prepare brings an item's queries to shared memory, and, to the block that has the
// item's last unit, the new key and value, which it stores if the set is its head's
// first.
template <int D, int N>
__device__ inline void prepare(Shared<D, N>& m, const Attend& a, const Cache& c, const Item& item, const Heads& h, bool newest) {
	int pos = a.pos[item.row], head = threadIdx.x / 32;
	if (a.k && a.pairs)
		for (int i = threadIdx.x; i < a.pairs; i += threads) {
			float2 t = turn((double)pos * (double)a.freqs[i]);
			m.turns[i] = make_float2(t.x * a.turn_scale, t.y * a.turn_scale);
		}
	__syncthreads();
	const half* q = a.q + item.row * a.ldq + h.first * a.dim;
	for (; head < 8 * N; head += warps) {
		if (head < h.count)
			rotate<D>(m.q[head], q + head * a.dim, a, m.turns, threadIdx.x % 32, 32);
		else
			for (int i = threadIdx.x % 32; i < D; i += 32) m.q[head][i] = __float2half(0);
	}
	if (a.k && newest) {
		const half* v = a.v + item.row * a.ldv + h.kv * a.dim;
		rotate<D>(m.k, a.k + item.row * a.ldk + h.kv * a.dim, a, m.turns, threadIdx.x, threads);
		for (int i = threadIdx.x; i < D; i += threads) m.v[i] = i < a.dim ? v[i] : __float2half(0);
	}
	__syncthreads();
	if (a.k && newest && h.first == h.kv * (a.heads / a.kv_heads)) {
		int64 at = c.row(a.seq[item.row], pos) + h.kv * a.dim;
		for (int i = threadIdx.x; i < a.dim; i += threads) ((half*)c.k)[at + i] = m.k[i], ((half*)c.v)[at + i] = m.v[i];
	}
}

// eight reads eight elements of a row of dim from `at` on, zeros past its end. Where
// heads are `full`, all of them are there and rows are at 16 bytes.
template <bool full>
__device__ inline uint4 eight(const half* row, int at, int dim) {
	if (full) return *(const uint4*)(row + at);
	Eight<half> e;
	if (whole(row, at, dim)) return *(const uint4*)(row + at);
#pragma unroll
	for (int j = 0; j < 8; j++) e.v[j] = at + j < dim ? row[at + j] : __float2half(0);
	return e.words[0];
}

// transposed is a matrix of 8 x 8 halves, a pair a lane as mma has them, transposed.
__device__ inline u32 transposed(u32 x) {
	u32 y;
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
	return y;
}

__device__ inline u32 pack(float a, float b) {
	half2 h = __floats2half2_rn(a, b);
	return *(u32*)&h;
}

__device__ inline u32 lows(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
__device__ inline u32 highs(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

// State is what a warp has found for eight heads and n times as many: of heads 2q and
// 2q+1, with g = lane/4 and q = lane%4, out[4j+w] has dimensions 64j + 8g + 2w and the
// next, first of one head, then of the other in between; top and sum are a lane's own
// positions'.
template <int D, int N>
struct State {
	float out[N][D / 16][4] = {}, top[N][2], sum[N][2] = {};
	__device__ State() {
		for (int n = 0; n < N; n++) top[n][0] = top[n][1] = no_score;
	}

	// raise makes the sums relative to the largest scores so far.
	__device__ void raise(const float (&s)[N][4]) {
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float most = fmaxf(top[n][e], fmaxf(s[n][e], s[n][e + 2]));
#pragma unroll
				for (int step = 4; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
				float shrink = exp2f(top[n][e] - most);
				sum[n][e] *= shrink, top[n][e] = most;
#pragma unroll
				for (int j = 0; j < D / 16; j++) out[n][j][e] *= shrink, out[n][j][e + 2] *= shrink;
			}
	}

	// add adds the values of 16 positions, of which scores have g and g + 8.
	__device__ void add(float (&s)[N][4], const uint4 (&v)[D / 64][4]) {
		bool grows = false;
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) grows |= s[n][e] > top[n][e % 2] + leeway;
		if (__any_sync(~0u, grows)) raise(s);
		u32 b[N][2];
#pragma unroll
		for (int n = 0; n < N; n++) {
#pragma unroll
			for (int e = 0; e < 4; e++) s[n][e] = exp2f(s[n][e] - top[n][e % 2]), sum[n][e % 2] += s[n][e];
			b[n][0] = transposed(pack(s[n][0], s[n][1])), b[n][1] = transposed(pack(s[n][2], s[n][3]));
		}
#pragma unroll
		for (int j = 0; j < D / 64; j++) {
			const u32 *v0 = &v[j][0].x, *v1 = &v[j][1].x, *v2 = &v[j][2].x, *v3 = &v[j][3].x;
#pragma unroll
			for (int w = 0; w < 4; w++) {
				u32 a[4] = {lows(v0[w], v1[w]), highs(v0[w], v1[w]), lows(v2[w], v3[w]), highs(v2[w], v3[w])};
#pragma unroll
				for (int n = 0; n < N; n++) mma(out[n][4 * j + w], a, b[n]);
			}
		}
	}

	// put stores what the warp has found for `count` heads.
	__device__ void put(Shared<D, N>& m, int count) {
		int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4;
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float all = sum[n][e];
				for (int step = 4; step < 32; step *= 2) all += __shfl_xor_sync(~0u, all, step);
				int head = 8 * n + 2 * q + e;
				if (head >= count) continue;
				if (g == 0) m.top[warp][head] = top[n][e], m.sum[warp][head] = all;
#pragma unroll
				for (int j = 0; j < D / 16; j++)
					*(float2*)&m.sums[warp][head][j / 4 * 64 + g * 8 + j % 4 * 2] = make_float2(out[n][j][e], out[n][j][e + 2]);
			}
	}
};

// Walk is how a lane reads 16 positions of a sequence at a time, the first of which
// is a multiple of that, and whose last is the last that its row sees.
template <int D, bool full>
struct Walk {
	const half *k, *v;  // of the head
	int cols, dim;
	uint4 keys[D / 32][2], values[D / 64][4];  // of positions g and g + 8; of 2q, 2q + 1, and those 8 further

	// last is the last of the 16 positions that is seen: those behind it are read as it.
	__device__ void read_keys(int64 at, int last) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
		const half *one = k + at + min(g, last) * cols, *two = k + at + min(g + 8, last) * cols;
#pragma unroll
		for (int j = 0; j < D / 32; j++) keys[j][0] = eight<full>(one, 32 * j + 8 * q, dim), keys[j][1] = eight<full>(two, 32 * j + 8 * q, dim);
	}
	__device__ void read_values(int64 at, int last) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const half* row = v + at + min(2 * q + i % 2 + i / 2 * 8, last) * cols;
#pragma unroll
			for (int j = 0; j < D / 64; j++) values[j][i] = eight<full>(row, 64 * j + 8 * g, dim);
		}
	}
	// put_key and put_value put a row that is in shared memory in the place of the last.
	__device__ void put_key(const half* row, int last) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < 2; i++)
			if (g + 8 * i >= last)
#pragma unroll
				for (int j = 0; j < D / 32; j++) keys[j][i] = *(const uint4*)(row + 32 * j + 8 * q);
	}
	__device__ void put_value(const half* row, int last) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (2 * q + i % 2 + i / 2 * 8 >= last)
#pragma unroll
				for (int j = 0; j < D / 64; j++) values[j][i] = *(const uint4*)(row + 64 * j + 8 * g);
	}
	// multiply returns the products of the keys with the queries of 8·N heads.
	template <int N>
	__device__ void multiply(float (&s)[N][4], const Shared<D, N>& m) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int j = 0; j < D / 32; j++) {
			u32 low[4] = {keys[j][0].x, keys[j][1].x, keys[j][0].y, keys[j][1].y}, high[4] = {keys[j][0].z, keys[j][1].z, keys[j][0].w, keys[j][1].w};
#pragma unroll
			for (int n = 0; n < N; n++) {
				uint4 x = *(const uint4*)&m.q[8 * n + g][32 * j + 8 * q];
				u32 first[2] = {x.x, x.y}, second[2] = {x.z, x.w};
				mma(s[n], low, first);
				mma(s[n], high, second);
			}
		}
	}
};

// attend_units has the warp's positions of units from..to-1 of an item.
template <int D, int N, bool full>
__device__ inline void attend_units(State<D, N>& state, const Shared<D, N>& m, const Attend& a, const Cache& c, const Item& item, int kv, int from, int to) {
	constexpr bool ahead = D <= 128;  // there are registers for the next keys
	int pos = a.pos[item.row], of = a.seq[item.row], g = threadIdx.x % 32 / 4;
	Span span(pos, a.window);
	float cap = a.how.cap, factor = a.how.factor(pos) * (cap == 0 ? log2e : 1);
	Walk<D, full> walk = {c.k + kv * a.dim, c.v + kv * a.dim, c.cols, a.dim};
	int chunk = span.chunk() + from * warps + threadIdx.x / 32, end = min(span.chunk() + to * warps, span.chunks_end());
	if (chunk >= end) return;
	int64 at = c.row(of, chunk * at_once), next;
	if (ahead) walk.read_keys(at, pos - chunk * at_once);
#pragma unroll 1
	for (; chunk < end; chunk += warps, at = next) {
		int first = chunk * at_once, last = pos - first;
		bool newest = a.k && last < at_once, more = chunk + warps < end;
		if (!ahead) walk.read_keys(at, last);
		walk.read_values(at, last);
		next = more ? c.row(of, first + positions) : 0;
		if (newest) walk.put_key(m.k, last);
		float s[N][4] = {};
		walk.multiply(s, m);
		if (ahead && more) walk.read_keys(next, last - positions);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int p = first + g + e / 2 * 8;
				float score = cap == 0 ? s[n][e] * factor : capped(s[n][e] * factor, cap) * log2e;
				s[n][e] = p >= span.start && p < span.end ? score : no_score;
			}
		if (newest) walk.put_value(m.v, last);
		state.add(s, walk.values);
	}
}

// Join adds parts of sums that are relative to different scores.
struct Join {
	float top = no_score, sum = 0, out = 0;
	__device__ void add(float t, float s, float o) {
		float most = fmaxf(top, t), mine = exp2f(top - most), others = exp2f(t - most);
		sum = sum * mine + s * others, out = out * mine + o * others, top = most;
	}
	// result takes in the sink of the head, if there is one.
	__device__ half result(const float* sink) {
		if (sink) add(*sink * log2e, 1, 0);
		return __float2half_rn(out / sum);
	}
};

// finish joins what the warps have found, and, in the block that comes last of those
// that have a part of the item, what the blocks have found.
template <int D, int N>
__device__ inline void finish(Shared<D, N>& m, const Attend& a, const Split& split, const Item& item, const Heads& h, bool begins) {
	int first = split.block(item.first), last = split.block(item.first + item.units - 1), stride = a.dim + extra;
	auto part = [&](int block, bool begins, int head) { return a.parts + ((int64)(2 * block + begins) * 8 * N + head) * stride; };
	half* y = a.y + item.row * a.ldy + h.first * a.dim;
	for (int i = threadIdx.x; i < h.count * a.dim; i += threads) {
		int head = i / a.dim, at = i % a.dim;
		Join join;
#pragma unroll
		for (int w = 0; w < warps; w++) join.add(m.top[w][head], m.sum[w][head], m.sums[w][head][at]);
		if (first == last) {
			y[i] = join.result(a.sinks ? a.sinks + h.first + head : nullptr);
			continue;
		}
		float* to = part(blockIdx.x, begins, head);
		to[at] = join.out;
		if (at == 0) to[a.dim] = join.top, to[a.dim + 1] = join.sum;
	}
	if (first == last) return;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		int* counter = a.counters + item.row * split.sets + item.set;
		m.last = atomicAdd(counter, 1) == last - first;
		if (m.last) *counter = 0;
	}
	__syncthreads();
	if (!m.last) return;
	__threadfence();
	for (int i = threadIdx.x; i < h.count * a.dim; i += threads) {
		int head = i / a.dim, at = i % a.dim;
		Join join;
#pragma unroll 4
		for (int block = first; block <= last; block++) {
			const float* from = part(block, block == first, head);
			join.add(__ldcg(from + a.dim), __ldcg(from + a.dim + 1), __ldcg(from + at));
		}
		y[i] = join.result(a.sinks ? a.sinks + h.first + head : nullptr);
	}
}

template <int D, int N, bool full>
__device__ void attend(const Attend& a, const Cache& c) {
	__shared__ __align__(16) Shared<D, N> m;
	after_previous();
	int group = a.heads / a.kv_heads, sets = a.kv_heads * ((group + 8 * N - 1) / (8 * N));
	Split split(a.pos, a.rows, sets, a.window, warps);
	int unit = split.first(blockIdx.x), end = split.first(blockIdx.x + 1);
	while (unit < end) {
		Item item = split.find(unit);
		Heads heads(a, item.set, 8 * N);
		int from = unit - item.first, to = min(end - item.first, item.units);
		unit = item.first + to;
		if (!a.there(c, item.row)) {
			if (threadIdx.x == 0) report(a.fault, position_fault, a.pos[item.row], c.table_cols * c.page_rows);
			continue;
		}
		prepare(m, a, c, item, heads, to == item.units);
		State<D, N> state;
		attend_units<D, N, full>(state, m, a, c, item, heads.kv, from, to);
		state.put(m, heads.count);
		__syncthreads();
		finish(m, a, split, item, heads, from == 0);
		__syncthreads();
	}
}

// Names are of the largest dimension, the heads of a set, and whether dimensions may
// be any.
#define ATTEND(name, D, N, full, blocks)                                                            \
	extern "C" __global__ void __launch_bounds__(threads, blocks)                                   \
	name(half* y, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const int* pos, const int* seq, const int* table,  \
	     int* fault, float* parts, int* counters, int rows, int sequences, int table_cols, int pages,\
	     int page_rows, int heads, int kv_heads, int dim, int pairs, int interleaved, int64 ldy,    \
	     int64 ldq, int64 ldk, int64 ldv, float turn_scale, float scale, float cap,                 \
	     float temperature, int temperature_span, int window) {                                     \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<D, N, full>({y, q, k, v, freqs, sinks, pos, seq, fault, parts, counters, rows,      \
		                    sequences, pages, heads, kv_heads, dim, pairs, interleaved, ldy, ldq, ldk, ldv,           \
		                    turn_scale, {scale, cap, temperature, temperature_span}, window}, c);     \
	}

ATTEND(attend_decode_64_8, 64, 1, true, 4)
ATTEND(attend_decode_64_16, 64, 2, true, 3)
ATTEND(attend_decode_128_8, 128, 1, true, 3)
ATTEND(attend_decode_128_16, 128, 2, true, 2)
ATTEND(attend_decode_256_8, 256, 1, true, 2)
ATTEND(attend_decode_64_any, 64, 1, false, 3)
ATTEND(attend_decode_128_any, 128, 1, false, 3)
ATTEND(attend_decode_256_any, 256, 1, false, 2)
