// Attention of a few single rows on Hopper: as attend_decode.cu, but the positions of a
// row and set of heads are divided among the blocks of a cluster, which join what they
// have found through each other's shared memory.
//
// Rows that bring keys and values of their own see nothing else that kernels of their step
// have written. So a block asks for keys by the position that it finds before it waits for
// the kernel in front, and looks again afterwards: if the position is the same, whatever
// advances it, behind the step before, had finished.
//
// H200, 2026-11-22, 32 heads of 128 and 8 of keys, with rotation and storing: 100 positions
// 6.7 µs, 8000 positions 19 µs, 1.7 TB/s.
#include "cluster.cuh"
#include "arrive.cuh"
#include "decode.cuh"

constexpr int most_blocks = 8;   // of a cluster
constexpr int alone = 2;         // a block does this many rounds of its warps without help
constexpr int padding = 4;       // of a row of sums
constexpr int many = 12, few = 8;  // warps

static_assert(most_blocks <= 8 && alone > 0 && padding % 4 == 0, "clusters of more blocks are not portable; sums are read by four");

#if __CUDA_ARCH__ >= 900

// Shared is the shared memory of a block: queries, the new key and value, and, for
// every head, what its warps have found, and then the block.
template <int warps, int D, int N>
struct Shared {
	half q[8 * N][D + 8], k[D], v[D];
	float2 turns[D / 2];
	float top[8 * N][warps], sum[8 * N][warps];
	float2 stats[8 * N];
	float sums[1];  // [warps, heads, D + padding]: as many heads as there are

	__device__ float* of(int warp, int head, int heads) { return sums + (warp * heads + head) * (D + padding); }
};

// Share is what a block has to do: the chunks of positions from..to-1 of a row.
struct Share {
	int row, pos, seq, from, to;
	bool single, newest;  // no other block has any; the row's own position is among them
	__device__ Share(const Attend& a, const Span& span, int row, int pos, int seq, int warps) : row(row), pos(pos), seq(seq) {
		int first = span.chunk(), end = span.chunks_end(), all = end - first, rank = blockIdx.x;
		single = all <= alone * warps || gridDim.x == 1;
		int each = single ? all : (unsigned)(all + gridDim.x - 1) / gridDim.x;
		from = min(end, first + rank * each), to = min(end, from + each);
		newest = a.k && from < to && to == end;
	}
};

// prepare brings queries, and the new key and value, to shared memory, and stores the
// latter.
template <int warps, int D, int N>
__device__ inline void prepare(Shared<warps, D, N>& m, const Attend& a, const Cache& c, const Share& share, const Heads& h) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	const half* q = a.q + share.row * a.ldq + h.first * a.dim;
	for (int head = warp; head < h.count; head += warps) bring<D>(m.q[head], q + head * a.dim, a.norms.q, a, m.turns);
	if (share.newest) {
		int64 at = c.row(share.seq, share.pos) + h.kv * a.dim;
		if (warp == warps - 1) {
			bring<D>(m.k, a.k + share.row * a.ldk + h.kv * a.dim, a.norms.k, a, m.turns);
			__syncwarp();
			for (int i = lane; i < a.dim && h.leads; i += 32) ((half*)c.k)[at + i] = m.k[i];
		}
		if (warp == warps - 2) {
			const half* v = a.v + share.row * a.ldv + h.kv * a.dim;
			for (int i = lane; i < D; i += 32) {
				m.v[i] = i < a.dim ? v[i] : __float2half(0);
				if (i < a.dim && h.leads) ((half*)c.v)[at + i] = m.v[i];
			}
		}
	}
	__syncthreads();
}

// asks_ahead tells whether there are registers for the next keys and values.
template <int D>
constexpr bool asks_ahead = D <= 128;

// begin has a warp ask for its first keys and values, and turns be computed. It returns
// where they are.
template <int warps, int D, int N, bool full>
__device__ inline int64 begin(Shared<warps, D, N>& m, Walk<D, full>& walk, const Attend& a, const Cache& c, const Share& share) {
	int chunk = share.from + threadIdx.x / 32;
	int64 at = chunk < share.to ? c.row(share.seq, chunk * at_once) : 0;
	if (asks_ahead<D> && chunk < share.to) walk.read_keys(at, share.pos - chunk * at_once), walk.read_values(at, share.pos - chunk * at_once);
	for (int i = threadIdx.x; i < a.pairs; i += 32 * warps) {
		float2 t = turn((double)share.pos * (double)a.freqs[i]);
		m.turns[i] = make_float2(t.x * a.turn_scale, t.y * a.turn_scale);
	}
	return at;
}

// current reads what a kernel before may be writing.
__device__ inline int current(const int* p) {
	int v;
	asm volatile("ld.relaxed.gpu.global.s32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

// attend_share has the warp's chunks of a share, which has begun.
template <int warps, int D, int N, bool full>
__device__ inline void attend_share(State<D, N>& state, Shared<warps, D, N>& m, Walk<D, full>& walk, const Attend& a, const Cache& c, const Span& span, const Share& share, const Heads& h, int64 at) {
	constexpr bool ahead = asks_ahead<D>;
	int chunk = share.from + threadIdx.x / 32, g = threadIdx.x % 32 / 4;
	int64 next = 0;
	prepare(m, a, c, share, h);
	float cap = a.how.cap, factor = a.how.factor(share.pos) * (cap == 0 ? log2e : 1);
#pragma unroll 1
	for (; chunk < share.to; chunk += warps, at = next) {
		int first = chunk * at_once, last = share.pos - first, behind = last - at_once * warps;
		bool own = share.newest && last < at_once, more = chunk + warps < share.to;
		if (more) next = c.row(share.seq, first + at_once * warps);
		if (!ahead) walk.read_keys(at, last), walk.read_values(at, last);
		if (own) walk.put_key(m.k, last), walk.put_value(m.v, last);
		float s[N][4] = {};
		walk.multiply(s, m.q);
		if (ahead && more) walk.read_keys(next, behind);
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				int p = first + g + e / 2 * 8;
				float score = cap == 0 ? s[n][e] * factor : capped(s[n][e] * factor, cap) * log2e;
				s[n][e] = p >= span.start && p < span.end ? score : no_score;
			}
		state.add(s, walk.values);
		if (ahead && more) walk.read_values(next, behind);
	}
}

// join_warps joins what the warps have found: the result of a single block, or what
// the cluster joins, in the place of the first warp's.
template <int warps, int D, int N>
__device__ inline void join_warps(Shared<warps, D, N>& m, const Attend& a, const Share& share, const Heads& h, half* y) {
	int vectors = (a.dim + 3) / 4;
	for (int i = threadIdx.x; i < h.count * vectors; i += 32 * warps) {
		int head = i / vectors, at = i % vectors * 4;
		Part p[warps];
#pragma unroll
		for (int w = 0; w < warps; w++) p[w] = {m.top[head][w], m.sum[head][w], *(const float4*)(m.of(w, head, h.count) + at)};
		Part all = join(p);
		if (share.single) {
			put_result(y + head * a.dim, all, at, a.dim, a.sinks ? a.sinks + h.first + head : nullptr);
			continue;
		}
		*(float4*)(m.of(0, head, h.count) + at) = all.out;
		if (at == 0) m.stats[head] = make_float2(all.top, all.sum);
	}
}

// join_cluster joins what the blocks have found; each has some of the result.
template <int warps, int D, int N>
__device__ inline void join_cluster(Shared<warps, D, N>& m, const Attend& a, const Heads& h, half* y) {
	int vectors = (a.dim + 3) / 4;
	for (int i = blockIdx.x * 32 * warps + threadIdx.x; i < h.count * vectors; i += gridDim.x * 32 * warps) {
		int head = i / vectors, at = i % vectors * 4;
		Part p[most_blocks];
#pragma unroll
		for (int b = 0; b < most_blocks; b++) {
			if (b < gridDim.x) {
				float2 s = cluster_load2(of_block(&m.stats[head], b));
				p[b] = {s.x, s.y, cluster_load4(of_block(m.of(0, head, h.count) + at, b))};
			} else {
				p[b] = {no_score, 0, make_float4(0, 0, 0, 0)};
			}
		}
		put_result(y + head * a.dim, join(p), at, a.dim, a.sinks ? a.sinks + h.first + head : nullptr);
	}
}

template <int warps, int D, int N, bool full>
__device__ void attend(const Attend& a, const Cache& c) {
	extern __shared__ uint4 memory[];
	Shared<warps, D, N>& m = *(Shared<warps, D, N>*)memory;
	let_next();
	Heads h(a, blockIdx.y, 8 * N);
	for (int i = threadIdx.x; i < 8 * N * (D + 8) / 2; i += 32 * warps) ((unsigned*)m.q)[i] = 0;  // for heads that there are not
	Walk<D, full> walk = {c.k + h.kv * a.dim, c.v + h.kv * a.dim, c.cols, a.dim};
	bool guesses = a.k;
	if (!guesses) wait_for_previous();
	int row = blockIdx.z, pos = current(a.pos + row), seq = current(a.seq + row);
	int64 at = 0;
	for (;; pos = current(a.pos + row), seq = current(a.seq + row)) {
		bool there = a.there(c, pos, seq);
		if (there) at = begin<warps, D, N, full>(m, walk, a, c, Share(a, Span(pos, a.window), row, pos, seq, warps));
		if (guesses) {
			wait_for_previous();
			guesses = false;
			if (current(a.pos + row) != pos || current(a.seq + row) != seq) continue;
		}
		if (there) break;
		if (blockIdx.x == 0 && threadIdx.x == 0) report(a.fault, position_fault, pos, c.table_cols * c.page_rows);
		return;
	}
	Span span(pos, a.window);
	Share share(a, span, row, pos, seq, warps);
	if (share.single && blockIdx.x > 0) return;
	__syncthreads();
	half* y = a.y + row * a.ldy + h.first * a.dim;
	State<D, N> state;
	attend_share<warps, D, N, full>(state, m, walk, a, c, span, share, h, at);
	state.put(m, h.count);
	__syncthreads();
	join_warps(m, a, share, h, y);
	if (share.single) return;
	cluster_arrive();
	cluster_wait();
	join_cluster(m, a, h, y);
	cluster_arrive();
	cluster_wait();  // until nobody reads this block's memory
}

#else  // the kernels of attend_decode.cu are for other GPUs

template <int warps, int D, int N, bool full>
__device__ void attend(const Attend&, const Cache&) {}

#endif

// Names are of the largest dimension, the heads of a set, and whether dimensions may
// be any.
#define ATTEND(name, warps, D, N, full)                                                             \
	extern "C" __global__ void __launch_bounds__(32 * warps, 1)                                     \
	name(half* y, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const float* q_norm, const float* k_norm,          \
	     const int* pos, const int* seq, const int* table, int* fault, int rows, int sequences,     \
	     int table_cols, int pages, int page_rows, int heads, int kv_heads, int dim, int pairs,     \
	     int interleaved, int64 ldy, int64 ldq, int64 ldk, int64 ldv, float turn_scale,             \
	     float scale, float cap, float temperature, int temperature_span, int window, int norm,     \
	     float eps, float offset) {                                                                 \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<warps, D, N, full>(                                                                  \
			{y, q, k, v, freqs, sinks, pos, seq, fault, rows, sequences, pages, heads, kv_heads,    \
			 dim, pairs, interleaved, ldy, ldq, ldk, ldv, turn_scale,                               \
			 {scale, cap, temperature, temperature_span}, window,                                   \
			 {q_norm, k_norm, norm, eps, offset}}, c);                                              \
	}

ATTEND(attend_cluster_64_8, many, 64, 1, true)
ATTEND(attend_cluster_64_16, many, 64, 2, true)
ATTEND(attend_cluster_128_8, many, 128, 1, true)
ATTEND(attend_cluster_128_16, few, 128, 2, true)
ATTEND(attend_cluster_256_8, few, 256, 1, true)
ATTEND(attend_cluster_64_any, many, 64, 1, false)
ATTEND(attend_cluster_128_any, few, 128, 1, false)
ATTEND(attend_cluster_256_any, few, 256, 1, false)
