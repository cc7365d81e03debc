// Products of float32-class accuracy on Hopper (product.cuh). Names end in the number
// of planes of a and of b.
//
// Two warp groups compute 64 rows of a tile each. A warp of its own copies tiles of
// both operands, which are contiguous, several steps ahead. The sums of a few steps
// are kept apart from those that they are added to.
//
// H200, 2026-11-21, of the 790 TFLOP/s that fp16 products of random numbers reach:
// two planes each, 11008 x 11008 by 11008 x 4096, 73 %; one plane of two, 8192 rows of
// 11008, 74 %; one plane each, 32768 rows of 11008, 59 %, operands made included.
#include "barrier.cuh"
#include "product.cuh"
#include "wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

constexpr int stages = 6, span = 4;
constexpr int slot = tile_rows * block_m;  // halves: two tiles of an operand
constexpr int stage = 4 * slot;
constexpr int groups = 2, copier = 4 * groups;  // the warp that copies

// Steps are of one tile of k, in all planes; with one plane each of two.
template <int pa, int pb>
constexpr int depth = pa + pb == 2 ? 2 : 1;

template <int pa, int pb>
__device__ void copy_all(const Product& p, const Part& part, half* base, u64* full, u64* empty) {
	constexpr int as = pa * depth<pa, pb>, bs = pb * depth<pa, pb>;
	const half* a = p.a + ((int64)part.first * p.a_tiles + part.m / tile_cols) * tile_halves;
	const half* b = p.b + ((int64)part.first * p.b_tiles + part.n / tile_cols) * tile_halves;
	int64 a_row = (int64)p.a_tiles * tile_halves, b_row = (int64)p.b_tiles * tile_halves;
	int steps = (part.steps + depth<pa, pb> - 1) / depth<pa, pb>;
	for (int s = 0; s < steps; s++) {
		int at = s % stages;
		if (s >= stages) barrier_wait(&empty[at], (s / stages - 1) & 1);
		half* to = base + at * stage;
		barrier_expect(&full[at], (as + bs) * slot * (int)sizeof(half));
#pragma unroll
		for (int i = 0; i < as; i++) copy_bulk(to + i * slot, a + (pa == 2 ? i * p.a_plane : i * a_row), slot * sizeof(half), &full[at]);
#pragma unroll
		for (int i = 0; i < bs; i++) copy_bulk(to + (as + i) * slot, b + (pb == 2 ? i * p.b_plane : i * b_row), slot * sizeof(half), &full[at]);
		a += depth<pa, pb> * a_row, b += depth<pa, pb> * b_row;
	}
}

// multiply adds the products of a stage: of the same tile of k but for those of the
// low planes of both.
template <int pa, int pb>
__device__ inline void multiply(float (&sums)[64], const half* from, int group, int keep) {
	constexpr int as = pa * depth<pa, pb>;
	uint64 a = columns_operand(from + group * tile_halves), b = columns_operand(from + as * slot);
	constexpr int next = slot * sizeof(half) >> 4;
#pragma unroll
	for (int i = 0; i < pa * depth<pa, pb>; i++)
#pragma unroll
		for (int j = 0; j < pb * depth<pa, pb>; j++) {
			if (depth<pa, pb> == 2 ? i != j : i + j == 2) continue;
#pragma unroll
			for (int k = 0; k < tile_rows / 16; k++) {
				wgmma_columns(sums, a + i * next + k * 128, b + j * next + k * 128, keep);
				keep = 1;
			}
		}
}

template <int pa, int pb>
__device__ void product(const Product* list) {
	extern __shared__ uint4 memory[];
	__shared__ u64 full[stages], empty[stages];
	half* base = (half*)(((size_t)memory + 1023) & ~(size_t)1023);
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	let_next();
	const Product p = list[blockIdx.y];  // which no kernel writes
	const Part part(p, blockIdx.x);
	after_previous();
	if (part.empty) return;
	if (threadIdx.x == 0) {
		for (int i = 0; i < stages; i++) barrier_init(&full[i], 1), barrier_init(&empty[i], 4 * groups);
		barriers_ready();
	}
	__syncthreads();
	if (warp == copier) {
		if (lane == 0) copy_all<pa, pb>(p, part, base, full, empty);
		return;
	}
	float all[64] = {}, sums[64];
#pragma unroll
	for (int i = 0; i < 64; i++) sums[i] = 0;
	int group = warp / 4, steps = (part.steps + depth<pa, pb> - 1) / depth<pa, pb>;
	for (int s = 0; s < steps;) {
		int end = min(s + span, steps);
		for (int first = s; s < end; s++) {
			barrier_wait(&full[s % stages], s / stages & 1);
			wgmma_begin();
			multiply<pa, pb>(sums, base + s % stages * stage, group, s != first);
			wgmma_end();
			wgmma_wait<1>();
			if (s != first && lane == 0) barrier_arrive(&empty[(s - 1) % stages]);
		}
		wgmma_wait<0>();
		settle(sums);
		if (lane == 0) barrier_arrive(&empty[(s - 1) % stages]);
#pragma unroll
		for (int i = 0; i < 64; i++) all[i] += sums[i];
	}
	float factor = multiplier(p);
	int row = part.m + warp * 16 + lane / 4, column = part.n + lane % 4 * 2;
	float2 old[32];
#pragma unroll
	for (int i = 0; i < 32; i++) old[i] = Place(p, factor, row + i % 2 * 8, column + i / 2 * 8).read(p);
#pragma unroll
	for (int i = 0; i < 32; i++) Place(p, factor, row + i % 2 * 8, column + i / 2 * 8).write(p, old[i], all[2 * i], all[2 * i + 1]);
}

#else  // other GPUs have product.cu

template <int pa, int pb>
__device__ void product(const Product*) {}

#endif

#define PRODUCT(name, pa, pb) \
	extern "C" __global__ void __launch_bounds__(288, 1) name(const void* list) { product<pa, pb>((const Product*)list); }

PRODUCT(product_hopper_11, 1, 1)
PRODUCT(product_hopper_12, 1, 2)
PRODUCT(product_hopper_21, 2, 1)
PRODUCT(product_hopper_22, 2, 2)
