// Experts for rows of logits, and the rows sorted by expert (device.Route).
//
// Where there are few rows, one block chooses for all and sorts them. Else route_choose
// leaves the choice in memory, and route_sort has a block for each expert, which goes
// over all of it. No order depends on which block is first.
//
// Names end in the experts of a lane.
#include "order.cuh"
#include "route.cuh"

constexpr int few_threads = 512;  // of the block for few rows
constexpr int choose_warps = 4;
constexpr int sort_threads = 256;

template <int per>
__device__ void alone(const Given& g, const Rule& r, int* order, int* experts, int* first, int* places, const float* scales) {
	extern __shared__ float shared[];
	after_previous();
	few<per>(g, r, order, experts, first, places, shared, scales);
}

template <int per>
__device__ void many(const Given& g, const Rule& r, int* ids, int* places, const float* scales) {
	extern __shared__ float shared[];
	after_previous();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, row = blockIdx.x * choose_warps + warp;
	if (row >= g.rows) return;
	int e = choose<per>(g, r, row, shared + warp * g.experts, scales);
	if (lane < g.chosen) ids[(int64)row * g.chosen + lane] = e;
	if (lane == 0 && g.columns > g.chosen) places[(int64)row * g.columns + g.chosen] = g.rows * g.chosen + row;
}

extern "C" __global__ void __launch_bounds__(sort_threads) route_sort(
	int* order, int* experts,  // [n]
	int* first,                // [gridDim.x + 1]
	int* places,               // [n/chosen, columns]
	const int* ids,            // [n]
	int n, int chosen, int columns) {
	__shared__ int counts[sort_threads / 32];
	after_previous();
	int e = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32, below = 0;
	for (int i = threadIdx.x; i < n; i += sort_threads) below += ids[i] < e;
	for (int step = 16; step > 0; step /= 2) below += __shfl_xor_sync(~0u, below, step);
	if (lane == 0) counts[warp] = below;
	__syncthreads();
	int at = 0;
	for (int w = 0; w < sort_threads / 32; w++) at += counts[w];
	if (threadIdx.x == 0) {
		first[e] = at;
		if (e == gridDim.x - 1) first[e + 1] = n;
	}
	for (int from = 0; from < n; from += sort_threads) {
		int i = from + threadIdx.x;
		bool mine = i < n && ids[i] == e;
		unsigned all = __ballot_sync(~0u, mine);
		__syncthreads();  // counts are read
		if (lane == 0) counts[warp] = __popc(all);
		__syncthreads();
		int here = at + __popc(all & ((1u << lane) - 1));
		for (int w = 0; w < sort_threads / 32; w++) {
			if (w < warp) here += counts[w];
			at += counts[w];
		}
		if (mine) place(order, experts, places, i, here, e, chosen, columns);
	}
}

#define ROUTE(name, choose_name, per)                                                                  \
	extern "C" __global__ void __launch_bounds__(few_threads) name(                                    \
		int* order, int* experts, int* first, int* places, float* weights, const float* logits,        \
		const float* correction, const float* gate, const float* scales, int rows, int count,          \
		int chosen, int columns,                                                                       \
		int64 ld, int64 ldg, int score, int groups, int top_groups, int group_max, int renorm,         \
		float renorm_eps, float scale, float jitter) {                                                 \
		Given g = {logits, correction, gate, weights, rows, count, chosen, columns, ld, ldg};          \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, scale, jitter};            \
		alone<per>(g, r, order, experts, first, places, scales);                                       \
	}                                                                                                  \
	extern "C" __global__ void __launch_bounds__(32 * choose_warps) choose_name(                       \
		int* ids, int* places, float* weights, const float* logits,                                    \
		const float* correction, const float* gate, const float* scales, int rows, int count,          \
		int chosen, int columns,                                                                       \
		int64 ld, int64 ldg, int score, int groups, int top_groups, int group_max, int renorm,         \
		float renorm_eps, float scale, float jitter) {                                                 \
		Given g = {logits, correction, gate, weights, rows, count, chosen, columns, ld, ldg};          \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, scale, jitter};            \
		many<per>(g, r, ids, places, scales);                                                          \
	}

ROUTE(route_2, route_choose_2, 2)
ROUTE(route_4, route_choose_4, 4)
ROUTE(route_8, route_choose_8, 8)
ROUTE(route_16, route_choose_16, 16)
