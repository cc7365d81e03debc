// Units of an EXL2 matrix on their way to a warp that multiplies one row by digits (digits.cuh). What there is to know of them
// is in a table that the host has made, so that little is to be worked out for each; and a warp's lanes have the table of the
// warp's units in registers, a lane of one, as reads of memory would wait behind words.
#pragma once

#include "digits.cuh"
#include "unit.cuh"

// A Step is a unit of those that a warp has of a tile, in 16 bytes: what it is; for the lanes of each of its first two groups the group's unit, fp16,
// and in the upper 16 bits where in a tile its scales are, in bytes, of which a unit of one group has the same twice; and how far the next tile's
// scales are, in groups, and, in the upper 16 bits, its words, in chunks. What it is: one if it has four groups; one if it is the last of the warp's;
// two bits, of which the lower one is that of 3 bits, or 6, and the higher one of 4, or 8; one of more than 4 bits; in 11 its first block; one if it
// has more than two bits, one if more than three, one if there is more to do for it (more than four bits, four groups, the last one), and one if it has more than one group; and from bit 20 on its first chunk in a tile.
constexpr int four_groups = 1 << 0, last_step = 1 << 1, first_width = 2, wide = 1 << 4, first_block = 5;
constexpr int above_two = 1 << 16, above_three = 1 << 17, unusual = 1 << 18, many_groups = 1 << 19, first_chunk = 20;
constexpr int most_steps = 16;  // of a warp and tile: two lanes for each
constexpr int chunk_bytes = 4 * chunk_words;

// steps_of_warp returns how many steps there are for each warp, of units of a tile.
__device__ inline int steps_of_warp(int units, int warps) { return (units + warps - 1) / warps; }

__device__ inline int step_width(u32 what) {
	int n = what >> first_width & 3;
	return what & wide ? 5 + n + n / 2 : 2 + n;
}
__device__ inline int step_block(u32 what) { return what >> first_block & 0x7ff; }
__device__ inline u32 step_row(u32 what) { return kept_as(what & 0xffe0); }  // as StepDigits has rows

// In front of the words of a step in shared memory there are, for each lane, the codes of its scales of the first pair of groups, and of
// the second pair the unit of its group and the codes. The first pair's unit is in a register (StepFeed), with what the step is.
__device__ inline int step_words(int pairs) { return (2 * pairs - 1) * lane_bytes; }

__device__ inline u32 high_twice(u32 w) { return bits_of(__high2half2(half2_of(w))); }

// copy_step asks for a lane's words of a unit, of up to four bits, and its first scales.
__device__ inline void copy_step(u32 to, const char* words, u32 side, const char* scales, u32 what, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p, q; .reg .b32 t;"
		"and.b32 t, %4, 0x10000; setp.ne.u32 p, t, 0;"
		"and.b32 t, %4, 0x20000; setp.ne.u32 q, t, 0;"
		"cp.async.ca.shared.global [%2], [%3], 4;"
		"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %5;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+512], [%1+512], 16, %5;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1024], [%1+1024], 16, %5;"
		"@q cp.async.cg.shared.global.L2::cache_hint [%0+1536], [%1+1536], 16, %5;}"
		::"r"(to), "l"(words), "r"(side), "l"(scales), "r"(what), "l"(once) : "memory");
#else
	for (int i = 0; i < min(step_width(what), 4); i++) *((uint4*)__cvta_shared_to_generic(to) + i * 32) = *(const uint4*)(words + i * chunk_bytes);
	*(u32*)__cvta_shared_to_generic(side) = *(const u32*)scales;
#endif
}

static_assert(first_width == 2, "as copy_wide has it: 12, of which codes of 5 bits have nothing, and 8, which those of 8 have");

// copy_wide asks for the words behind those, of more bits.
__device__ inline void copy_wide(u32 to, const char* words, u32 what, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p, q; .reg .b32 t;"
		"and.b32 t, %2, 12; setp.ne.u32 p, t, 0;"
		"and.b32 t, %2, 8; setp.ne.u32 q, t, 0;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+2048], [%1+2048], 16, %3;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+2560], [%1+2560], 16, %3;"
		"@q cp.async.cg.shared.global.L2::cache_hint [%0+3072], [%1+3072], 16, %3;"
		"@q cp.async.cg.shared.global.L2::cache_hint [%0+3584], [%1+3584], 16, %3;}"
		::"r"(to), "l"(words), "r"(what), "l"(once) : "memory");
#else
	for (int i = 4, width = step_width(what); i < width; i++) *((uint4*)__cvta_shared_to_generic(to) + i * 32) = *(const uint4*)(words + i * chunk_bytes);
#endif
}

// StepCodes is where a lane finds the codes of its scales in a slot: select picks its half of a word, twice.
struct StepCodes {
	const u32* words;
	u32 select;
	__device__ u32 operator()(int pair) const { return spread(words[2 * pair * lane_words], select); }
};

// StepUnits has the units of the lane's groups: the first, and that of the second pair in a slot.
struct StepUnits {
	u32 first;
	const u32* words;
	__device__ u32 operator[](int group) const { return group == 0 ? first : words[lane_words]; }
};

// GroupUnits has the units of all groups of a step, of which a lane of several rows has the codes one after the other: of the first two in one
// register, of the last two behind four groups' codes.
struct GroupUnits {
	u32 two;
	const u32* words;
	__device__ u32 operator[](int group) const { return group == 0 ? __byte_perm(two, 0, 0x1010) : group == 1 ? high_twice(two) : words[(2 + group) * lane_words]; }
};

// multiply_step adds the products of a unit (multiply_unit_digits), likely ones first.
template <class X, class Codes, class Units>
__device__ inline void multiply_step(u32 what, float (&sums)[2][4], const uint4* words, const X& x, const Codes& codes, const Units& units, const Constants& c) {
	u32 row = step_row(what);
	if (what & (four_groups | wide)) {
		if (what & four_groups) multiply_width<2>(step_width(what), sums, words, x, row, codes, units, c);
		else multiply_wide<1>(step_width(what), sums, words, x, row, codes, units, c);
	} else {
		if (what & 2 << first_width) multiply_halves<4, 1>(sums, words, x, row, codes, units, c);
		else if (what & 1 << first_width) multiply_halves<3, 1>(sums, words, x, row, codes, units, c);
		else multiply_halves<2, 1>(sums, words, x, row, codes, units, c);
	}
}
