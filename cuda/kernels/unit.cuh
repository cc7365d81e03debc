// A unit of an EXL2 matrix (exl2.cuh) on its way to a warp: where it is, and how it is
// brought to shared memory.
#pragma once

#include "packed.cuh"

// Place is where a unit is in a tile, its first chunk, and what it is: in bits 0 to 4
// twice its width, and one more if it has one group; in two bits the log2 of a group's
// blocks, up to 2; in 13 its first block; in 12 its first group.
struct Place {
	u32 chunk, packed;
	__device__ Place(uint2 v) : chunk(v.x), packed(v.y) {}
};

__device__ inline int bits_of_unit(u32 packed) { return packed >> 1 & 15; }
__device__ inline bool has_one_group(u32 packed) { return packed & 1; }
__device__ inline int shift_of(u32 packed) { return packed >> 5 & 3; }
__device__ inline int block_of(u32 packed) { return packed >> 7 & 0x1fff; }
__device__ inline int group_of(u32 packed) { return packed >> 20; }

// In front of the words of a unit in shared memory there are, for each lane, what it is
// and a word of scales for each of its groups. A lane reads nothing but what is its own.
constexpr int lane_words = 32, lane_bytes = 4 * lane_words;

// once returns a policy for what is read once: it leaves the L2 cache first, and what
// every step reads stays there.
__device__ inline unsigned long long once() {
	unsigned long long policy = 0;
#if __CUDA_ARCH__ >= 800
	asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
#endif
	return policy;
}

// copy_unit asks for a lane's words of a unit, and of scales.
__device__ inline void copy_unit(u32 to, const uint4* words, u32 side, const u32* scales, int bits, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p;"
		"cp.async.ca.shared.global [%2], [%3], 4;"
		"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %5;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+512], [%1+512], 16, %5;"
		"setp.gt.s32 p, %4, 2;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1024], [%1+1024], 16, %5;"
		"setp.gt.s32 p, %4, 3;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1536], [%1+1536], 16, %5;}"
		::"r"(to), "l"(words), "r"(side), "l"(scales), "r"(bits), "l"(once) : "memory");
	if (bits > 4)
		asm volatile(
			"{.reg .pred p;"
			"cp.async.cg.shared.global.L2::cache_hint [%0+2048], [%1+2048], 16, %3;"
			"setp.gt.s32 p, %2, 5;"
			"@p cp.async.cg.shared.global.L2::cache_hint [%0+2560], [%1+2560], 16, %3;"
			"setp.gt.s32 p, %2, 6;"
			"@p cp.async.cg.shared.global.L2::cache_hint [%0+3072], [%1+3072], 16, %3;"
			"@p cp.async.cg.shared.global.L2::cache_hint [%0+3584], [%1+3584], 16, %3;}"
			::"r"(to), "l"(words), "r"(bits), "l"(once) : "memory");
#else
	for (int i = 0; i < bits; i++) *((uint4*)__cvta_shared_to_generic(to) + i * 32) = words[i * 32];
	*(u32*)__cvta_shared_to_generic(side) = *scales;
#endif
}

// LaneCodes is where a lane finds the codes of its scales in a slot: select picks its
// half of a word (spread).
struct LaneCodes {
	const u32* words;
	u32 select;
	__device__ u32 operator()(int group) const { return spread(words[group * lane_words], select); }
};
