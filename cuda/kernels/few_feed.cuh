// Units of products of few rows on their way to warps.
#pragma once

#include "few_rows.cuh"
#include "step.cuh"
#include "unit.cuh"

// A Feed brings the units of a warp to its ring of slots, those of a matrix's tiles of a
// round after each other, and then of the next matrix, or round.
template <int warps, int slots>
struct Feed {
	const Product& product;
	u32 ring, slot;                 // where in shared memory the ring and the next slot are, at this lane
	const uint4* words;             // of the tile, at this lane
	const u32* scales;
	const uint2 *next, *first;      // place of the unit behind, and of the first in a tile
	uint2 place;
	int units, left, tiles;         // of the warp in a tile, to go in it, and tiles to go
	int words_step, scales_step;    // from tile to tile
	int matrix;
	Range round;
	unsigned long long policy;

	// The first units are asked for at once, up to `early`.
	__device__ Feed(const Product& product, u32 ring, int early = slots) : product(product), ring(ring), slot(ring), matrix(product.count - 1), policy(once()) {
		round.to = run_of(product).from;
		open();
#pragma unroll
		for (int s = 0; s < slots; s++)
			if (s < early) ask();
	}

	// open goes on to the next matrix of which there are units, or to the end.
	__device__ void open() {
		for (;;) {
			if (++matrix == product.count) {
				int end = run_of(product).to;
				matrix = 0, round.from = round.to, left = 0;
				if (round.from == end) return;
				round.to = min(round.from + span_of(product), end);
			}
			const Matrix& m = product.m[matrix];
			Range r = in(m, round), u = units_of<warps>(m);
			tiles = r.size(), left = units = u.size();
			if (tiles <= 0 || units == 0) continue;
			int lane = threadIdx.x % 32;
			words_step = m.chunks * 32, scales_step = m.groups * 4;
			words = m.words + (int64)r.from * words_step + lane, scales = (const u32*)m.scales + (int64)r.from * scales_step + lane / 8;
			next = first = m.places + u.from;
			place = __ldg(next++);
			return;
		}
	}

	// more_scales asks for those of a group, which are i behind the first.
	__device__ void more_scales(int group, int i) const {
		copy4((u32*)__cvta_shared_to_generic(slot + (1 + i) * lane_bytes), scales + min(group, scales_step / 4 - 1) * 4, true);
	}

	// ask asks for the unit, if there is one, in the slot, and goes to the next of both.
	__device__ void ask() {
		if (left > 0) {
			Place u(place);
			int group = group_of(u.packed);
			copy_unit(slot + (1 + product.groups) * lane_bytes + threadIdx.x % 32 * 12, words + u.chunk * 32, slot + lane_bytes, scales + group * 4, bits_of_unit(u.packed), policy);
			bool four = shift_of(u.packed) == 0;
			if (!has_one_group(u.packed)) {  // two or four
				more_scales(group + 1, 1);
				if (four) more_scales(group + 2, 2), more_scales(group + 3, 3);
			}
			*(u32*)__cvta_shared_to_generic(slot) = u.packed;
			if (--left > 0) {
				place = __ldg(next++);
			} else if (--tiles > 0) {
				left = units, words += words_step, scales += scales_step;
				place = __ldg(first);
				next = first + 1;
			} else {
				open();
			}
		}
		commit();
		slot = after(slot);
	}
	__device__ u32 after(u32 s) const { return s == ring + (slots - 1) * product.slot ? ring : s + product.slot; }

	// next_unit waits for the next unit, and returns where it is.
	__device__ u32 next_unit() const {
		arrived<slots - 1>();
		return slot;
	}
};

// A StepFeed is a Feed by steps (step.cuh): of one row by digits, of which a lane has one of two groups' scales, or of several, of which a lane has all.
template <int warps, int slots, bool all = false>
struct StepFeed {
	static constexpr int flight = 2;
	static constexpr bool ahead = flight < slots;

	const Product& product;
	u32 slot[slots];             // where in shared memory they are, at this lane, the next one first; of two, that one and the sum of both
	u32 words_at;                // of a slot: where the lane's words are
	const char *words, *scales;  // of the tile, at this lane
	u32 table[3];                // of the step of the lane's number: what it is, of a group, and of the next tile (step.cuh)
	int number, tiles;           // at which lane the next step is in a tile, and tiles to go
	u32 what, of, second;        // the step: what it is, of the lane's group, or the first, and of the second where a lane has all
	u32 coming[2];               // what those on their way are, and the lane's first units
	u32 units[2];                // of those, where a lane has all
	int matrix;
	Range round;
	unsigned long long policy;

	// The first step is asked for at once.
	__device__ StepFeed(const Product& product, u32 ring, Range run) : product(product), number(first_number()), matrix(0), policy(once()) {
#pragma unroll
		for (int s = 0; s < slots; s++) slot[s] = ring + s * product.slot;
		if (slots == 2) slot[1] += ring;
		words_at = (all ? product.groups * lane_bytes : step_words(product.groups)) + threadIdx.x % 32 * 12;
		round = {run.from, min(run.from + span_of(product), run.to)};
		if (!enter()) open();
		if (!all) look();
		ask();
		if (!all) look();
	}

	// Lane 2i has step i for the lanes of its first group, lane 2i+1 for those of the second.
	__device__ static int first_number() { return all ? 0 : threadIdx.x % 4 / 2; }

	// enter goes on to the matrix, if there are tiles of it in the round.
	__device__ bool enter() {
		const Matrix& m = product.m[matrix];
		Range r = in(m, round);
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
		tiles = r.size();
		if (tiles <= 0) return false;
		int each = all ? steps_of_warp(m.count, warps) : m.count;
		uint4 step = __ldg((const uint4*)m.places + warp * each + min(lane / 2, each - 1));
		table[0] = step.x, table[1] = lane % 2 ? step.z : step.y, table[2] = step.w;
		words = (const char*)m.words + (int64)r.from * (m.chunks * chunk_bytes) + lane * 16;
		scales = (const char*)m.scales + (int64)r.from * (m.groups * 16) + lane / 8 * 4;
		return true;
	}

	// open goes on to the next matrix of which there are tiles, or to the end.
	__device__ void open() {
		do {
			if (++matrix == product.count) {
				int end = run_of(product).to;
				matrix = 0, tiles = 0;
				if (round.to == end) return;
				round = {round.to, min(round.to + span_of(product), end)};
			}
		} while (!enter());
	}

	__device__ static u32& word(u32 at) { return *(u32*)__cvta_shared_to_generic(at); }

	// behind returns what is some chunks behind.
	__device__ static const char* behind(const char* from, u32 chunks) {
		const char* at;
		asm("mad.wide.u32 %0, %1, %2, %3;" : "=l"(at) : "r"(chunks), "n"(chunk_bytes), "l"(from));
		return at;
	}

	// more asks for scales, and the unit, of the lane's group of the third and fourth.
	__device__ void more(u32 at) const {
		const Matrix& m = product.m[seldom(matrix)];
		int group = min((of >> 16) / 16 + 2, m.groups - 1);
		copy4(&word(at + lane_bytes), m.units + group, true);
		copy4(&word(at + 2 * lane_bytes), (const u32*)(scales + group * 16), true);
	}

	// more_of_all asks for those of both, and for the second's scales.
	__device__ void more_of_all(u32 at) const {
		const Matrix& m = product.m[seldom(matrix)];
		int first = (of >> 16) / 16 + 2;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			int group = min(first + i, m.groups - 1);
			copy4(&word(at + (2 + i) * lane_bytes), (const u32*)(scales + group * 16), true);
			copy4(&word(at + (4 + i) * lane_bytes), m.units + group, true);
		}
	}

	// look finds what the next step is. Of one row it is called long before the step is asked for, as lanes' answers wait behind all that is
	// asked for; of several, ask calls it: what need not be kept until then is not moved, either.
	__device__ void look() {
		what = __shfl_sync(~0u, table[0], number), of = __shfl_sync(~0u, table[1], number);
		if constexpr (all) second = __shfl_sync(~0u, table[1], number + 1);
	}

	// ask asks for the step, if there is one, in the slot, and goes to the next of both, at which one has to look.
	__device__ void ask() {
		if constexpr (all) look();
		u32 at = slot[0], to = at + words_at;
		if (tiles > 0) {
			const char* from = behind(words, what >> first_chunk);
			copy_step(to, from, at, scales + (of >> 16), what, policy);
			if constexpr (all)
				if (what & many_groups) copy4(&word(at + lane_bytes), (const u32*)(scales + (second >> 16)), true);
			number += 2;
			if (what & unusual) {
				if (what & (wide | four_groups)) {
					if (what & wide) copy_wide(to, from, what, policy);
					if (what & four_groups) {
						if constexpr (all) more_of_all(at);
						else more(at);
					}
				}
				if (what & last_step) {
					number = first_number();
					if (--tiles > 0) words = behind(words, table[2] >> 16), scales += (table[2] & 0xffff) * 16;
					else open();
				}
			}
		}
		commit();
		coming[0] = coming[1], coming[1] = all ? what : __byte_perm(what, of, 0x5410);
		if constexpr (all) units[0] = units[1], units[1] = __byte_perm(of, second, 0x5410);
		if constexpr (slots == 2) {
			slot[0] = slot[1] - at;
		} else {
#pragma unroll
			for (int s = 0; s < slots - 1; s++) slot[s] = slot[s + 1];
			slot[slots - 1] = at;
		}
	}

	// next_unit waits for the next unit, and returns where it is. ahead tells that another is asked for before it is
	// multiplied, not behind.
	__device__ u32 next_unit() {
		arrived<flight - 1>();
		if (ahead) ask();
		return slot[0];
	}
};
