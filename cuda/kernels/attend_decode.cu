// Attention of single rows, each of its own sequence: y = softmax(scale·q·Kᵀ)·V by
// heads over the positions up to the row's own. Where keys and values are given,
// they are the rows' own: queries and keys are rotated, and keys and values stored,
// by the blocks that need them.
//
// split.cuh says who does what. Parts of an item are joined by the block that comes
// last.
#include "join_parts.cuh"
#include "split.cuh"

constexpr int extra = 4;  // numbers of a part beside its sums: largest score, sum of weights, and two that keep 16 bytes

// Parts are where parts of items go.
struct Parts {
	float* sums;    // [blocks, 2, heads of a set, dim + extra, in multiples of 4]
	int* counters;  // [rows, sets]: zeros, and left so
	int stride;     // of a head

	// of returns a block's part of a head: a block has two at most, that of an item which
	// it begins, and that of one which another has begun.
	__device__ float* of(int block, bool begins, int head, int heads) const { return sums + ((int64)(2 * block + begins) * heads + head) * stride; }
};

// Shared is the shared memory of a block: queries, the new key and value, and what
// the warps have found.
template <int warps, int D, int N>
struct Shared {
	half q[8 * N][D + 8], k[D], v[D];
	float2 turns[D / 2];
	float sums[warps][8 * N][D + 4], top[8 * N][warps], sum[8 * N][warps];
	int last;

	__device__ float* of(int warp, int head, int) { return sums[warp][head]; }
};

// prepare brings an item's queries to shared memory, and, to the block with the item's
// last unit, the new key and value, which it stores if its heads lead.
template <int warps, int D, int N, bool full>
__device__ inline void prepare(Shared<warps, D, N>& m, const Attend& a, const Cache& c, const Item& item, const Heads& h, bool newest) {
	int pos = a.pos[item.row], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	if (a.pairs) {
		for (int i = threadIdx.x; i < a.pairs; i += 32 * warps) {
			float2 t = turn((double)pos * (double)a.freqs[i]);
			m.turns[i] = make_float2(t.x * a.turn_scale, t.y * a.turn_scale);
		}
		__syncthreads();
	}
	const half* q = a.q + item.row * a.ldq + h.first * a.dim;
	for (int head = warp; head < 8 * N; head += warps) {
		if (head < h.count)
			bring<D, full>(m.q[head], q + head * a.dim, a.norms.q, a, m.turns);
		else
			for (int i = lane; i < D; i += 32) m.q[head][i] = __float2half(0);
	}
	if (newest) {
		const half* v = a.v + item.row * a.ldv + h.kv * a.dim;  // the last warp has the fewest queries
		if (warp == warps - 1) bring<D, full>(m.k, a.k + item.row * a.ldk + h.kv * a.dim, a.norms.k, a, m.turns);
		for (int i = threadIdx.x; i < D; i += 32 * warps) m.v[i] = i < a.dim ? v[i] : __float2half(0);
	}
	__syncthreads();
	if (!newest || !h.leads) return;
	int64 at = c.row(a.seq[item.row], pos);
	for (int i = threadIdx.x; i < a.dim; i += 32 * warps) ((half*)c.k)[at + h.kv * a.dim + i] = m.k[i], ((half*)c.v)[at + h.kv * a.dim + i] = m.v[i];
}

// attend_units has the warp's positions of units from..to-1 of an item, whose queries
// are prepared meanwhile.
template <int warps, int D, int N, bool full>
__device__ inline void attend_units(State<D, N>& state, Shared<warps, D, N>& m, const Attend& a, const Cache& c, const Item& item, const Heads& h, int from, int to) {
	constexpr bool ahead = D <= 128;  // there are registers for the next keys
	int pos = a.pos[item.row], of = a.seq[item.row], g = threadIdx.x % 32 / 4;
	Span span(pos, a.window);
	Walk<D, full> walk = {c.k + h.kv * a.dim, c.v + h.kv * a.dim, c.cols, a.dim};
	int chunk = span.chunk() + from * warps + threadIdx.x / 32, end = min(span.chunk() + to * warps, span.chunks_end());
	int64 at = chunk < end ? c.row(of, chunk * at_once) : 0, next = 0;
	if (ahead && chunk < end) walk.read_keys(at, pos - chunk * at_once);
	bool newest = a.k && to == item.units;
	prepare<warps, D, N, full>(m, a, c, item, h, newest);
	float cap = a.how.cap, factor = a.how.factor(pos) * (cap == 0 ? log2e : 1);
#pragma unroll 1
	for (; chunk < end; chunk += warps, at = next) {
		int first = chunk * at_once, last = pos - first;
		bool own = newest && last < at_once, more = chunk + warps < end;
		if (!ahead) walk.read_keys(at, last);
		walk.read_values(at, last);
		if (more) next = c.row(of, first + at_once * warps);
		if (own) walk.put_keys(m.k, last);
		float s[N][4] = {};
		walk.multiply(s, m.q);
		if (ahead && more) walk.read_keys(next, last - at_once * warps);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int p = first + g + e / 2 * 8;
				float score = cap == 0 ? s[n][e] * factor : capped(s[n][e] * factor, cap) * log2e;
				s[n][e] = p >= span.start && p < span.end ? score : no_score;
			}
		if (own) walk.put_values(m.v, last);
		state.add(s, walk.values);
	}
}

// Sharing is an item's parts: those of blocks first to last.
struct Sharing {
	int first, last;
};

// finish joins what the warps have found: the result, if the block has the whole item,
// or a part.
template <int warps, int D, int N, bool full>
__device__ inline void finish(Shared<warps, D, N>& m, const Attend& a, const Parts& parts, const Item& item, const Heads& h, const Spot& first, const Sharing& share, int sets) {
	int vectors = (a.dim + 3) / 4, block = blockIdx.x;
	half* y = a.y + item.row * a.ldy;
	for (int i = threadIdx.x; i < h.count * vectors; i += 32 * warps) {
		int head = i / vectors, at = i % vectors * 4;
		Part p[warps];
#pragma unroll
		for (int w = 0; w < warps; w++) p[w] = {m.top[head][w], m.sum[head][w], *(const float4*)&m.sums[w][head][at]};
		Part sum = join(p);
		if (share.first == share.last) {
			put_result<full>(a, y, i < 32 * warps ? first : Spot(a, (h.first + head) * a.dim + at), sum, h.first + head, at);
			continue;
		}
		float* to = parts.of(block, block == share.first, head, 8 * N);
		*(float4*)(to + at) = sum.out;
		if (at == 0) *(float2*)(to + parts.stride - extra) = make_float2(sum.top, sum.sum);
	}
	if (share.first == share.last) return;
	__threadfence();
	__syncthreads();
	if (threadIdx.x == 0) {
		int* counter = parts.counters + item.row * sets + item.set;
		m.last = atomicAdd(counter, 1) == share.last - share.first;
		if (m.last) *counter = 0, __threadfence();
	}
	__syncthreads();
	if (!m.last) return;
	join_parts<32 * warps, full>((Part*)m.sums, a, h, y, share.last - share.first + 1, parts.stride - extra,
	                             [&](int i, int head) { return parts.of(share.first + i, i == 0, head, 8 * N); });
}

template <int warps, int D, int N, bool full>
__device__ void attend(const Attend& a, const Cache& c, const Parts& parts) {
	__shared__ __align__(16) Shared<warps, D, N> m;
	after_previous();
	int group = a.heads / a.kv_heads, sets = a.kv_heads * ((group + 8 * N - 1) / (8 * N));
	Split<warps> split(a.pos, a.rows, sets, a.window);
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
		int thread = min((int)threadIdx.x, heads.count * ((a.dim + 3) / 4) - 1), vectors = (a.dim + 3) / 4;
		Spot first(a, (heads.first + thread / vectors) * a.dim + thread % vectors * 4);
		State<D, N> state;
		attend_units<warps, D, N, full>(state, m, a, c, item, heads, from, to);
		state.put(m, heads.count);
		Sharing share = {split.block(item.first), split.block(item.first + item.units - 1)};
		__syncthreads();
		finish<warps, D, N, full>(m, a, parts, item, heads, first, share, sets);
		if (unit < end) __syncthreads();
	}
}

// Names are of the largest dimension, the heads of a set, and whether dimensions may
// be any.
#define ATTEND(name, warps, D, N, full, blocks)                                                     \
	extern "C" __global__ void __launch_bounds__(32 * warps, blocks)                                \
	name(half* y, const half* places, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const float* q_norm, const float* k_norm,          \
	     const int* pos, const int* seq, const int* table, int* fault, float* parts,                \
	     int* counters, int rows, int sequences, int table_cols, int pages, int page_rows,          \
	     int heads, int kv_heads, int dim, int pairs, int interleaved, int64 ldy, int64 ldq,        \
	     int64 ldk, int64 ldv, float turn_scale, float scale, float cap, float temperature,         \
	     int temperature_span, int window, int norm, float eps, float offset) {                     \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<warps, D, N, full>(                                                                  \
			{y, places, q, k, v, freqs, sinks, pos, seq, fault, rows, sequences, pages, heads, kv_heads,    \
			 dim, pairs, interleaved, ldy, ldq, ldk, ldv, turn_scale,                               \
			 {scale, cap, temperature, temperature_span}, window,                                   \
			 {q_norm, k_norm, norm, eps, offset}},                                                  \
			c, {parts, counters, (dim + 3) / 4 * 4 + extra});                                       \
	}

ATTEND(attend_decode_64_8, 4, 64, 1, true, 4)
ATTEND(attend_decode_64_16, 4, 64, 2, true, 3)
ATTEND(attend_decode_128_8, 4, 128, 1, true, 3)
ATTEND(attend_decode_128_16, 4, 128, 2, true, 2)
ATTEND(attend_decode_256_8, 4, 256, 1, true, 2)
ATTEND(attend_decode_64_any, 4, 64, 1, false, 3)
ATTEND(attend_decode_128_any, 4, 128, 1, false, 3)
ATTEND(attend_decode_256_any, 4, 256, 1, false, 2)
