// Rows of experts as products of many rows take them on Hopper (qgemm_group.cu): sets of rows of one expert, which they are sorted by, and where they are in order.
#pragma once

#include "expert.cuh"

// eights_of returns so many rows in whole eights.
__device__ inline int eights_of(int rows) { return (rows + 7) & ~7; }

// A Set is rows of an expert from a place among all on; `base` of those in order are before it. Past the last one there are no rows.
struct Set {
	int expert, from, rows, base;
	__device__ int rows8() const { return eights_of(rows); }
};

// A List is, in shared memory, of each expert and behind the last one, how many rows, sets, and rows in whole eights there are before.
struct List {
	int *rows, *sets, *eights;  // [count + 1]
	int count, n;               // rows of a set, at most, a multiple of eight

	__device__ List(int* memory, int count, int n) : rows(memory), sets(memory + count + 1), eights(memory + 2 * (count + 1)), count(count), n(n) {}

	// fill makes it, by a warp, of the first row of each expert and behind the last one.
	__device__ void fill(const int* first) const {
		int lane = threadIdx.x % 32, all_sets = 0, all_eights = 0;
		for (int e = lane; e - lane <= count; e += 32) {
			int begin = first[min(e, count)], mine = first[min(e + 1, count)] - begin;
			int own_sets = (mine + n - 1) / n, own_eights = eights_of(mine), upto_sets = own_sets, upto_eights = own_eights;
#pragma unroll
			for (int step = 1; step < 32; step *= 2) {
				int a = __shfl_up_sync(~0u, upto_sets, step), b = __shfl_up_sync(~0u, upto_eights, step);
				if (lane >= step) upto_sets += a, upto_eights += b;
			}
			if (e <= count) rows[e] = begin, sets[e] = all_sets + upto_sets - own_sets, eights[e] = all_eights + upto_eights - own_eights;
			all_sets += __shfl_sync(~0u, upto_sets, 31), all_eights += __shfl_sync(~0u, upto_eights, 31);
		}
	}

	// set returns a set by its number.
	__device__ Set set(int number) const {
		int lane = threadIdx.x % 32;
		for (int e = lane; e - lane < count; e += 32) {
			unsigned behind = __ballot_sync(~0u, number < sets[min(e + 1, count)]);
			if (!behind) continue;
			int at = e - lane + __ffs(behind) - 1, before = (number - sets[at]) * n;
			return {at, rows[at] + before, min(n, rows[at + 1] - rows[at] - before), eights[at] + before};
		}
		return {0, 0, 0, 0};
	}
};
