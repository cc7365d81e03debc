// Attention of runs of rows on Hopper to keys and values of a cache, whose columns are heads (attend_hopper.cuh).
#include "attend_hopper.cuh"

constexpr int keys_64 = 128, keys_128 = 128, keys_256 = 64, keys_512 = 32;        // positions at a time, and of a copy at most
constexpr int queries_64 = 2, queries_128 = 2, queries_256 = 1, queries_512 = 1;  // items whose queries there is room for

static_assert(keys_512 % 8 == 0, "as wgmma and copies want it");

// Pages are keys and values of a layer's cache.
struct Pages {
	const unsigned char* maps;  // of the keys and of the values
	const int* table;           // [sequences, table_cols]
	int table_cols, page_rows;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct Paged : Pages {
	// box is the rows of a copy: those of a page, or a part of them.
	__device__ int box(int keys) const {
		int n = keys;
		while (page_rows % n) n /= 2;
		return n;
	}
	__device__ void ready(bool values) const { map_ready(maps + values * map_bytes); }
	__device__ int parts(const Task& t, bool) const { return (t.dim + 63) / 64; }
	__device__ const unsigned char* map(int, bool values) const { return maps + values * map_bytes; }
	__device__ int column(const Task& t, int kv, int part, bool) const { return kv * t.dim + part * 64; }
	__device__ auto rows(const Item& b) const {
		const int* pages = table + b.seq * table_cols;
		return [=, rows = page_rows](int p) { return pages[p / rows] * rows + p % rows; };
	}
};

#else  // the kernels of attend_prefill.cu are for other GPUs

struct Paged : Pages {};

template <int D, int V, int keys, int queries>
__device__ void attend(const Task&, const Paged&) {}

#endif

// Names are of the largest dimension.
#define ATTEND(name, D, keys, queries)                                                                       \
	extern "C" __global__ void __launch_bounds__(threads, 1)                                        \
	name(half* y, const half* q, const unsigned char* maps, const int* table, const int* pos,             \
	     const int* seq, const float* sinks, int table_cols, int page_rows, int runs, int span,     \
	     int heads, int kv_heads, int dim, int64 ldy, int64 ldq, float scale, float cap,            \
	     float temperature, int temperature_span, int window, int together, float* sums, float* stats, int parts) { \
		Paged pages = {{maps, table, table_cols, page_rows}};                                             \
		attend<D, D, keys, queries>({y, q, pos, seq, sinks, runs, span, heads, kv_heads, dim, dim, ldy, ldq,     \
		                 {scale, cap, temperature, temperature_span}, window, together, {sums, stats, parts}}, pages); \
	}

ATTEND(attend_hopper_64, 64, keys_64, queries_64)
ATTEND(attend_hopper_128, 128, keys_128, queries_128)
ATTEND(attend_hopper_256, 256, keys_256, queries_256)
ATTEND(attend_hopper_512, 512, keys_512, queries_512)
