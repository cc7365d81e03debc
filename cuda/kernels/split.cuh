// How attention of single rows is divided: the positions of every row and set of
// heads are an item of so many units, and all units of all items, one after the
// other, are divided evenly among blocks. The grid does not depend on the rows'
// positions, which are in memory; where there is little to do, some blocks have
// nothing, since an item in many parts takes longer to join.
#pragma once

constexpr int at_once = 16;      // positions that a warp takes at a time
constexpr int least_units = 2;   // of a block

// Span is the positions that a row sees.
struct Span {
	int start, end;
	__device__ Span(int pos, int window) : start(window > 0 ? max(0, pos + 1 - window) : 0), end(pos + 1) {}
	__device__ int chunk() const { return start / at_once; }  // the first one
	__device__ int chunks_end() const { return (end + at_once - 1) / at_once; }
	__device__ int units(int warps) const { return max(1, (chunks_end() - chunk() + warps - 1) / warps); }
};

// Item is a row and a set of heads, and the units that it has from first on.
struct Item {
	int row, set, first, units;
};

// Split is the division of the units; all threads of a warp work it out together.
struct Split {
	const int* pos;  // [rows]
	int rows, sets, window, warps;
	int total, blocks, each, rest;  // units; blocks with work; units of a block, and blocks with one more

	__device__ Split(const int* pos, int rows, int sets, int window, int warps) : pos(pos), rows(rows), sets(sets), window(window), warps(warps), total(0) {
		for (int from = 0; from < rows; from += 32) total += add_up(units_of(from + threadIdx.x % 32));
		blocks = max(1, min((int)gridDim.x, total / least_units));
		each = total / blocks, rest = total % blocks;
	}
	// first is where the units of a block begin, and block the one that has a unit.
	__device__ int first(int block) const { return min(block, blocks) * each + min(block, rest); }
	__device__ int block(int unit) const { return unit < rest * (each + 1) ? unit / (each + 1) : rest + (unit - rest * (each + 1)) / each; }

	// find returns the item of a unit.
	__device__ Item find(int unit) const {
		int lane = threadIdx.x % 32, before = 0;
		for (int from = 0;; from += 32) {
			int own = units_of(from + lane), upto = own;
			for (int step = 1; step < 32; step *= 2) {
				int left = __shfl_up_sync(~0u, upto, step);
				if (lane >= step) upto += left;
			}
			int all = __shfl_sync(~0u, upto, 31);
			if (unit < before + all) {
				int at = __popc(__ballot_sync(~0u, before + upto <= unit));
				int start = before + __shfl_sync(~0u, upto - own, at), units = __shfl_sync(~0u, own, at) / sets;
				int set = (unit - start) / units;
				return {from + at, set, start + set * units, units};
			}
			before += all;
		}
	}
	__device__ int units_of(int row) const { return row < rows ? Span(pos[row], window).units(warps) * sets : 0; }

	static __device__ int add_up(int n) {
		for (int step = 16; step > 0; step /= 2) n += __shfl_xor_sync(~0u, n, step);
		return n;
	}
};
