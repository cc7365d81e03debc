// How attention of single rows is divided: the positions of every row and set of
// heads are an item of so many units, and the units of all items, one after the
// other, are divided evenly among blocks. The grid does not depend on the rows'
// positions, which are in memory; blocks without a unit have nothing to do.
#pragma once

#include "rows.cuh"

// Item is a row and a set of heads, and its units, from the one numbered first on.
struct Item {
	int row, set, first, units;
};

// Split is the division of the units. The threads of a warp work it out together.
template <int warps>
struct Split {
	const int* pos;  // [rows]
	int rows, sets, window;
	int mine;                       // units of the lane's row of the first 32
	int total, blocks, each, rest;  // units; blocks that have some; units of a block, and blocks with one more

	__device__ Split(const int* pos, int rows, int sets, int window) : pos(pos), rows(rows), sets(sets), window(window) {
		mine = units_of(rows == 1 ? 0 : threadIdx.x % 32);
		total = rows == 1 ? mine : add_up(mine);
		for (int from = 32; from < rows; from += 32) total += add_up(units_of(from + threadIdx.x % 32));
		blocks = min((int)gridDim.x, total);
		each = (unsigned)total / (unsigned)blocks, rest = total - each * blocks;
	}
	// first is where the units of a block begin, and block the one that has a unit.
	__device__ int first(int block) const { return min(block, blocks) * each + min(block, rest); }
	__device__ int block(int unit) const {
		int large = rest * (each + 1);
		return unit < large ? (unsigned)unit / (unsigned)(each + 1) : rest + (unsigned)(unit - large) / (unsigned)each;
	}

	// find returns the item of a unit.
	__device__ Item find(int unit) const {
		if (rows == 1) return item(0, unit, 0, mine);
		int lane = threadIdx.x % 32, before = 0;
		for (int from = 0;; from += 32) {
			int own = from ? units_of(from + lane) : mine, upto = own;
			for (int step = 1; step < 32; step *= 2) {
				int left = __shfl_up_sync(~0u, upto, step);
				if (lane >= step) upto += left;
			}
			int all = __shfl_sync(~0u, upto, 31);
			if (unit < before + all) {
				int at = __popc(__ballot_sync(~0u, before + upto <= unit));
				return item(from + at, unit, before + __shfl_sync(~0u, upto - own, at), __shfl_sync(~0u, own, at));
			}
			before += all;
		}
	}
	// item returns that of a unit of a row, whose units begin at start.
	__device__ Item item(int row, int unit, int start, int units) const {
		units = (unsigned)units / (unsigned)sets;
		int set = (unsigned)(unit - start) / (unsigned)units;
		return {row, set, start + set * units, units};
	}
	__device__ int units_of(int row) const { return row < rows ? Span(pos[row], window).units(warps) * sets : 0; }

	static __device__ int add_up(int n) {
		for (int step = 16; step > 0; step /= 2) n += __shfl_xor_sync(~0u, n, step);
		return n;
	}
};
