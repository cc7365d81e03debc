// Moments on Hopper: h += xᵀ·y for x [k, m] and y [k, n], fp16, fp32 sums; up to two at
// a time, so that the tiles of both fill the GPU.
//
// Two blocks of a cluster compute tiles of h that stand one above the other, each 128
// rows, with the same 192 columns; then other tiles. Two warp groups of a block multiply
// 64 rows each. A thread of a third has tiles of x and y, 64 of k at a time, copied to
// shared memory several steps ahead: its own columns of x, and by turns half of those of y,
// which both blocks get. A stage is filled again when the warps of both blocks have read it.
// What is outside of x and y reads as zeros.
//
// Tensor cores cut bits off the sums that they add to: after 256 of k these are added to
// others, in registers. The groups do that at different times, so that one multiplies.
#include "cluster.cuh"
#include "order.cuh"
#include "ring.cuh"
#include "tile.cuh"
#include "wgmma_packed.cuh"

constexpr int bm = 128, bn = 192;  // a tile
constexpr int depth = 64;          // of k, a step
constexpr int box = 64;            // columns of x or y that are copied at a time
constexpr int group = 128, threads = 3 * group;
constexpr int warps = 8;           // that multiply
constexpr int few_registers = 40, many_registers = 232;
constexpr int stages = 5, cluster_blocks = 2;
constexpr int span = 4;            // steps, after which tensor cores begin new sums
constexpr int most_moments = 2;
constexpr int column_bits = 15;    // of a tile in the list

// Moment is h and its maps; cuda/quantize_tiles.go has the same.
struct Moment {
	unsigned char x[128], y[128];
	float* h;
	long long ld;
	int m, n, gap[10];
};

// Moments is what the kernel is given.
struct alignas(64) Moments {
	Moment moments[most_moments];
	const int* tiles;  // [count]: moment, 256 rows and 192 columns of each
	int count, k, gap[12];
};

constexpr int moments_bytes = 704;
static_assert(sizeof(Moment) == 320 && sizeof(Moments) == moments_bytes, "as cuda/quantize_tiles.go has them");

struct Stage {
	half x[bm / box][depth][box], y[bn / box][depth][box];
};

constexpr int shared_bytes = 1024 + stages * 40 * 1024;
static_assert(few_registers + 2 * many_registers <= 3 * (65536 / threads / 8 * 8), "or groups wait for registers for ever");
static_assert(sizeof(Stage) == 40 * 1024 && shared_bytes < 227 * 1024 && box * sizeof(half) == 128 && threads == 32 * (warps + 4) && cluster_blocks == 2 && box <= depth && span > 1, "as multiprocessors and copies have it");

// Tile is a tile of h, and of which moment.
struct Tile {
	int moment, row, column;
	__device__ Tile(int packed, int rank)
		: moment(packed >> 2 * column_bits), row((packed >> column_bits & ((1 << column_bits) - 1)) * 2 * bm + rank * bm), column((packed & ((1 << column_bits) - 1)) * bn) {}
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline void bring(Stage* stage, const Moments& p, u64* full, u64* empty, int rank) {
	Ring<stages> ring;
	for (int i = blockIdx.x / cluster_blocks; i < p.count; i += gridDim.x / cluster_blocks) {
		Tile t(p.tiles[i], rank);
		const Moment& m = p.moments[t.moment];
		for (int k = 0; k < p.k; k += depth, ring.next()) {
			Stage& to = stage[ring.at];
			barrier_wait(&empty[ring.at], ring.parity ^ 1);
			barrier_expect(&full[ring.at], sizeof(Stage));
#pragma unroll
			for (int j = 0; j < bm / box; j++) copy_tile(to.x[j], m.x, t.row + j * box, k, &full[ring.at]);
#pragma unroll
			for (int j = 0; j < bn / box; j++)
				if ((k / depth + j) % cluster_blocks == rank) copy_tile_both(to.y[j], m.y, t.column + j * box, k, &full[ring.at]);
		}
	}
}

// add adds a warp's sums to rows of h.
__device__ inline void add(const Moment& m, int row, int column, const float (&sums)[bn / 2]) {
	int lane = threadIdx.x % 32;
	bool whole = column + bn <= m.n && ((size_t)m.h | m.ld * sizeof(float)) % 8 == 0;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int r = row + lane / 4 + 8 * h, c = column + lane % 4 * 2;
		if (r >= m.m) continue;
		float* to = m.h + r * m.ld + c;
#pragma unroll
		for (int j = 0; j < bn / 8; j++) {
			float a = sums[4 * j + 2 * h], b = sums[4 * j + 2 * h + 1];
			if (whole) {
				asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to + 8 * j), "f"(a), "f"(b) : "memory");
			} else {
				if (c + 8 * j < m.n) to[8 * j] += a;
				if (c + 8 * j + 1 < m.n) to[8 * j + 1] += b;
			}
		}
	}
}

__device__ inline void consume(Stage* stage, const Moments& p, u64* full, u64* empty, int rank) {
	Ring<stages> ring;
	int mine = threadIdx.x / group - 1, warp = threadIdx.x / 32 - 4;
	bool tells = threadIdx.x % 32 < cluster_blocks;  // lane i tells block i
	for (int i = blockIdx.x / cluster_blocks; i < p.count; i += gridDim.x / cluster_blocks) {
		Tile t(p.tiles[i], rank);
		float all[bn / 2] = {}, sums[bn / 2] = {};
		for (int s = 0, steps = (p.k + depth - 1) / depth; s < steps;) {
			int first = s, end = min(steps, s == 0 && mine ? span / 2 : s + span);
			unsigned before = 0;
			for (; s < end; s++, ring.next()) {
				Stage& from = stage[ring.at];
				barrier_wait(&full[ring.at], ring.parity);
				uint64 xs = columns_operand<sizeof(from.x[0])>(from.x[mine][0]), ys = columns_operand<sizeof(from.x[0])>(from.y[0][0]);
				wgmma_begin();
#pragma unroll
				for (int j = 0; j < depth / 16; j++) wgmma_columns(sums, xs + 128 * j, ys + 128 * j, s - first + j);
				wgmma_end();
				wgmma_wait<1>();
				if (s > first && tells) arrive_at(before);
				before = of_block(&empty[ring.at], threadIdx.x % cluster_blocks);
			}
			wgmma_wait<0>();
			settle(sums);
			if (tells) arrive_at(before);
#pragma unroll
			for (int j = 0; j < bn / 2; j++) all[j] += sums[j];
		}
		add(p.moments[t.moment], t.row + mine * 64 + warp % 4 * 16, t.column, all);
	}
}

__device__ inline void grams(const Moments& p) {
	extern __shared__ uint4 memory[];
	Stage* stage = (Stage*)(((size_t)memory + 1023) & ~(size_t)1023);
	__shared__ u64 full[stages], empty[stages];
	int rank = rank_in_cluster();
	begin_ring(full, empty, cluster_blocks * warps);
	after_previous();
	if (threadIdx.x < group) {
		registers_down<few_registers>();
		if (threadIdx.x == 0) bring(stage, p, full, empty, rank);
		__syncwarp();
	} else {
		registers_up<many_registers>();
		consume(stage, p, full, empty, rank);
	}
	cluster_arrive();
	cluster_wait();
}

#else  // other GPUs have product.cu

__device__ inline void grams(const Moments&) {}

#endif

extern "C" __global__ void __launch_bounds__(threads, 1) gram_tiles(const __grid_constant__ Moments p) { grams(p); }
