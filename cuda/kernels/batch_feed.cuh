// Units of products of several rows on their way to warps.
#pragma once

#include "batch_rows.cuh"
#include "unit.cuh"

#if __CUDA_ARCH__ >= 900

// What a warp does behind a unit, in bits: whether it was its last one of a tile; then to which block
// it sends its part, and as which; and where the unit of its first group is.
constexpr int leaves_bit = 31, owner_bit = 28, part_bit = 14;

__device__ inline u32 row_of(u32 packed) { return packed >> 1 & 0x1fff << 6; }  // in bytes: block_of times 64

// A Feed brings the units of a warp to its ring of slots, round after round. ends says that it looks no further when there are no more, which costs
// nine rows and more what it spares others (docs/decoding.md).
template <bool ends>
struct Feed {
	const Product& p;
	u32 side;               // how far in front of its words the lane's scales are
	u32 slot, both;         // where in shared memory its words of the next unit are, and the sum of that of both slots
	const uint4* words;     // of the tile, at this lane
	const u32* scales;
	uint2 place;            // of the next unit
	u32 packed[slots], then[slots];  // of the units on their way
	u32 tile_then;
	Range round;
	int left;               // units in the round, or -1: there are no more
	int k, tile, begin, unit, end;  // of the product; of the matrix, and where in the block's share it begins; of the tile
	unsigned long long policy;

	// ring is where the warp's slots are.
	__device__ Feed(const Product& p, u32 ring) : p(p), left(0), policy(once()) {
		int lane = threadIdx.x % 32;
		side = kept(p.groups * lane_bytes + lane * 12), slot = ring + p.groups * lane_bytes + lane * 16, both = kept(2 * slot + p.slot);
		round.from = round.to = run_of(p).from;
	}

	// open goes to the next round in which the warp has units, and to the first of them; there may be none.
	__device__ bool open(int rank) {
		int warp = threadIdx.x / 32;
#pragma unroll 1
		do {
			round = next_round(p, round);
			if (round.size() == 0) {
				if (ends) left = -1;
				return false;
			}
			left = units_of_warp(p, round, rank);
		} while (left == 0);
		int at = warp * p.each, n;
#pragma unroll 1
		for (k = 0, begin = 0;; k++) {
			n = units_of(p, k, rank).size();
			int all = in(p.m[k], round).size() * n;
			if (at < begin + all) break;
			begin += all;
		}
		int t = quotient(at - begin, n);
		begin += t * n, tile = in(p.m[k], round).from + t, unit = at - begin;
		return true;
	}

	// next goes to the next unit, if there is one, whose place it asks for.
	__device__ void next() {
		if (left > 0 && unit < end) {
			place = __ldg(p.m[k].places + unit);
			return;
		}
		int rank = rank_in_cluster();
		if (left > 0) {
			begin += units_of(p, k, rank).size(), unit = 0;
			if (++tile == in(p.m[k], round).to) {
#pragma unroll 1
				do k++;
				while (in(p.m[k], round).size() * units_of(p, k, rank).size() == 0);
				tile = in(p.m[k], round).from;
			}
		} else if (!open(rank)) {
			return;
		}
		const Matrix& m = p.m[k];
		int lane = threadIdx.x % 32;
		Range units = units_of(p, k, rank);
		unit += units.from, end = units.to;
		place = __ldg(m.places + unit);
		words = m.words + (int64)tile * m.chunks * 32 + lane, scales = (const u32*)m.scales + (int64)tile * m.groups * 4 + lane / 8;
		int item = tile + m.base - round.from, local = divided(item, p.per_block), owner = item - local * p.blocks, of = 0;
		if (p.then == gate) local += k * p.owned;
#pragma unroll 1
		for (int i = 0; i < k; i++) of += padded_groups(p.m[i].groups);
		int part = (local * p.blocks + rank) * p.parts + threadIdx.x / 32 - divided(begin, p.per_each);
		tile_then = owner << owner_bit | part << part_bit | of;
	}

	// ask asks for the unit, if there is one, in the slot, and goes to the next of both; the first time
	// there is nothing to ask for.
	__device__ void ask(bool begun = true) {
		if (begun) {
#pragma unroll
			for (int s = 0; s < slots - 1; s++) packed[s] = packed[s + 1], then[s] = then[s + 1];
			if (left > 0) {
				Place u(place);
				int group = group_of(u.packed);
				copy_unit(slot, words + u.chunk * 32, slot - side, scales + group * 4, bits_of_unit(u.packed), policy);
				if (!has_one_group(u.packed))
#pragma unroll 1
					for (int i = 1; i < unit_blocks >> shift_of(u.packed); i++)
						copy4((u32*)__cvta_shared_to_generic(slot - side + i * lane_bytes), scales + min(group + i, p.m[k].groups - 1) * 4, true);
				left--, unit++;
				packed[slots - 1] = u.packed, then[slots - 1] = tile_then + group | (left == 0 || unit == end ? 1u << leaves_bit : 0);
			}
			commit();
			slot = both - slot;
			if (ends && left < 0) return;
		}
		next();
	}
};

#endif
