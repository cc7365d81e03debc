// Products of many rows with an EXL2 matrix on Hopper: y = x·W + bias, fp32 sums.
//
// Tensor cores take one operand from registers: that is W, transposed, whose codes
// become weights where they are needed (exl2.cuh), and are never written. A block
// computes 256 columns of y of some rows: each of its eight warps a tile of 32
// columns, of which g, g+8 and g+16, g+24 are the rows of two products. A warp of its
// own copies rows of x and the words of units of 128 rows of W several steps ahead
// (barrier.cuh). Weights are made while the products of those before run.
//
// x has been put in order by qgemm_order: by units, each as two halves [rows, 64],
// stored as wgmma reads them, in which sixteen neighbours are those that meet the
// sixteen weights of a lane and its neighbours.
//
// Where there are few tiles, the units of each are divided among blockIdx.z: y is
// then [gridDim.z, rows, ldy], parts that gemm_join adds.
#include "gemm.cuh"
#include "order.cuh"
#include "qgemm.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Stages are the slots of shared memory: rows of x and words of eight tiles.
struct Stages {
	unsigned char* base;
	int bytes, count;
};

// copy_all is what the copier does, by one lane: lane i copies a tile's words, and
// lane 0 the rows of x, too.
template <int n>
__device__ void copy_all(const half* x, const Packed& w, Stages s, u64* full, u64* empty, int rows8, int row, int first, int steps) {
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
			copy_bulk(to + n * unit_rows * sizeof(half) + lane * bytes, w.words + ((int64)tile * w.chunks + c.at.place + c.unit * c.at.bits) * 32, bytes, &full[at]);
	}
}

// write writes a warp's columns by way of shared memory, so that rows are whole.
template <int n, class Y>
__device__ inline void write(Y* y, const float* bias, const float (&first)[n / 2], const float (&second)[n / 2], Y* staged, int row, int rows, int out, int64 ldy) {
	constexpr int at_once = 16 / sizeof(Y), stride = tile_columns + at_once;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, g = lane / 4, q = lane % 4, column = (blockIdx.x * warps + warp) * tile_columns;
	staged += warp * n * stride;
#pragma unroll
	for (int c = 0; c < 4; c++) {
		int at = g + 8 * c;
		float add = bias && column + at < out ? bias[column + at] : 0;
#pragma unroll
		for (int i = 0; i < n / 4; i++) {
			float v = c < 2 ? first[i / 2 * 4 + c % 2 * 2 + i % 2] : second[i / 2 * 4 + c % 2 * 2 + i % 2];
			narrow(staged[(i / 2 * 8 + 2 * q + i % 2) * stride + at], v + add);
		}
	}
	__syncwarp();
	constexpr int pieces = tile_columns / at_once;
	for (int i = lane; i < n * pieces; i += 32) {
		int r = i / pieces, c = i % pieces * at_once;
		if (row + r < rows) put_all(y + (row + r) * ldy + column + c, staged + r * stride + c, out - column - c);
	}
}

// together waits for all warps that multiply.
__device__ inline void together() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

template <int n, class Y>
__device__ void product(
	Y* y,               // [rows, out], rows ldy elements apart
	const half* x,      // [2·units, rows8, 64]
	const float* bias,  // [out] or null
	const Packed& w, int slot, int slots, int units, int rows, int out, int64 ldy) {
	extern __shared__ uint4 memory[];
	__shared__ u64 full[most_stages], empty[most_stages];
	Stages stages = {(unsigned char*)(((size_t)memory + 1023) & ~(size_t)1023), slot, slots};
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
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
	Exponent e;
	for (int s = 0; s < steps; s++) {
		int at = s % slots, bits = c.at.bits;
		c.next(w);
		Scales ahead(w, c, tile);
		barrier_wait(&full[at], s / slots & 1);
		unsigned char* from = stages.base + at * slot;
		uint64 xs = operand((const half*)from);
		from += n * unit_rows * sizeof(half) + warp * bits * 512;
		switch (bits) {
			case 2: multiply<2, n>(first, second, (const uint4*)from + lane, xs, now, e, free); break;
			case 3: multiply<3, n>(first, second, (const uint4*)from + lane, xs, now, e, free); break;
			case 4: multiply<4, n>(first, second, (const uint4*)from + lane, xs, now, e, free); break;
			case 5: multiply<5, n>(first, second, (const uint4*)from + lane, xs, now, e, free); break;
			case 6: multiply<6, n>(first, second, (const uint4*)from + lane, xs, now, e, free); break;
			case 8: multiply<8, n>(first, second, (const uint4*)from + lane, xs, now, e, free); break;
		}
		now = ahead;
		free = &empty[at];
	}
	wgmma_wait<0>();
	together();
	write<n>(y, bias, first, second, (Y*)stages.base, row, rows, out, ldy);
}

#else  // other GPUs decode matrices first

struct Packed {
	const uint4* words;
	const unsigned short* scales;
	const int* units;
	const int4* regions;
	int count, chunks, groups, tiles;
};

template <int n, class Y>
__device__ void product(Y*, const half*, const float*, const Packed&, int, int, int, int, int, int64) {}

#endif

#define QGEMM(name, n, Y)                                                                           \
	extern "C" __global__ void __launch_bounds__(384, 1)                                            \
	name(Y* y, const half* x, const int* words, const int* scales, const int* units,                \
	     const float* bias, const int* regions, int count, int chunks, int groups, int tiles,        \
	     int slot, int slots, int steps, int rows, int out, int64 ldy) {                            \
		Packed w = {(const uint4*)words, (const unsigned short*)scales, units, (const int4*)regions, count, chunks, groups,\
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
