// Units of the matrices of experts (expert.cuh) on their way to the warps of a block, and their
// products with a row of digits (digits.cuh).
//
// A lane copies what it will read itself, of words and scales, so that it waits for
// nothing else.
#pragma once

#include "digits.cuh"
#include "expert_slot.cuh"

constexpr int warps = 12;        // of a block
constexpr int most_slots = 6;    // units that a warp has asked for at once
constexpr int most_listed = 8;   // that it has listed

static_assert(most_slots <= 6, "arrived_all_but takes five");

// A Listed unit is one that a warp multiplies: where it is, and what it is, as Place in
// unit.cuh says it.
struct alignas(16) Listed {
	const uint4* words;
	const u32 *scales, *units;
	u32 packed;
	unsigned short behind, expert;  // groups of the matrix behind its first; which of those chosen
};

__device__ inline int bits_of_unit(u32 packed) { return packed >> 1 & 15; }
__device__ inline int shift_of(u32 packed) { return packed >> 5 & 3; }
__device__ inline int group_of(u32 packed) { return packed >> 20; }
__device__ inline int digits_row_of(u32 packed) { return packed & 0x1fff << 7; }  // its first block times digit_block

// unit_of returns unit u of a tile of an expert's matrix.
__device__ inline Listed unit_of(const Table& table, const int* entry, int u, int tile, int expert) {
	const Matrix& m = *(const Matrix*)entry;
	uint2 place = __ldg((const uint2*)(entry + table.places) + u);
	int group = group_of(place.y);
	return {m.words + ((int64)tile * m.chunks + place.x) * 32, (const u32*)(m.scales + (int64)tile * m.groups + group), m.units + group,
	        place.y, (unsigned short)(m.groups - 1 - group), (unsigned short)expert};
}

// Slots is a warp's ring in shared memory. In front of the words of a unit each lane has what the
// unit is, with its expert in place of its group, and of its group of each pair (group_of_lane) the
// codes of scales and, every other word, the units.
struct Slots {
	unsigned char* ring;
	int bytes, count, pairs;  // of a slot; slots; pairs of groups of a unit, at most
};

constexpr int lane_row = 128;  // bytes of a word of each lane

// copy_beside asks for the scales and units of a group of a lane.
template <int at>
__device__ inline void copy_beside(u32 to, const u32* scales, const u32* units) {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.ca.shared.global [%0+%3], [%1], 4; cp.async.ca.shared.global [%0+%4], [%2], 4;" ::"r"(to), "l"(scales), "l"(units), "n"(at * lane_row), "n"((at + 1) * lane_row) : "memory");
#else
	u32* beside = (u32*)__cvta_shared_to_generic(to);
	beside[at * 32] = *scales, beside[(at + 1) * 32] = *units;
#endif
}

// copy_words asks for a lane's words of a unit, which leave the L2 cache first.
__device__ inline void copy_words(u32 to, const uint4* words, int bits) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p; .reg .b64 once;"
		"createpolicy.fractional.L2::evict_first.b64 once, 1.0;"
		"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, once;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+512], [%1+512], 16, once;"
		"setp.gt.s32 p, %2, 2;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1024], [%1+1024], 16, once;"
		"setp.gt.s32 p, %2, 3;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1536], [%1+1536], 16, once;}"
		::"r"(to), "l"(words), "r"(bits) : "memory");
	copy_words_behind(to, words, bits);
#else
	for (int i = 0; i < bits; i++) ((uint4*)__cvta_shared_to_generic(to))[i * 32] = words[i * 32];
#endif
}

// LaneUnits is where it finds the units: of groups 0 and 2 of its own.
struct LaneUnits {
	const u32* words;
	__device__ u32 operator[](int group) const { return words[group * 32]; }
};

// arrived_all_but is arrived_but by branches: a table of jumps is fetched from constant memory.
__device__ inline void arrived_all_but(int n) {
	if (n < 3) {
		if (n == 2) arrived<2>();
		else if (n == 1) arrived<1>();
		else arrived<0>();
	} else {
		if (n == 3) arrived<3>();
		else if (n == 4) arrived<4>();
		else arrived<5>();
	}
}

// A Feed brings a run of units, which `list` knows by their numbers, to a warp.
template <class List>
struct Feed {
	Listed* window;  // of the warp
	const List& list;
	u32 ring, slot, asked;  // where in shared memory the ring, the next unit, and the next that is asked for are, at this lane
	int bytes, all, pairs;  // of a slot; of the ring
	int next, end, base;

	__device__ Feed(const Slots& slots, Listed* window, const List& list, int from, int to)
		: window(window), list(list), ring((u32)__cvta_generic_to_shared(slots.ring) + threadIdx.x % 32 * 4), slot(ring), asked(ring),
		  bytes(slots.bytes), all(slots.bytes * slots.count), pairs(slots.pairs), next(from), end(to), base(from) { look(); }

	// begin asks for what is first, of so many slots.
	__device__ void begin(int slots) {
#pragma unroll 1
		for (; slots > 0; slots--) ask();
	}

	// look lists what comes next.
	__device__ void look() {
		int lane = threadIdx.x % 32;
		if (lane < most_listed && base + lane < end) window[lane] = list(base + lane);
		__syncwarp();
	}
	__device__ u32 words_of(u32 slot) const { return slot + 3 * lane_row * pairs + threadIdx.x % 32 * 12; }
	__device__ void ask() {
		if (next < end) {
			if (next == base + most_listed) {
				__syncwarp();
				base = next;
				look();
			}
			Listed p = window[next - base];
			int lane = threadIdx.x % 32, mine = group_of_lane(p.packed), at = min(mine, (int)p.behind);
			p.scales += lane / 8;
			*(u32*)__cvta_shared_to_generic(asked) = p.packed & 0xfffff | p.expert << 20;
			copy_beside<1>(asked, p.scales + at * 4, p.units + at);
			if ((p.packed & 0x61) == 0) {  // four groups
				at = min(2 + mine, (int)p.behind);
				copy_beside<3>(asked, p.scales + at * 4, p.units + at);
			}
			copy_words(words_of(asked), p.words + lane, bits_of_unit(p.packed));
			next++;
		}
		commit();
		asked = after(asked);
	}
	__device__ u32 after(u32 slot) const { return slot + bytes >= ring + all ? ring : slot + bytes; }

	// multiply adds the next unit's products with a row of x, and returns the unit's expert. row says of what a
	// unit is how many bytes behind x its rows begin.
	template <class Row>
	__device__ int multiply(float (&sums)[2][4], const Digits& x, const Row& row, int slots, const Constants& c) {
		arrived_all_but(slots - 1);
		const u32* side = (const u32*)__cvta_shared_to_generic(slot);
		u32 packed = *side, select = threadIdx.x % 32 / 4 % 2 ? spread_high : spread_low;
		int expert = packed >> 20;
		multiply_unit_digits(bits_of_unit(packed), shift_of(packed), sums, (const uint4*)__cvta_shared_to_generic(words_of(slot)), x, row(packed),
		                     PairedCodes{side + 32, select}, LaneUnits{side + 64}, c);
		ask();
		slot = after(slot);
		return expert;
	}
};

// total adds the warps' sums of a column.
__device__ inline float total(const float* parts) {
	float sum = 0;
#pragma unroll
	for (int w = 0; w < warps; w++) sum += parts[w * tile_columns];
	return sum;
}
