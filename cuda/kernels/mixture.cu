// A mixture of experts for one row, behind the logits of its router and the digits of the
// normed row (choose.cu), in two kernels (device.Fuser.Mixture): gate and up of the chosen,
// with the activation, and down with the weighted sum. Each of a few rows, which lie one behind the
// other, has blocks of its own (blockIdx.z).
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

// Each kernel is there twice: as most mixtures need it, and, where `wide`, for those whose rows have the expert that all rows see among their own, `times` as
// wide as the others, and whose units may be limited. What the latter do more would cost the former 2 %.
#define MIXTURE_GATE(name, how, gated, wide) \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		half* acts, const int* words, const float* logits, const float* correction, \
		const int* gate_table, const int* up_table, const int* down_table, int experts, \
		int words1, int words2, int words3, int places1, int places2, int both, int units, \
		int tiles, int in, int out, int act, int slots, int slot, int pairs, int64 ld, int score, \
		int groups, int top_groups, int group_max, int renorm, float renorm_eps, float factor, \
		float jitter, int times, float limit, float most, float alpha, float added) { \
		int row = blockIdx.z, chosen = gridDim.y - (wide ? times : 0), asking = both ? 1 : 2; \
		Given g = {logits + row * experts, correction, nullptr, nullptr, 1, experts, chosen, chosen, 0, 0}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter}; \
		Left left = {row_of(words, in), acts_of<wide>(acts, chosen, ld), ld}; \
		first_products<how, gated, wide>(g, r, left, {gate_table, words1, places1}, {up_table, words2, places2}, {down_table, words3, 0}, blockIdx.y, blockIdx.x / asking, both ? 2 : blockIdx.x % 2, gridDim.x / asking, units, tiles, in, out, {act, limit, most, alpha, added}, \
		               {nullptr, slot, slots, pairs}); \
	}

MIXTURE_GATE(mixture_gate, by_key, true, false)
MIXTURE_GATE(mixture_gate_wide, by_key, true, true)
MIXTURE_GATE(mixture_gate_many, by_keys, true, false)
MIXTURE_GATE(mixture_gate_many_wide, by_keys, true, true)
MIXTURE_GATE(mixture_gate_any, by_any, true, false)
MIXTURE_GATE(mixture_gate_any_wide, by_any, true, true)

// Results of up that are their own gates: gate's matrices are those of up, and `both` is told.
MIXTURE_GATE(mixture_up, by_key, false, false)
MIXTURE_GATE(mixture_up_wide, by_key, false, true)
MIXTURE_GATE(mixture_up_many, by_keys, false, false)
MIXTURE_GATE(mixture_up_many_wide, by_keys, false, true)
MIXTURE_GATE(mixture_up_any, by_any, false, false)
MIXTURE_GATE(mixture_up_any_wide, by_any, false, true)

// The same where there are clusters, and the experts' matrices are alike (expert_alike.cuh).
#define GATE_ALIKE(name, how, wide) \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		half* acts, const int* words, const int* gate_table, const int* up_table, const int* down_table, \
		int experts, int gate_chunks, int gate_groups, int up_chunks, int up_groups, int units, \
		int tiles, int in, int out, int act, int biased, int slots, int slot, int pairs, int64 ld, int times, float limit, float most, float alpha, float added) { \
		int chosen = gridDim.y - (wide ? times : 0); \
		bool second = blockIdx.x % 2; \
		Alike mine = {(const char*)(second ? up_table : gate_table), experts, second ? up_chunks : gate_chunks, second ? up_groups : gate_groups}; \
		first_alike<how, true, wide>({row_of(words, in), acts_of<wide>(acts, chosen, ld), ld}, mine, {(const char*)down_table, experts, 0, 0}, blockIdx.y, chosen, blockIdx.x / 2, second, gridDim.x / 2, units, tiles, in, out, {act, limit, most, alpha, added}, biased, {nullptr, slot, slots, pairs}); \
	}

GATE_ALIKE(mixture_gate_alike, by_key, false)
GATE_ALIKE(mixture_gate_alike_wide, by_key, true)
GATE_ALIKE(mixture_gate_alike_many, by_keys, false)
GATE_ALIKE(mixture_gate_alike_many_wide, by_keys, true)

#define UP_ALIKE(name, how, wide) \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		half* acts, const int* words, const int* up_table, const int* down_table, int experts, int chunks, int groups, int units, \
		int tiles, int in, int out, int act, int biased, int slots, int slot, int pairs, int64 ld, int times, float limit, float most, float alpha, float added) { \
		int chosen = gridDim.y - (wide ? times : 0); \
		first_alike<how, false, wide>({row_of(words, in), acts_of<wide>(acts, chosen, ld), ld}, {(const char*)up_table, experts, chunks, groups}, {(const char*)down_table, experts, 0, 0}, \
		                   blockIdx.y, chosen, blockIdx.x, false, gridDim.x, units, tiles, in, out, {act, limit, most, alpha, added}, biased, {nullptr, slot, slots, pairs}); \
	}

UP_ALIKE(mixture_up_alike, by_key, false)
UP_ALIKE(mixture_up_alike_wide, by_key, true)
UP_ALIKE(mixture_up_alike_many, by_keys, false)
UP_ALIKE(mixture_up_alike_many_wide, by_keys, true)

// `times` and how many units a tile of the expert that all rows see has are for wide ones alone. Scales multiply the experts' weights, or are null.
#define MIXTURE_DOWN(name, how, corrected, wide) \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		float* y, const half* acts, const half* all, const float* logits, \
		const float* gate_logits, const float* correction, const float* scales, const int* table, int experts, \
		int chosen, int times, int units_of_all, int words, int places, int units, int most, int biased, int in, \
		int out, int slots, int slot, int pairs, int64 ld, float sum_scale, int score, int groups, \
		int top_groups, int group_max, int renorm, float renorm_eps, float factor, float jitter, \
		half* left_row, float* left_squares, const float* left_power, const half* left_places, \
		const float* left_scale, float left_offset) { \
		int row = blockIdx.z; \
		Given g = {logits + row * experts, correction, gate_logits ? gate_logits + row : nullptr, nullptr, 1, experts, chosen, chosen, 0, 0}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter}; \
		Left left = {nullptr, (half*)acts + (int64)row * (chosen + (wide ? times : 0)) * ld, ld}; \
		Link link = {nullptr, (float*)left_power + row, left_row ? left_row + (int64)row * out : nullptr, left_squares + row * squares_stride, left_places, left_scale, left_offset, 0, 0, 0}; \
		last_products<how, corrected, wide>(g, r, scales, left, {y + (int64)row * out, all ? all + (int64)row * out : nullptr, sum_scale, link}, {table, words, places}, wide ? times : 0, units_of_all, units, most, biased, in, out, \
		              {nullptr, slot, slots, pairs}); \
	}

MIXTURE_DOWN(mixture_down, by_key, false, false)
MIXTURE_DOWN(mixture_down_wide, by_key, false, true)
MIXTURE_DOWN(mixture_down_corrected, by_key, true, false)
MIXTURE_DOWN(mixture_down_corrected_wide, by_key, true, true)
MIXTURE_DOWN(mixture_down_many, by_keys, false, false)
MIXTURE_DOWN(mixture_down_many_wide, by_keys, false, true)
MIXTURE_DOWN(mixture_down_many_corrected, by_keys, true, false)
MIXTURE_DOWN(mixture_down_many_corrected_wide, by_keys, true, true)
MIXTURE_DOWN(mixture_down_any, by_any, true, false)
MIXTURE_DOWN(mixture_down_any_wide, by_any, true, true)
