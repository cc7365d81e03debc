// Attention of single rows with many heads of keys on Hopper: the positions of a row and set
// of heads are divided among blocks, and the one that comes last joins what they have
// found, which is in memory.
//
// Sets are the fastest dimension of the grid: the first blocks to start are those that work
// where positions are few, and start where the kernel in front has left multiprocessors
// early.
#include "attend_row.cuh"
#include "join_parts.cuh"

constexpr int warps = 4;
constexpr int blocks = 3;  // of a multiprocessor
constexpr int alone = 3;   // a block does this many rounds of its warps without help
constexpr int found = 32;  // bytes of a thread that joins

static_assert(found == sizeof(Part) && blocks > 0 && alone > 0, "as cuda/attend_rows.go has it");

#if __CUDA_ARCH__ >= 900

template <int D, int N, bool full>
__device__ void attend(const Attend& a, const Cache& c, float* sums, int* counters) {
	extern __shared__ uint4 memory[];
	constexpr int stride = D + padding;
	Shared<warps, D, N>& m = *(Shared<warps, D, N>*)memory;
	let_next();
	Heads h(a, blockIdx.x, 8 * N);
	Place b = {(int)blockIdx.z, (int)blockIdx.x, (int)blockIdx.y, (int)gridDim.y, alone, false};
	half* y = a.y + b.row * a.ldy + h.first * a.dim;
	int parts = attend_row<warps, D, N, full>(m, a, c, b, h, y, [] { wait_for_previous(); }), item = b.row * gridDim.x + b.set;
	if (parts <= 1) return;
	auto of = [&](int part, int head) { return sums + (((int64)item * b.parts + part) * 8 * N + head) * stride; };
	__syncthreads();
	for (int i = threadIdx.x; i < h.count * (stride / 4); i += 32 * warps) {
		int head = i / (stride / 4), at = i % (stride / 4) * 4;
		float2 s = m.stats[head];
		*(float4*)(of(b.part, head) + at) = at < D ? *(const float4*)(m.of(0, head, h.count) + at) : make_float4(s.x, s.y, 0, 0);
	}
	__syncthreads();
	if (threadIdx.x == 0) m.last = count(counters + item, parts);
	__syncthreads();
	if (m.last) join_parts<32 * warps, full>((Part*)m.sums, a, h, y, parts, D, of);
}

#else  // the kernels of attend_decode.cu are for other GPUs

template <int D, int N, bool full>
__device__ void attend(const Attend&, const Cache&, float*, int*) {}

#endif

// Names are of the dimension, and the heads of a set.
#define ATTEND(name, D, N)                                                                          \
	extern "C" __global__ void __launch_bounds__(32 * warps, blocks)                                \
	name(half* y, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const float* q_norm, const float* k_norm,          \
	     const int* pos, const int* seq, const int* table, int* fault, float* sums,                 \
	     int* counters, int rows, int sequences, int table_cols, int pages, int page_rows,          \
	     int heads, int kv_heads, int dim, int pairs, int interleaved, int64 ldy, int64 ldq,        \
	     int64 ldk, int64 ldv, float turn_scale, float scale, float cap, float temperature,         \
	     int temperature_span, int window, int norm, float eps, float offset) {                     \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<D, N, true>(                                                                         \
			{y, q, k, v, freqs, sinks, pos, seq, fault, rows, sequences, pages, heads, kv_heads,    \
			 dim, pairs, interleaved, ldy, ldq, ldk, ldv, turn_scale,                               \
			 {scale, cap, temperature, temperature_span}, window,                                   \
			 {q_norm, k_norm, norm, eps, offset}},                                                  \
			c, sums, counters);                                                                     \
	}

ATTEND(attend_spread_64, 64, 1)
ATTEND(attend_spread_128, 128, 1)
