// Units of an EXL2 matrix on their way to a warp that multiplies one row by digits (digits.cuh). What there is to know of them
// is in a table that the host has made, so that little is to be worked out for each; and a warp's lanes have the table of the
// warp's units in registers, a lane of one, as reads of memory would wait behind words.
#pragma once

#include "unit.cuh"

// A Step is a unit of those that a warp has of a tile, in 16 bytes: what it is; of its first two groups where in a tile their scales are, in
// bytes, 16 bits each; their units, fp16; and nothing. A unit of one group has that twice. What it is: in three bits its width, 7 being 8; one,
// if it has four groups; in 11 its first block; one if it is the last of the warp's; one if it has more than two bits, one if more than three,
// one if more than four, or four groups; and from bit 20 on its first chunk in a tile.
constexpr int four_groups = 1 << 3, first_block = 4, last_step = 1 << 15, above_two = 1 << 16, above_three = 1 << 17, unusual = 1 << 18, first_chunk = 20;
constexpr int chunk_bytes = 4 * chunk_words;

__device__ inline int step_width(u32 what) { return what & 7; }
__device__ inline u32 step_row(u32 what) { return (what & 0x7ff0) << (7 - first_block); }  // bytes of digits in front of the unit's

// In front of the words of a step in shared memory there are, for each lane, the codes of its scales of the first pair of groups, and of
// the second pair the unit of its group and the codes. The first pair's unit is in a register (StepFeed), with what the step is.
__device__ inline int step_words(int pairs) { return (2 * pairs - 1) * lane_bytes; }

__device__ inline u32 high_twice(u32 w) { return __byte_perm(w, 0, 0x3232); }

// kept_as returns v, of which the compiler does not know what it is made of: it is kept as it is. seldom is that of what is
// needed seldom: the compiler does not work out in advance what depends on it.
__device__ inline u32 kept_as(u32 v) {
	asm volatile("" : "+r"(v));
	return v;
}
__device__ inline int seldom(int v) {
	asm volatile("" : "+r"(v));
	return v;
}

// copy_step asks for a lane's words of a unit, of up to four bits, and its first scales.
__device__ inline void copy_step(u32 to, const char* words, u32 side, const char* scales, u32 what, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p; .reg .b32 t;"
		"cp.async.ca.shared.global [%2], [%3], 4;"
		"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %5;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+512], [%1+512], 16, %5;"
		"and.b32 t, %4, 0x10000; setp.ne.u32 p, t, 0;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1024], [%1+1024], 16, %5;"
		"and.b32 t, %4, 0x20000; setp.ne.u32 p, t, 0;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1536], [%1+1536], 16, %5;}"
		::"r"(to), "l"(words), "r"(side), "l"(scales), "r"(what), "l"(once) : "memory");
#else
	for (int i = 0; i < min(step_width(what), 4); i++) *((uint4*)__cvta_shared_to_generic(to) + i * 32) = *(const uint4*)(words + i * chunk_bytes);
	*(u32*)__cvta_shared_to_generic(side) = *(const u32*)scales;
#endif
}

// copy_wide asks for the words behind those, of more bits.
__device__ inline void copy_wide(u32 to, const char* words, int width, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+2048], [%1+2048], 16, %3;"
		"setp.gt.s32 p, %2, 5;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+2560], [%1+2560], 16, %3;"
		"setp.gt.s32 p, %2, 6;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+3072], [%1+3072], 16, %3;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+3584], [%1+3584], 16, %3;}"
		::"r"(to), "l"(words), "r"(width), "l"(once) : "memory");
#else
	for (int i = 4; i < width + width / 7; i++) *((uint4*)__cvta_shared_to_generic(to) + i * 32) = *(const uint4*)(words + i * chunk_bytes);
#endif
}

// StepCodes is where a lane finds the codes of its scales in a slot: select picks its half of a word, twice.
struct StepCodes {
	const u32* words;
	u32 select;
	__device__ u32 operator()(int pair) const { return __byte_perm(words[2 * pair * lane_words], 0, select); }
};

// StepUnits has the units of the lane's groups: the first, and that of the second pair in a slot.
struct StepUnits {
	u32 first;
	const u32* words;
	__device__ u32 operator[](int group) const { return group == 0 ? first : words[lane_words]; }
};
