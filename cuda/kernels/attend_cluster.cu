// Attention of a few single rows on Hopper: as attend_decode.cu, but the positions of a
// row and set of heads are divided among the blocks of a cluster, which join what they
// have found through each other's shared memory.
//
// H200, 2026-11-22, 32 heads of 128 and 8 of keys, with rotation and storing: 100 positions
// 6.7 µs, 8000 positions 19 µs, 1.7 TB/s.
#include "attend_row.cuh"
#include "cluster.cuh"

constexpr int most_blocks = 8;     // of a cluster
constexpr int alone = 2;           // a block does this many rounds of its warps without help
constexpr int many = 12, few = 8;  // warps

static_assert(most_blocks <= 8 && alone > 0, "clusters of more blocks are not portable");

#if __CUDA_ARCH__ >= 900

// join_cluster joins what the blocks have found; each has some of the result.
template <int warps, int D, int N, bool full>
__device__ inline void join_cluster(Shared<warps, D, N>& m, const Attend& a, const Heads& h, half* y) {
	int dim = dim_of<D, full>(a), vectors = (dim + 3) / 4;
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
		put_result<full>(a, y, Spot(a, (h.first + head) * dim + at), join(p), h.first + head, at);
	}
}

template <int warps, int D, int N, bool full>
__device__ void attend(const Attend& a, const Cache& c) {
	extern __shared__ uint4 memory[];
	Shared<warps, D, N>& m = *(Shared<warps, D, N>*)memory;
	let_next();
	Heads h(a, blockIdx.y, 8 * N);
	Fixed find = {{(int)blockIdx.z, (int)blockIdx.y, (int)blockIdx.x, (int)gridDim.x, alone, true}};
	if (attend_row<warps, D, N, full>(m, a, c, find, h, [] { wait_for_previous(); }) <= 1) return;
	cluster_arrive();
	cluster_wait();
	join_cluster<warps, D, N, full>(m, a, h, a.y + find.place.row * a.ldy);
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
	name(half* y, const half* places, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const float* q_norm, const float* k_norm,          \
	     const int* pos, const int* seq, const int* table, int* fault, int rows, int sequences,     \
	     int table_cols, int pages, int page_rows, int heads, int kv_heads, int dim, int pairs,     \
	     int interleaved, int64 ldy, int64 ldq, int64 ldk, int64 ldv, float turn_scale,             \
	     float scale, float cap, float temperature, int temperature_span, int window, int norm,     \
	     float eps, float offset) {                                                                 \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<warps, D, N, full>(                                                                  \
			{y, places, q, k, v, freqs, sinks, pos, seq, fault, rows, sequences, pages, heads, kv_heads,    \
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
