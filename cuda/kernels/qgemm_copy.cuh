// How units of products of some rows (qgemm_hopper.cu) come to shared memory.
#pragma once

#include "order.cuh"
#include "qgemm_some.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A Step is a unit of a block's, of 256 columns after others.
struct Step {
	const Matrix* m;
	int columns, unit, to;
	uint2 place;

	__device__ Step(const Product& p, const Cluster& c) { open(p, c, c.number); }
	__device__ bool there(const Product& p) const { return columns < p.all; }

	// open goes to columns from some on of which the block has units.
	__device__ void open(const Product& p, const Cluster& c, int from) {
		for (columns = from; there(p); columns += c.count) {
			m = &matrix_of(p, columns), unit = c.from(*m), to = c.to(*m);
			if (unit < to) break;
		}
	}
	__device__ void next(const Product& p, const Cluster& c) {
		if (++unit == to) open(p, c, columns + c.count);
	}
};

// A Copier is what a warp that copies does: lanes 0 to 7 copy a tile's words, lane 8 the blocks of x. A lane has the codes of a tile and group of the unit to come.
struct Copier {
	const Product& p;
	const Slots& s;
	int lane;
	int block_bytes;  // of x
	uint4 codes;
	u32 unit;

	// ask asks for a unit's scales.
	__device__ void ask(Step& step) {
		step.place = __ldg(step.m->places + step.unit);
		u32 packed = step.place.y;
		int tile = min((step.columns - step.m->first) * tiles + lane / unit_blocks, step.m->tiles - 1), group = min(group_of(packed) + (lane % unit_blocks >> shift_of(packed)), step.m->groups - 1);
		codes = __ldg((const uint4*)(step.m->scales + ((int64)tile * step.m->groups + group) * 8));
		unit = __ldg(step.m->units + group);
	}

	// words leaves a unit's head in a slot, says how much is to come, and asks for words.
	__device__ void words(int slot, const Step& step) const {
		u32 packed = step.place.y, head = s.head_at(slot);
		asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(head + codes_at + lane * 16), "r"(codes.x), "r"(codes.y), "r"(codes.z), "r"(codes.w) : "memory");
		if (lane <= unit_blocks) asm volatile("st.shared.b32 [%0], %1;" ::"r"(head + lane * 4), "r"(lane < unit_blocks ? unit : packed) : "memory");
		int tile = (step.columns - step.m->first) * tiles + lane, there = min(tiles, step.m->tiles - tile + lane), bytes = bits_of_unit(packed) * 512;
		__syncwarp();
		if (lane == 0) barrier_expect(s.full_at(slot), unit_blocks * block_bytes + there * bytes);
		__syncwarp();
		if (lane < there) copy_bulk(s.base + slot * s.bytes + unit_blocks * block_bytes + lane * bytes, step.m->words + ((int64)tile * step.m->chunks + step.place.x) * 32, bytes, s.full_at(slot));
	}

	// rows asks for x. Behind the last block of x weights are zeros, and it does not matter by what they are multiplied.
	__device__ void rows(int slot, const Step& step) const {
		int block = block_of(step.place.y), there = min(unit_blocks, p.in_blocks - block), i = lane - tiles;
		if (i != 0 && (i < there || i >= unit_blocks)) return;
		copy_bulk(s.base + slot * s.bytes + i * block_bytes, p.x + (int64)(i == 0 ? block : p.in_blocks - 1) * p.rows8 * block_rows, i == 0 ? there * block_bytes : block_bytes, s.full_at(slot));
	}

	// run does so with the units whose slots are its warp's, so that those of a slot follow each other.
	__device__ void run(const Cluster& cluster) {
		int warp = threadIdx.x / 32 - tiles;
		auto mine = [&](int slot) { return slot % copiers == warp; };
		Turn turn = {0, 1};
		Step now(p, cluster);
		auto find = [&] {
			for (; now.there(p) && !mine(turn.at); turn.next(s)) now.next(p, cluster);
			if (now.there(p)) ask(now);
		};
		find();
		for (bool first = true; now.there(p); first = false) {
			barrier_wait(s.empty_at(turn.at), turn.parity);
			words(turn.at, now);
			if (first) after_previous();
			rows(turn.at, now);
			now.next(p, cluster), turn.next(s);
			find();
		}
	}
};

#endif
