// A mixture of experts for one row, behind the logits of its router and the digits of the
// normed row (choose.cu), in two kernels (device.Fuser.Mixture): gate and up of the chosen,
// with the activation, and down with the weighted sum.
//
// Every block chooses for itself. In the first kernel it has some tiles of one of an
// expert's matrices, and where there are clusters the two blocks of gate and of up are one,
// of which that of up sends its sums to the other. What comes out lies in the order of down.
// In the second, a block, or a cluster, has a tile of columns, and the units of all the
// chosen experts' matrices in it are shared among its warps: no sums pass through memory.
// Its words are asked for before gate and up are done: it may, because the first kernel, as the
// router's, lets the next one start only after it has waited itself (arrive.cuh).
#include "mixture_first.cuh"
#include "mixture_last.cuh"

#define MIXTURE_GATE(name, plain)                                                                        \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		half* acts, const int* words, const float* logits, const float* correction, \
		const int* gate_table, const int* up_table, const int* down_table, int experts, int chosen, \
		int words1, int words2, int words3, int places1, int places2, int each, int both, int units, \
		int tiles, int in, int out, int act, int slots, int slot, int pairs, int64 ld, int score, \
		int groups, int top_groups, int group_max, int renorm, float renorm_eps, float factor, \
		float jitter) { \
		Given g = {logits, correction, nullptr, nullptr, 1, experts, chosen, chosen, 0, 0}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter}; \
		int of = both ? blockIdx.x : blockIdx.x / 2, which = both ? 2 : blockIdx.x % 2; \
		Left left = {(const u32*)words, acts, ld}; \
		first_products<plain>(g, r, left, {gate_table, words1, places1}, {up_table, words2, places2}, {down_table, words3, 0}, of / each, of % each, which, each, units, tiles, in, out, act, \
		               {nullptr, slot, slots, pairs}); \
	}

MIXTURE_GATE(mixture_gate, true)
MIXTURE_GATE(mixture_gate_any, false)

// mixture_gate_alike is mixture_gate where there are clusters, and the experts' matrices are alike (expert_alike.cuh).
extern "C" __global__ void __launch_bounds__(32 * warps, 2) mixture_gate_alike(
	half* acts, const int* words, const int* gate_table, const int* up_table, const int* down_table,
	int experts, int gate_chunks, int gate_groups, int up_chunks, int up_groups, int each, int units,
	int tiles, int in, int out, int act, int biased, int slots, int slot, int pairs, int64 ld) {
	int of = blockIdx.x / 2;
	bool second = blockIdx.x % 2;
	Alike mine = {(const char*)(second ? up_table : gate_table), experts, second ? up_chunks : gate_chunks, second ? up_groups : gate_groups};
	first_alike({(const u32*)words, acts, ld}, mine, {(const char*)down_table, experts, 0, 0}, of / each, of % each, second, each, units, tiles, in, out, act, biased, {nullptr, slot, slots, pairs});
}

#define MIXTURE_DOWN(name, plain) \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		float* y, const half* acts, const half* all, const float* logits, \
		const float* gate_logits, const float* correction, const int* table, int experts, \
		int chosen, int words, int places, int blocks, int units, int most, int biased, int in, \
		int out, int slots, int slot, int pairs, int64 ld, float sum_scale, int score, int groups, \
		int top_groups, int group_max, int renorm, float renorm_eps, float factor, float jitter, \
		half* left_row, float* left_squares, const float* left_power, const half* left_places, \
		const float* left_scale, float left_offset) { \
		Given g = {logits, correction, gate_logits, nullptr, 1, experts, chosen, chosen, 0, 0}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter}; \
		Left left = {nullptr, (half*)acts, ld}; \
		Link link = {nullptr, (float*)left_power, left_row, left_squares, left_places, left_scale, left_offset, 0, 0, 0}; \
		last_products<plain>(g, r, left, {y, all, sum_scale, link}, {table, words, places}, blocks, units, most, biased, in, out, \
		              {nullptr, slot, slots, pairs}); \
	}

MIXTURE_DOWN(mixture_down, true)
MIXTURE_DOWN(mixture_down_any, false)
