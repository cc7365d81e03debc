// Units of the matrices of experts that are all divided into units alike, as those of one recipe are: then what a unit is, and
// where it lies in its matrix, is known before the expert is. All that there is to know of an expert is where its matrix begins,
// and a block has that of all experts in shared memory.
#pragma once

#include "choice.cuh"
#include "expert_feed.cuh"

constexpr int head_bytes = 48;  // of an expert

// Alike is the table of a group whose matrices are so.
struct Alike {
	const char* heads;  // of each expert where its words, scales, units, order, stored, and bias are (expert.cuh); behind all, its units
	int experts, chunks, groups;

	__device__ const char* of(int expert) const { return heads + expert * head_bytes; }

	// unit asks for what a unit is, as Place in unit.cuh says it, and how many bytes behind the first of a tile its words, and scales, are.
	__device__ uint4 unit(int u) const {
		uint4 v;
		asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"((const uint4*)of(experts) + u));
		return v;
	}
};

// Heads are where the words, scales, units, and orders of all experts begin, of so many at most.
template <int most>
struct Heads {
	uint4 v[most][2];

	__device__ void ask(const Alike& a) {
		for (int i = threadIdx.x; i < 2 * a.experts; i += blockDim.x) copy16(&v[i / 2][i % 2], a.of(i / 2) + i % 2 * sizeof(uint4), true);
		commit();
	}
};

__device__ inline const char* address(u32 low, u32 high) { return (const char*)((unsigned long long)high << 32 | low); }

// An AlikeFeed brings a warp its units of some tiles, up to 32, of which each lane knows one.
struct AlikeFeed {
	const char *words, *scales;  // of the expert's matrix, at this lane
	const u32* units;
	u32 ring, slot, asked;  // as in Feed
	int bytes, all, pairs, groups;
	int next, count, done;  // unit to be asked for, all, and multiplied
	uint4 unit;
	int tile;  // of the lane's unit
	u32 what;  // the next unit to be multiplied is

	// The first unit is a tile's u-th.
	__device__ AlikeFeed(const Alike& a, const Slots& s, int units, int tile, int u, int count)
		: ring((u32)__cvta_generic_to_shared(s.ring) + threadIdx.x % 32 * 4), slot(ring), asked(ring), bytes(s.bytes), all(s.bytes * s.count), pairs(s.pairs), groups(a.groups), next(0), count(count), done(0) {
		u += threadIdx.x % 32, this->tile = tile + u / units;
		unit = a.unit(u % units);
	}

	// come has the lane's unit, which is asked for in front of the wait: what is made of it there would wait for it.
	__device__ void come(const Alike& a) {
		asm volatile("" : "+r"(unit.x), "+r"(unit.y), "+r"(unit.z), "+r"(tile));
		unit.y += tile * a.chunks * 4 * chunk_words, unit.z += tile * groups * (int)sizeof(uint4);
		what = __shfl_sync(~0u, unit.x, 0);
	}

	// of is told the expert's head.
	__device__ void of(const uint4 (&head)[2]) {
		int lane = threadIdx.x % 32;
		words = address(head[0].x, head[0].y) + lane * 16, scales = address(head[0].z, head[0].w) + lane / 8 * 4;
		units = (const u32*)address(head[1].x, head[1].y);
	}
	__device__ u32 words_of(u32 slot) const { return slot + 3 * lane_row * pairs + threadIdx.x % 32 * 12; }
	__device__ u32 after(u32 slot) const { return slot + bytes >= ring + all ? ring : slot + bytes; }
	__device__ void ask() {
		if (next < count) {
			u32 what = __shfl_sync(~0u, unit.x, next), at = __shfl_sync(~0u, unit.y, next), scale = __shfl_sync(~0u, unit.z, next);
			int mine = group_of_lane(what), group = group_of(what), last = groups - 1 - group, k = min(mine, last);
			const u32 *s = (const u32*)(scales + scale), *u = units + group;
			copy_words(words_of(asked), (const uint4*)(words + at), bits_of_unit(what));
			copy_beside<1>(asked, s + k * 4, u + k);
			if ((what & 0x61) == 0) {  // four groups
				k = min(2 + mine, last);
				copy_beside<3>(asked, s + k * 4, u + k);
			}
			next++;
		}
		commit();
		asked = after(asked);
	}
	__device__ void ask(int units) {
#pragma unroll 1
		for (; units > 0; units--) ask();
	}

	// multiply adds the next unit's products with a row of x.
	__device__ void multiply(float (&sums)[2][4], const Digits& x, int slots, const Constants& c) {
		u32 now = what, select = threadIdx.x % 32 / 4 % 2 ? spread_high : spread_low;
		what = __shfl_sync(~0u, unit.x, ++done);
		arrived_all_but(slots - 1);
		const u32* side = (const u32*)__cvta_shared_to_generic(slot);
		multiply_unit_digits(bits_of_unit(now), shift_of(now), sums, (const uint4*)__cvta_shared_to_generic(words_of(slot)), x, digits_row_of(now),
		                     PairedCodes{side + 32, select}, LaneUnits{side + 64}, c);
		ask();
		slot = after(slot);
	}
};
