// How units of products of many rows of experts (qgemm_group.cu) come to shared memory.
#pragma once

#include "qgemm_experts.cuh"
#include "qgemm_slots.cuh"

// Side is matrices of experts, what they multiply, and where that goes.
struct Side {
	half* y;        // [rows, out], ldy apart
	const half* x;  // in order
	Table table;
	int blocks, out;  // of 256 columns
	int units;        // of a tile, at most
	int64 ldy;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// An Item is a set's product with 256 columns of a matrix.
struct Item {
	Set set;
	bool second;
	int tile;  // the first of eight

	__device__ Item(const Side& a, const Side& b, const List& list, int number) {
		int blocks = a.blocks + b.blocks, block = number % blocks;
		set = list.set(number / blocks);
		second = block >= a.blocks, tile = (second ? block - a.blocks : block) * tiles;
	}
	__device__ bool there() const { return set.rows > 0; }
};

// An Entry is what the lanes of a warp have of a matrix in the table, on its way when it has been asked for: a word of its head each, and places of units, a lane's
// every 32nd.
struct Entry {
	static constexpr int kept = 2;

	const int* entry;
	u32 word;
	uint2 places[kept];

	__device__ void ask(const Side& side, int expert) {
		int lane = threadIdx.x % 32;
		entry = side.table.of(expert);
		word = __ldg((const u32*)entry + min(lane, head_words - 1));
		const uint2* from = (const uint2*)(entry + side.table.places);
#pragma unroll
		for (int k = 0; k < kept; k++)
			if (int i = lane + 32 * k; i < side.units) places[k] = __ldg(from + i);
	}

	__device__ int number(int i) const { return __shfl_sync(~0u, word, i); }
	template <class T>
	__device__ T* pointer(int i) const { return (T*)((u64)(u32)number(i + 1) << 32 | (u32)number(i)); }

	__device__ uint2 place(int unit, const Table& table) const {
		if (unit >= 32 * kept) return __ldg((const uint2*)(entry + table.places) + unit);
		const uint2& of = unit < 32 ? places[0] : places[1];
		return make_uint2(__shfl_sync(~0u, of.x, unit % 32), __shfl_sync(~0u, of.y, unit % 32));
	}
};

// Where in a head's words the fields of a Matrix are.
constexpr int words_field = 0, scales_field = 2, units_field = 4, bias_field = 10, chunks_field = 13, groups_field = 14, units128_field = 16;

// A Ring is where units are in shared memory, one behind the other, from the beginning again where there is no room. Each warp that copies counts for itself, of all
// units. It has room for three of the largest, so that one never lies where the one before it does, which is read until it has come itself.
struct Ring {
	int bytes, next;
	int number;      // of units so far
	int begin, end;  // of the lane's: the last one whose number is the lane's, of 32

	// put returns where the next unit goes.
	__device__ int put(int size) {
		if (next + size > bytes) next = 0;
		int at = next;
		next += size;
		return at;
	}

	// wait waits until those have been read that lie where the next one is. The one whose barriers it has comes first: until that has been read, a barrier's parity
	// does not tell those behind it from older ones.
	__device__ void wait(const Slots& s, int at, int size) const {
		read(s, number - most_slots);
		int before = number - 1 - (int)(threadIdx.x % 32) & 31;  // how many have come behind the lane's
		bool there = before < min(most_slots, number) && begin < at + size && end > at;
		read(s, number - 1 - (int)__reduce_min_sync(~0u, there ? before : number));
	}

	// read waits until a unit has been read, if there is one of that number.
	__device__ static void read(const Slots& s, int unit) {
		if (unit >= 0) barrier_wait(s.empty_at(unit % most_slots), unit / most_slots & 1);
	}

	__device__ void done(int at, int size) {
		if (number++ % 32 == threadIdx.x % 32) begin = at, end = at + size;
	}
};

__device__ inline void copy_async(u32 to, const void* from, bool four = false) {
	if (four) asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
	else asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// A Copier is what a warp that copies does, with every fourth unit.
struct Copier {
	const Side &a, &b;
	const List& list;
	const Slots& s;
	int in_blocks;  // of x
	Ring ring;

	__device__ void run() {
		Entry entry;
		Item item(a, b, list, blockIdx.x);
		if (item.there()) entry.ask(item.second ? b : a, item.set.expert);
		for (int number = blockIdx.x; item.there();) {
			Item next(a, b, list, number += gridDim.x);
			Entry ahead;
			if (next.there()) ahead.ask(next.second ? b : a, next.set.expert);
			copy(item, entry);
			item = next, entry = ahead;
		}
	}

	// copy copies an item's units.
	__device__ void copy(const Item& item, const Entry& entry) {
		const Side& side = item.second ? b : a;
		int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - tiles;
		int all = (side.out + tile_columns - 1) / tile_columns, there = min(tiles, all - item.tile), rows = item.set.rows8(), block_bytes = rows * block_rows * (int)sizeof(half);
		int chunks = entry.number(chunks_field), groups = entry.number(groups_field), units = entry.number(units128_field);
		const uint4* words = entry.pointer<const uint4>(words_field) + (int64)(item.tile + min(lane, there - 1)) * chunks * 32;
		const uint4* scales = entry.pointer<const uint4>(scales_field) + (int64)(item.tile + min(lane / unit_blocks, there - 1)) * groups;
		const u32 *group_units = entry.pointer<const u32>(units_field), *bias = entry.pointer<const u32>(bias_field);
		const half* x = side.x + (int64)item.set.base * in_blocks * block_rows;
#pragma unroll 1
		for (int u = 0; u < units; u++) {
			uint2 place = entry.place(u, side.table);
			u32 packed = place.y;
			int bytes = bits_of_unit(packed) * 512, size = unit_blocks * block_bytes + tiles * bytes, at = ring.put(size), slot = ring.number % most_slots;
			if (ring.number % copiers == warp) {
				u32 head = s.head_at(slot), full = s.full_at(slot), to = s.base + at;
				int group = min(group_of(packed) + (lane % unit_blocks >> shift_of(packed)), groups - 1), block = block_of(packed), whole = min(unit_blocks, in_blocks - block);
				ring.wait(s, at, size);
				copy_async(head + codes_at + lane * 16, scales + group);
				if (lane < unit_blocks) copy_async(head + lane * 4, group_units + group, true);
				asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(full) : "memory");
				if (lane == 0) {
					asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(head + 16), "r"(packed), "r"(to | (u32)(u + 1 == units)), "r"((u32)(u64)bias), "r"((u32)((u64)bias >> 32)) : "memory");
					barrier_expect(full, unit_blocks * block_bytes + there * bytes);
				}
				__syncwarp();
				if (lane < there) copy_bulk(to + unit_blocks * block_bytes + lane * bytes, words + place.x * 32, bytes, full);
				// Behind the last block of x weights are zeros, and it does not matter by what they are multiplied.
				int i = lane - tiles;
				if (i == 0) copy_bulk(to, x + (int64)block * rows * block_rows, whole * block_bytes, full);
				else if (i >= whole && i < unit_blocks) copy_bulk(to + i * block_bytes, x + (int64)(in_blocks - 1) * rows * block_rows, block_bytes, full);
			}
			ring.done(at, size);
		}
	}
};

#endif
