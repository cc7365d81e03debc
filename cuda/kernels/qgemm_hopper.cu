// Products of many rows with an EXL2 matrix on Hopper: y = x·W + bias, fp32 sums.
//
// Tensor cores take one operand from registers: that is W, transposed, whose codes
// become weights where they are needed (exl2.cuh), and are never written. A block
// computes 256 columns of y of some rows: each of its eight warps a tile of 32
// columns, whose columns 0, 1 and 2, 3 of every four are the rows of two products.
// A warp of its own copies rows of x and the words of units of 128 rows of W several
// steps ahead (barrier.cuh). The weights of the next 16 rows are made while the
// products of the last ones run.
//
// x has been put in order by qgemm_order: by units, each as two halves [rows, 64],
// stored as wgmma reads them, in which sixteen neighbours are those that meet the
// sixteen weights of a lane and its neighbours.
//
// Where there are few tiles, the units of each are divided among blockIdx.z: y is
// then [gridDim.z, rows, ldy], parts that gemm_join adds.
#include "barrier.cuh"
#include "exl2.cuh"
#include "gemm.cuh"
#include "order.cuh"
#include "wgmma_packed.cuh"

constexpr int warps = 8, copier = warps;  // that multiply; the one that copies
constexpr int threads = 32 * (warps + 4);  // whole warp groups
constexpr int columns = warps * tile_columns;
constexpr int unit_rows = 4 * block_rows, half_rows = unit_rows / 2;
static_assert(threads == 384 && copier == 8 && columns == 256 && half_rows * sizeof(half) == 128, "whole warp groups, rows of 128 bytes");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

struct Matrix {
	const uint4* words;   // [out/32, tile]
	const int* scales;    // [out/32, groups, 4]
	const int* units;     // [groups]
	const int4* regions;  // [count, 2], as Region
	int count, tile, groups, tiles;

	__device__ Region region(int i) const {
		int4 a = __ldg(regions + 2 * i), b = __ldg(regions + 2 * i + 1);
		return {a.x, a.y, a.z, a.w, b.x, b.y};
	}
};

// Cursor goes through the units of a matrix.
struct Cursor {
	Region at;
	int index, unit;

	__device__ Cursor(const Matrix& w, int first) : at(w.region(0)), index(0), unit(first) { settle(w); }
	__device__ void next(const Matrix& w) {
		unit++;
		settle(w);
	}
	__device__ void settle(const Matrix& w) {
		while (unit >= at.units() && index + 1 < w.count) {
			unit -= at.units();
			at = w.region(++index);
		}
	}
};

// Stages are the slots of shared memory: rows of x and words of eight tiles.
struct Stages {
	unsigned char* base;
	int bytes, count;
};

// copy_all is what the copier does, by one lane: lane i copies a tile's words, and
// lane 0 the rows of x, too.
template <int n>
__device__ void copy_all(const half* x, const Matrix& w, Stages s, u64* full, u64* empty, int rows8, int row, int first, int steps) {
	int lane = threadIdx.x % 32, tile = blockIdx.x * warps + lane;
	int there = min(warps, w.tiles - (int)blockIdx.x * warps);
	Cursor c(w, first);
	for (int i = 0; i < steps; i++, c.next(w)) {
		int at = i % s.count;
		if (i >= s.count) barrier_wait(&empty[at], (i / s.count - 1) & 1);
		int bytes = c.at.bits * 512;
		unsigned char* to = s.base + at * s.bytes;
		if (lane == 0) {
			int count = min(n, rows8 - row) * half_rows * (int)sizeof(half);
			barrier_expect(&full[at], 2 * count + there * bytes);
			for (int h = 0; h < 2; h++)
				copy_bulk(to + h * n * half_rows * sizeof(half), x + ((int64)(2 * (first + i) + h) * rows8 + row) * half_rows, count, &full[at]);
		}
		__syncwarp();
		if (lane < there)
			copy_bulk(to + n * unit_rows * sizeof(half) + lane * bytes, w.words + (int64)tile * w.tile + chunk_of(c.at, c.unit, 0, 0), bytes, &full[at]);
	}
}

// Scales is what a lane needs of a unit beside words: its columns' scales, and the
// unit of its block's group, both 0 where there is no such block.
struct Scales {
	u32 codes, unit;

	__device__ Scales(const Matrix& w, const Cursor& c, int tile) : codes(0), unit(0) {
		int lane = threadIdx.x % 32, block = c.unit * 4 + lane % 4;
		if (block >= c.at.blocks || tile >= w.tiles) return;
		int group = c.at.group_of(block);
		codes = (u32)__ldg(w.scales + ((int64)tile * w.groups + group) * 4 + lane / 8) >> lane / 4 % 2 * 16;
		unit = __ldg(w.units + group);
	}
};

constexpr int under_way = 2;  // batches of products

// multiply adds the products of a unit, the last of which it leaves under way; free is
// told when those of the unit before are done.
template <int bits, int n>
__device__ inline void multiply(float (&first)[n / 2], float (&second)[n / 2], const unsigned char* from, uint64 x, Scales s, u64* free) {
	int lane = threadIdx.x % 32;
	u32 w[4][bits];
#pragma unroll
	for (int i = 0; i < bits; i++) {
		uint4 v = ((const uint4*)from)[i * 32 + lane];
		w[0][i] = v.x, w[1][i] = v.y, w[2][i] = v.z, w[3][i] = v.w;
	}
	half2 scale[4];
#pragma unroll
	for (int c = 0; c < 4; c++) scale[c] = scale_of(s.codes >> 4 * c, s.unit);
	constexpr int next_half = n * half_rows * (int)sizeof(half) >> 4;
#pragma unroll
	for (int k = 0; k < 8; k++) {
		u32 a[2][4];
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i++) a[t][i] = bits_of(weights<bits>(w[2 * t + i % 2], 2 * k + i / 2, scale[2 * t + i % 2]));
		uint64 b = x + k / 4 * next_half + k % 4 * 2;
		wgmma_begin();
		wgmma(first, a[0], b);
		wgmma(second, a[1], b);
		wgmma_end();
		wgmma_wait<under_way>();
		if (k == under_way - 1 && lane == 0 && free) barrier_arrive(free);
	}
}

template <int n, class Y>
__device__ inline void write(Y* y, const float* bias, const float (&first)[n / 2], const float (&second)[n / 2], int row, int rows, int out, int64 ldy) {
	int lane = threadIdx.x % 32, column = (blockIdx.x * warps + threadIdx.x / 32) * tile_columns + lane / 4 * 4;
	float add[4];
#pragma unroll
	for (int c = 0; c < 4; c++) add[c] = bias && column + c < out ? bias[column + c] : 0;
#pragma unroll
	for (int j = 0; j < n / 8; j++)
#pragma unroll
		for (int e = 0; e < 2; e++) {
			int r = row + 8 * j + lane % 4 * 2 + e;
			if (r >= rows) continue;
			Y* to = y + r * ldy + column;
			put_pair(to, first[4 * j + e] + add[0], first[4 * j + 2 + e] + add[1], column, out);
			put_pair(to + 2, second[4 * j + e] + add[2], second[4 * j + 2 + e] + add[3], column + 2, out);
		}
}

constexpr int most_stages = 8;

template <int n, class Y>
__device__ void product(
	Y* y,               // [rows, out], rows ldy elements apart
	const half* x,      // [2·units, rows8, 64]
	const float* bias,  // [out] or null
	const Matrix& w, int slot, int slots, int units, int rows, int out, int64 ldy) {
	extern __shared__ uint4 memory[];
	__shared__ u64 full[most_stages], empty[most_stages];
	Stages stages = {(unsigned char*)(((size_t)memory + 1023) & ~(size_t)1023), slot, slots};
	int warp = threadIdx.x / 32;
	int row = blockIdx.y * n, rows8 = (rows + 7) & ~7;
	int unit = units * blockIdx.z / gridDim.z, steps = units * (blockIdx.z + 1) / gridDim.z - unit;
	if (threadIdx.x == 0) {
		for (int i = 0; i < slots; i++) barrier_init(&full[i], 1), barrier_init(&empty[i], warps);
		barriers_ready();
	}
	__syncthreads();
	after_previous();
	if (warp >= copier) {
		registers_down<40>();
		if (warp == copier) copy_all<n>(x, w, stages, full, empty, rows8, row, unit, steps);
		return;
	}
	registers_up<232>();
	y += (int64)blockIdx.z * rows * ldy;
	float first[n / 2] = {}, second[n / 2] = {};
	Cursor c(w, unit);
	int tile = blockIdx.x * warps + warp;
	Scales now(w, c, tile);
	u64* free = nullptr;
	for (int s = 0; s < steps; s++) {
		int at = s % slots, bits = c.at.bits;
		c.next(w);
		Scales ahead(w, c, tile);
		barrier_wait(&full[at], s / slots & 1);
		unsigned char* from = stages.base + at * slot;
		uint64 xs = operand((const half*)from);
		from += n * unit_rows * sizeof(half) + warp * bits * 512;
		switch (bits) {
			case 2: multiply<2, n>(first, second, from, xs, now, free); break;
			case 3: multiply<3, n>(first, second, from, xs, now, free); break;
			case 4: multiply<4, n>(first, second, from, xs, now, free); break;
			case 5: multiply<5, n>(first, second, from, xs, now, free); break;
			case 6: multiply<6, n>(first, second, from, xs, now, free); break;
			case 8: multiply<8, n>(first, second, from, xs, now, free); break;
		}
		now = ahead;
		free = &empty[at];
	}
	wgmma_wait<0>();
	write<n>(y, bias, first, second, row, rows, out, ldy);
}

#else  // other GPUs decode matrices first

struct Matrix {
	const uint4* words;
	const int *scales, *units;
	const int4* regions;
	int count, tile, groups, tiles;
};

template <int n, class Y>
__device__ void product(Y*, const half*, const float*, const Matrix&, int, int, int, int, int, int64) {}

#endif

#define QGEMM(name, n, Y)                                                                           \
	extern "C" __global__ void __launch_bounds__(384, 1)                                            \
	name(Y* y, const half* x, const int* words, const int* scales, const int* units,                \
	     const float* bias, const int* regions, int count, int tile, int groups, int tiles,         \
	     int slot, int slots, int steps, int rows, int out, int64 ldy) {                            \
		Matrix w = {(const uint4*)words, scales, units, (const int4*)regions, count, tile, groups,  \
		            tiles};                                                                         \
		product<n>(y, x, bias, w, slot, slots, steps, rows, out, ldy);                              \
	}

QGEMM(qgemm_hopper_128_f16, 128, half)
QGEMM(qgemm_hopper_128_f32, 128, float)
QGEMM(qgemm_hopper_64_f16, 64, half)
QGEMM(qgemm_hopper_64_f32, 64, float)
QGEMM(qgemm_hopper_32_f16, 32, half)
QGEMM(qgemm_hopper_32_f32, 32, float)
QGEMM(qgemm_hopper_16_f16, 16, half)
QGEMM(qgemm_hopper_16_f32, 16, float)
