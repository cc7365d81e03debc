// What a block does of attention of a single row: it has some heads that share keys, and
// some of the positions; how blocks join what they have found is their kernels' business.
// Or of several rows of a run, which are slots of their own for each of the heads, and whose keys and values,
// and those of the rows in front of them, it makes for itself: others are storing them at the time.
//
// Rows that bring keys and values of their own see nothing else that kernels of their step
// have written. So a block asks for keys by the position that it finds before it waits for
// the kernel in front, and looks again afterwards: if the position is the same, whatever
// advances it, behind the step before, had finished.
#pragma once

#include "arrive.cuh"
#include "attend_block.cuh"
#include "newest.cuh"

// begin has a warp ask for its first keys and values, and turns be computed; freq is the
// frequency of the thread's pair.
template <bool full, class M>
__device__ inline Begun begin(M& m, Walk<M::columns, full>& walk, const Attend& a, const Cache& c, const Share& share, const Heads& h, float freq) {
	int chunk = share.from + m.unit();
	Begun b = {c.row(share.seq, min(chunk * at_once, share.pos)), c.row(share.seq, share.pos)};
	for (int i = threadIdx.x; M::runs && i < h.fresh * a.pairs; i += 32 * M::warps) {
		int back = i / a.pairs, pair = i - back * a.pairs;
		float2 t = turn((double)(share.pos - back) * (double)a.freqs[pair]);
		m.turns[back * (M::dim / 2) + pair] = make_float2(t.x * a.turn_scale, t.y * a.turn_scale);
	}
	if (!M::runs && threadIdx.x < a.pairs) {
		float2 t = turn((double)share.pos * (double)freq);
		m.turns[threadIdx.x] = make_float2(t.x * a.turn_scale, t.y * a.turn_scale);
	}
	if (M::asks_ahead && chunk < share.to) walk.read_keys(b.first, share.pos - chunk * at_once), walk.read_values(b.first, share.pos - chunk * at_once);
	return b;
}

// normalize divides every 32nd element of a head, which a lane has, by the root mean square of all, and multiplies by weights.
template <int n>
__device__ inline void normalize(half (&v)[n], const float* weights, int dim, const Norms& by) {
	int lane = threadIdx.x % 32;
	float squares = 0;
#pragma unroll
	for (int i = 0; i < n; i++) squares += widen(v[i]) * widen(v[i]);
	float inverse = 1 / sqrtf(warp_sum(squares) / dim + by.eps);
#pragma unroll
	for (int i = 0; i < n; i++)
		if (lane + 32 * i < dim) v[i] = __float2half_rn(widen(v[i]) * inverse * (weights[lane + 32 * i] + by.offset));
}

// Inverses are those of root mean squares of a row of queries and of keys, or zeros: heads have their own.
struct Inverses {
	float q, k;
};

// inverses_of has the block find them, of rows of 16 bytes.
template <class M>
__device__ inline Inverses inverses_of(M& m, const Attend& a, int row) {
	constexpr int warps = M::warps;
	int queries = a.heads * a.dim, keys = a.k ? a.kv_heads * a.dim : 0, warp = threadIdx.x / 32;
	float squares[2] = {0, 0};
	for (int i = 8 * threadIdx.x; i < queries + keys; i += 8 * 32 * warps) {
		bool key = i >= queries;
		Eight<half> eight;
		eight.words[0] = newest(key ? a.k + row * a.ldk + i - queries : a.q + row * a.ldq + i);
		float sum = 0;
#pragma unroll
		for (int j = 0; j < 8; j++) sum += widen(eight.v[j]) * widen(eight.v[j]);
		squares[key] += sum;
	}
	float2* found = (float2*)m.sums;
	float2 mine = make_float2(warp_sum(squares[0]), warp_sum(squares[1])), all = make_float2(0, 0);
	if (threadIdx.x % 32 == 0) found[warp] = mine;
	__syncthreads();
#pragma unroll
	for (int w = 0; w < warps; w++) all.x += found[w].x, all.y += found[w].y;
	return {1 / sqrtf(all.x / queries + a.norms.eps), 1 / sqrtf(all.y / max(keys, 1) + a.norms.eps)};
}

// bring_values has a warp copy the values of a head to shared memory, normalized, if there are weights.
template <class M, bool full>
__device__ inline void bring_values(half* to, const half* from, const Attend& a, const Heads& h) {
	constexpr int n = M::dim / 32;
	int lane = threadIdx.x % 32;
	half value[n];
#pragma unroll
	for (int i = 0; i < n; i++) value[i] = lane + 32 * i < dim_of<M::dim, full>(a) ? fresh(from + lane + 32 * i) : __float2half(0);
	if (h.values) normalize(value, h.values, dim_of<M::dim, full>(a), a.norms);
#pragma unroll
	for (int i = 0; i < n; i++) to[lane + 32 * i] = value[i];
}

// prepare_run is prepare of rows of a run, of which `row` is the last: their heads, and then keys and values, a warp each in turn.
template <class M>
__device__ inline void prepare_run(M& m, const Attend& a, const Share& share, int row, const Heads& h) {
	constexpr int D = M::dim;
	int slots = h.slots(), all = slots + (share.brings(a, h.fresh) ? 2 * h.fresh : 0);
	for (int i = threadIdx.x / 32; i < all; i += M::warps) {
		if (i < slots) {
			int back = h.back(i), head = h.head(i);
			bring<D, true>(m.q[i], a.q + (row - back) * a.ldq + head * D, a.norms.q, a, m.turns + back * (D / 2), h.late);
			continue;
		}
		int back = (i - slots) / 2;
		if ((i - slots) % 2 == 0)
			bring<D, true>(m.k + back * D, a.k + (row - back) * a.ldk + h.kv * D, a.norms.k, a, m.turns + back * (D / 2), h.late);
		else
			bring_values<M, true>(m.v + back * D, a.v + (row - back) * a.ldv + h.kv * D, a, h);
	}
}

// prepare brings queries, and the new key and value, to shared memory.
template <bool full, class M>
__device__ inline void prepare(M& m, const Attend& a, const Share& share, int row, const Heads& h, const Inverses& inverses) {
	constexpr int warps = M::warps, D = M::dim;
	int warp = threadIdx.x / 32;
	if constexpr (M::runs) {
		prepare_run(m, a, share, row, h);
		return;
	}
	const half *q = a.q + row * a.ldq + h.first * a.dim, *v = a.v + row * a.ldv + h.kv * a.dim;
	for (int head = warp; head < h.count; head += warps) bring<D, full>(m.q[head], q + head * a.dim, h.weights(a.norms.q, h.first + head, a), a, m.turns, h.late, inverses.q);
	if (share.newest && warp == warps - 1) bring<D, full>(m.k, a.k + row * a.ldk + h.kv * a.dim, h.weights(a.norms.k, h.kv, a), a, m.turns, h.late, inverses.k);
	if (share.newest && warp == warps - 2) bring_values<M, full>(m.v, v, a, h);
}

// keep_run has the block store keys and values of its rows.
template <class M>
__device__ inline void keep_run(const M& m, const Cache& c, const Share& share, const Heads& h) {
	constexpr int D = M::dim, each = D / 4;
	if (!share.newest || !h.leads) return;
	for (int i = threadIdx.x; i < h.rows * each; i += 32 * M::warps) {
		int back = i / each, piece = i % (D / 8) * 8;
		int64 at = c.row(share.seq, share.pos - back) + h.kv * D + piece;
		bool key = i % each < D / 8;
		*(uint4*)((half*)(key ? c.k : c.v) + at) = *(const uint4*)((key ? m.k : m.v) + back * D + piece);
	}
}

// keep_newest has the last warp store the new key and value.
template <bool full, class M>
__device__ inline void keep_newest(const M& m, const Attend& a, const Cache& c, const Share& share, const Heads& h, int64 at) {
	constexpr int warps = M::warps, D = M::dim;
	int lane = threadIdx.x % 32;
	if constexpr (M::runs) {
		keep_run(m, c, share, h);
		return;
	}
	if (!share.newest || !h.leads || threadIdx.x / 32 < warps - 1) return;
	half *k = (half*)c.k + at + h.kv * a.dim, *v = (half*)c.v + at + h.kv * a.dim;
	for (int i = lane; full && i < D / 4; i += 32) *(uint4*)((i < D / 8 ? k : v) + i % (D / 8) * 8) = *(const uint4*)((i < D / 8 ? m.k : m.v) + i % (D / 8) * 8);
	for (int i = lane; !full && i < a.dim; i += 32) k[i] = m.k[i], v[i] = m.v[i];
}

// attend_share has the warp's chunks of a share, which has begun.
template <bool full, class M>
__device__ inline void attend_share(State<M::columns, M::eights>& state, M& m, Walk<M::columns, full>& walk, const Attend& a, const Cache& c, const Share& share, const Heads& h, int64 at) {
	constexpr bool ahead = M::asks_ahead;
	constexpr int units = M::units, N = M::eights;
	Sight<N, M::runs> sight(a, share, h);
	int chunk = share.from + m.unit(), g = threadIdx.x % 32 / 4;
	int64 next = 0;
	const int fresh = M::runs ? h.fresh : 1;
	float cap = a.how.cap;
#pragma unroll 1
	for (; chunk < share.to; chunk += units, at = next) {
		int first = chunk * at_once, last = share.pos - first, behind = last - at_once * units;
		bool own = M::runs ? a.k && last < at_once + fresh - 1 : share.newest && last < at_once, more = chunk + units < share.to;
		if (more) next = c.row(share.seq, first + at_once * units);
		if (!ahead) walk.read_keys(at, last), walk.read_values(at, last);
		if (own) walk.put_keys(m.columns_from(m.k), last, fresh, M::apart), walk.put_values(m.columns_from(m.v), last, fresh, M::apart);
		float s[N][4] = {};
		walk.multiply(s, m.q, m.column());
		m.add(s, (chunk - share.from) / units);
		if (ahead && more) walk.read_keys(next, behind);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int p = first + g + e / 2 * 8;
				float factor = sight.factor(n, e % 2), score = cap == 0 ? s[n][e] * factor : capped(s[n][e] * factor, cap) * log2e;
				s[n][e] = sight.sees(n, e % 2, p) ? score : no_score;
			}
		state.add(s, walk.values);
		if (ahead && more) walk.read_values(next, behind);
	}
}

// join_warps joins what the warps have found: the result of a single block, or what
// is joined with others, which give(i, slot, at, part) takes, i being the vector of four
// columns of a slot from `at` on. y is the block's row, or the last one.
template <bool full, class M, class Give>
__device__ inline void join_warps(M& m, const Attend& a, const Heads& h, half* y, const Spot& first, bool single, const Give& give) {
	constexpr int units = M::units, warps = M::warps;
	int dim = dim_of<M::dim, full>(a), vectors = (dim + 3) / 4;
	for (int i = threadIdx.x; i < h.slots() * vectors; i += 32 * warps) {
		int slot = i / vectors, at = i % vectors * 4;
		Part p[units];
#pragma unroll
		for (int w = 0; w < units; w++) p[w] = {m.top[slot][w], m.sum[slot][w], *(const float4*)(m.of(w, slot, h.slots()) + at)};
		Part all = join(p);
		if (single) {
			put_result<full>(a, y - h.back(slot) * a.ldy, i < 32 * warps ? first : Spot(a, h.head(slot) * dim + at), all, h.head(slot), at);
			continue;
		}
		give(i, slot, at, all);
	}
}

// current reads what a kernel before may be writing.
__device__ inline int current(const int* p) {
	int v;
	asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

// attend_row has a block attend to its share of a row, and stores the result in y, of all
// rows, if no other block has any. It returns how many blocks have parts, if this is one,
// which are to be joined if they are more than one, and have been given (join_warps); else 0. find says where the block's Place is, which may change with what it sees
// until the wait is over, and how many blocks work; wait is wait_for_previous: launches are dependent whose kernels' own files call it.
template <bool full, class M, class Find, class Wait, class Give>
__device__ inline int attend_row(M& m, const Attend& a, const Cache& c, Find& find, const Heads& h, const Wait& wait, const Give& give) {
	for (int i = threadIdx.x; i < 8 * M::eights * (M::dim + 8) / 2; i += 32 * M::warps) ((unsigned*)m.q)[i] = 0;  // for heads that there are not
	Walk<M::columns, full> walk = {m.columns_from(c.k + h.kv * a.dim), m.columns_from(c.v + h.kv * a.dim), c.cols, a.dim - m.column()};
	float freq = !M::runs && threadIdx.x < a.pairs ? a.freqs[threadIdx.x] : 0;
	int thread = min((int)threadIdx.x, h.slots() * ((a.dim + 3) / 4) - 1), vectors = (a.dim + 3) / 4;
	Spot first(a, h.head(thread / vectors) * a.dim + thread % vectors * 4);
	bool guesses = a.k;
	if (!guesses) wait();
#pragma unroll 1
	for (;; guesses = false) {
		const Place b = find();
		int pos = current(a.pos + b.row), seq = current(a.seq + b.row);
		bool there = a.there(c, pos, seq) && (!M::runs || pos >= h.fresh - 1);
		Share share(a, b.part, find.working(seen_by(pos, a.window, h.rows), M::units), pos, seq, h.rows);
		bool works = there && b.part < share.parts;
		Begun begun = {0, 0};
		if (works) begun = begin<full>(m, walk, a, c, share, h, freq);
		__syncthreads();
		if (guesses) wait();
		int pos_now = current(a.pos + b.row), seq_now = current(a.seq + b.row), seen = find.see();  // and not waited for yet
		Inverses inverses = {0, 0};
		if (h.whole) inverses = inverses_of(m, a, b.row);
		if (works) prepare<full>(m, a, share, b.row, h, inverses);
		bool right = !guesses || pos_now == pos && seq_now == seq && find.stays(seen);
		if (!__syncthreads_and(right)) continue;  // threads may have seen different positions
		if (!there && b.part == 0 && threadIdx.x == 0) report(a.fault, position_fault, pos, c.table_cols * c.page_rows);
		if (!works) return 0;
		State<M::columns, M::eights> state;
		attend_share<full>(state, m, walk, a, c, share, h, begun.first);
		state.put(m, h.slots(), m.unit(), m.column());
		__syncthreads();
		keep_newest<full>(m, a, c, share, h, begun.newest);
		join_warps<full>(m, a, h, a.y + b.row * a.ldy, first, share.parts == 1, give);
		return share.parts;
	}
}
