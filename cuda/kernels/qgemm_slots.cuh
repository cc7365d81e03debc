// The shared memory in which warps that copy leave units for warps that multiply (qgemm_hopper.cu, qgemm_group.cu).
#pragma once

#include "barrier.cuh"
#include "unit.cuh"

constexpr int tiles = 8;                           // of a block, each a warp's
constexpr int copiers = 4;                         // warps
constexpr int threads = 32 * (tiles + copiers);    // whole warp groups
constexpr int most_slots = 8;                      // units on their way
constexpr int codes_at = 32;                       // in a slot's head
constexpr int head_bytes = codes_at + tiles * unit_blocks * 16;
static_assert(head_bytes % 16 == 0 && threads % 128 == 0, "what is read is aligned, and warp groups are whole");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Slots are for units that come: rows of x, by blocks, and the words of eight tiles. Behind all are their heads: the units of a unit's four
// groups, what it is (Place), and behind that codes of scales, by tiles and groups. A Turn goes through them.
struct Slots {
	u32 base, heads, barriers;  // addresses
	int bytes, count;
	__device__ u32 head_at(int i) const { return heads + i * head_bytes; }
	__device__ u32 full_at(int i) const { return barriers + 8 * i; }
	__device__ u32 empty_at(int i) const { return barriers + 8 * (most_slots + i); }
};
struct Turn {
	int at, parity;
	__device__ void next(const Slots& s) {
		if (++at == s.count) at = 0, parity ^= 1;
	}
};

#endif
