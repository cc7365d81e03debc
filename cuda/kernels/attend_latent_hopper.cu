// Attention of runs of rows on Hopper to what latents have been multiplied to: heads of keys and values, beside which all heads
// share columns that have positions (attend_hopper.cuh; DeepSeek-V2, arXiv 2405.04434, section 2.1.2, without absorption).
#include "attend_hopper.cuh"

constexpr int keys_128 = 128, keys_192 = 128, keys_256 = 64;     // positions at a time
constexpr int queries_128 = 2, queries_192 = 1, queries_256 = 1;  // items whose queries there is room for
constexpr int values_128 = 64, values_192 = 128, values_256 = 256;

// Made is keys and values of some heads, of all runs of a pass.
struct Made {
	const unsigned char* maps;  // of [rows, heads·(nope + values)], and of [rows, what is shared]
	int nope, ahead;            // columns of keys of a head; rows of a run
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct Latent : Made {
	__device__ int box(int keys) const { return keys; }
	__device__ void ready(bool values) const {
		map_ready(maps);
		if (!values) map_ready(maps + map_bytes);
	}
	__device__ int parts(const Task& t, bool values) const { return values ? (t.value_dim + 63) / 64 : nope / 64 + 1; }
	__device__ bool shared(int part, bool values) const { return !values && part == nope / 64; }
	__device__ const unsigned char* map(int part, bool values) const { return maps + shared(part, values) * map_bytes; }
	__device__ int column(const Task& t, int head, int part, bool values) const { return shared(part, values) ? 0 : head * (nope + t.value_dim) + values * nope + part * 64; }
	__device__ auto rows(const Item& b) const {
		return [first = b.run * ahead](int p) { return first + p; };
	}
};

#else  // others have attend_latent.cu

struct Latent : Made {};

template <int D, int V, int keys, int queries>
__device__ void attend(const Task&, const Latent&) {}

#endif

// Names are of the most columns of queries.
#define ATTEND(name, D, V, keys, queries)                                                                                                             \
	extern "C" __global__ void __launch_bounds__(threads, 1) name(half* y, const half* q, const unsigned char* maps, const int* pos, const int* seq,    \
	                                                              int runs, int span, int ahead, int heads, int nope, int dim, int value_dim, int64 ldy, \
	                                                              int64 ldq, float scale, float cap, float temperature, int temperature_span, int window, \
	                                                              float* sums, float* stats, int parts) {                                                   \
		Latent made = {{maps, nope, ahead}};                                                                                                            \
		attend<D, V, keys, queries>({y, q, pos, seq, nullptr, runs, span, heads, heads, dim, value_dim, ldy, ldq, {scale, cap, temperature, temperature_span}, window, 1, {sums, stats, parts}}, made); \
	}

ATTEND(attend_latent_hopper_128, 128, values_128, keys_128, queries_128)
ATTEND(attend_latent_hopper_192, 192, values_192, keys_192, queries_192)
ATTEND(attend_latent_hopper_256, 256, values_256, keys_256, queries_256)
