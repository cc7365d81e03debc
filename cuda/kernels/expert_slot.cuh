// What slots of the matrices of experts have in shared memory (expert_feed.cuh, group_feed.cuh): words of a unit and, in front of them, for each lane,
// of groups a word of scales and, every other word, the group's unit.
#pragma once

#include "expert.cuh"

// copy_words_behind asks for a lane's words of a unit behind the first four, where there are some; they leave the L2 cache first.
__device__ inline void copy_words_behind(u32 to, const uint4* words, int bits) {
#if __CUDA_ARCH__ >= 800
	if (bits > 4)
		asm volatile(
			"{.reg .pred p; .reg .b64 once;"
			"createpolicy.fractional.L2::evict_first.b64 once, 1.0;"
			"cp.async.cg.shared.global.L2::cache_hint [%0+2048], [%1+2048], 16, once;"
			"setp.gt.s32 p, %2, 5;"
			"@p cp.async.cg.shared.global.L2::cache_hint [%0+2560], [%1+2560], 16, once;"
			"setp.gt.s32 p, %2, 6;"
			"@p cp.async.cg.shared.global.L2::cache_hint [%0+3072], [%1+3072], 16, once;"
			"@p cp.async.cg.shared.global.L2::cache_hint [%0+3584], [%1+3584], 16, once;}"
			::"r"(to), "l"(words), "r"(bits) : "memory");
#endif
}

// PairedCodes is where a lane finds the codes of its scales: select picks its half of a
// word (spread).
struct PairedCodes {
	const u32* words;
	u32 select;
	__device__ u32 operator()(int i) const { return spread(words[i * 64], select); }
};
