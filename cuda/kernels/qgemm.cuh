// How warp groups of Hopper multiply rows of experts by EXL2 matrices whose weights they make in registers
// (qgemm_group.cu): a block has a tile of 32 columns for each of eight warps, and a
// warp that copies for them. x has been put in order by units, each as two halves [rows, 64].
#pragma once

#include "barrier.cuh"
#include "exl2.cuh"
#include "wgmma_packed.cuh"

constexpr int warps = 8, copier = warps;  // that multiply; the one that copies
constexpr int threads = 32 * (warps + 4);  // whole warp groups
constexpr int columns = warps * tile_columns;
constexpr int unit_rows = unit_blocks * block_rows, half_rows = unit_rows / 2;
constexpr int absent = 0xffff;  // in an order, where there is no row of the matrix (qgemm_order.cu)
static_assert(threads == 384 && copier == 8 && columns == 256 && half_rows * sizeof(half) == 128, "whole warp groups, rows of 128 bytes");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Packed is a matrix as the kernels take it.
struct Packed {
	const uint4* words;           // [tiles, chunks, 32]
	const unsigned short* scales;  // [tiles, groups, 8]
	const int* units;             // [groups]
	const int4* regions;          // [count, 2], as Region
	int count, chunks, groups, tiles;

	__device__ Region region(int i) const {
		int4 a = __ldg(regions + 2 * i), b = __ldg(regions + 2 * i + 1);
		return {a.x, a.y, a.z, a.w, b.x, b.y};
	}
};

// Cursor goes through the units of a matrix.
struct Cursor {
	Region at;
	int index, unit;

	__device__ Cursor(const Packed& w, int first) : at(w.region(0)), index(0), unit(first) { settle(w); }
	__device__ void next(const Packed& w) {
		unit++;
		settle(w);
	}
	__device__ void settle(const Packed& w) {
		while (unit >= at.units() && index + 1 < w.count) {
			unit -= at.units();
			at = w.region(++index);
		}
	}
};

// Scales is what a lane needs of the blocks of a unit beside words: its columns'
// scales, and the units of their groups.
struct Scales {
	u32 codes[unit_blocks], units[unit_blocks];

	__device__ Scales(const Packed& w, const Cursor& c, int tile) {
		const unsigned short* mine = w.scales + (int64)min(tile, w.tiles - 1) * w.groups * 8 + threadIdx.x % 32 / 4;
#pragma unroll
		for (int j = 0; j < unit_blocks; j++) {
			int group = min(c.at.group_of(c.unit * unit_blocks + j), w.groups - 1);
			codes[j] = __ldg(mine + group * 8);
			units[j] = __ldg(w.units + group);
		}
	}
};

constexpr int under_way = 2;  // batches of products

// multiply adds the products of a unit, the last of which it leaves under way; free is
// told when those of the unit before are done.
template <int bits, int n>
__device__ inline void multiply(float (&first)[n / 2], float (&second)[n / 2], const uint4* from, uint64 x, const Scales& s, Exponent e, u64* free) {
	constexpr int next_half = n * half_rows * (int)sizeof(half) >> 4;
	u32 all[unit_blocks * bits];
#pragma unroll
	for (int i = 0; i < bits; i++) {
		uint4 v = from[i * 32];
		all[4 * i] = v.x, all[4 * i + 1] = v.y, all[4 * i + 2] = v.z, all[4 * i + 3] = v.w;
	}
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = all[j * bits + i];
		half2 v[16], scales[2];
		numbers<bits>(v, w, e);
		scales_of(scales, s.codes[j], s.units[j], e);
#pragma unroll
		for (int h = 0; h < 2; h++) {
			u32 a[2][4];
#pragma unroll
			for (int t = 0; t < 2; t++)
#pragma unroll
				for (int i = 0; i < 4; i++)
					a[t][i] = bits_of(__hmul2(v[8 * t + i % 2 * 4 + 2 * h + i / 2], __half2half2(scale_of(scales, 2 * t + i % 2))));
			uint64 b = x + j / 2 * next_half + (j % 2 * 2 + h) * 2;
			wgmma_begin();
			wgmma(first, a[0], b);
			wgmma(second, a[1], b);
			wgmma_end();
			wgmma_wait<under_way>();
			if (2 * j + h == under_way - 1 && threadIdx.x % 32 == 0 && free) barrier_arrive(free);
		}
	}
}

// put_all writes as many elements as 16 bytes are, those that there are.
template <class Y>
__device__ inline void put_all(Y* to, const Y* from, int count) {
	constexpr int all = 16 / sizeof(Y);
	if (count >= all && (size_t)to % 16 == 0) {
		*(uint4*)to = *(const uint4*)from;
	} else {
		for (int i = 0; i < min(count, all); i++) to[i] = from[i];
	}
}

constexpr int most_stages = 8;

#endif
