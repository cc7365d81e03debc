// Products of several rows of x, up to sixteen, with EXL2 matrices, up to four of one x: y = x·W + bias, or
// y += x·W + bias, or y = act(x·W + bias), times x·W' + bias' or x·W + bias or not.
//
// x is in stored order, or a stream that was left so (link.cuh). A cluster of blocks has a run of tiles, or of
// a gate's pairs; each of its blocks has a share of the units of every tile, so that it needs no more than a
// share of x, and each warp of a block as many of the run's units as the others, one after the other. A warp
// that leaves a tile sends what it has of it, registers as they are, to the block that finishes the
// tile, which finds all parts in its own memory, and knows by the bytes that have arrived when they are there.
// GPUs without clusters have qmatmul_rows.cu.
#include "barrier.cuh"
#include "batch_feed.cuh"
#include "batch_finish.cuh"
#include "batch_stage.cuh"
#include "order.cuh"
#include "rows_codes.cuh"
#include "rows_unit.cuh"

constexpr int product_bytes = (80 * most_matrices + 88 + 12 * most_matrices + 4 * most_blocks + 12 + 7) / 8 * 8 + 64;
static_assert(sizeof(Product) == product_bytes, "as cuda/batch.go has it");

#if __CUDA_ARCH__ >= 900

// arrive_early is cluster_arrive where nothing that was written before is read by other blocks but barriers that are ready.
__device__ inline void arrive_early() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

// multiply_unit adds a unit's products by up to eight rows, or sixteen.
template <int each>
__device__ inline void multiply_unit(u32 unit, float (&sums)[1][2][4], const uint4* words, const uint4* x, int, const LaneCodes& codes, const u32* units, Exponent e) {
	multiply_codes_bits<each>(bits_of_unit(unit), sums[0], words, x, 4, codes, units, shift_of(unit), e);
}
template <int each>
__device__ inline void multiply_unit(u32 unit, float (&sums)[2][2][4], const uint4* words, const uint4* x, int second, const LaneCodes& codes, const u32* units, Exponent e) {
	multiply_bits<each>(bits_of_unit(unit), sums, words, x, 4, second, codes, units, shift_of(unit), e);
}

// Of kernels that are not for any, groups have two blocks or more.
template <int eights, bool any>
__device__ inline void qmatmul(const Product& p) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float factors[most];  // of the norm that x is without
	__shared__ u64 parts_there;
	constexpr bool as_codes = eights == 1;
	let_next();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, rank = rank_in_cluster();
	unsigned char* base = (unsigned char*)memory;
	int tiles = p.then == gate ? 2 * p.owned : p.owned;
	Parts<eights> parts = {(float4*)(base + warps * slots * p.slot), nullptr, &parts_there};
	u32* units = (u32*)(parts.at + tiles * p.blocks * p.parts * parts.vectors);
	parts.counts = (unsigned char*)(units + p.units);
	uint4* staged = (uint4*)(parts.counts + p.counts);

	if (threadIdx.x == 0) {
		barrier_init(&parts_there, warps);
		barriers_ready();
	}
	Feed<as_codes> feed(p, (u32)__cvta_generic_to_shared(memory) + warp * slots * p.slot);
	Exponent e;
	u32 select = g % 2 ? spread_high : spread_low, unit_kept = 0;
	Range blocks = {p.staged[rank][0], p.staged[rank][1]}, round = next_round(p, {0, run_of(p).from});
#pragma unroll 1
	for (int s = 0; s <= early; s++) {
		if (s == early) {  // while the place of a unit is on its way
			if (threadIdx.x < p.units) unit_kept = unit_of(p, threadIdx.x);
			__syncthreads();
			parts.fill(p, round);
			clear(staged, p, blocks);
		}
		feed.ask(s > 0);
	}
	// What loops below need is worked out in front of the wait.
	int stride = stride_of(blocks), own = min(g, p.rows - 1), second = kept((min(g + 8, p.rows - 1) - own) * stride);
	u32 x = kept((u32)__cvta_generic_to_shared(staged + own * stride + lane % 4 - blocks.from * 4)), of = kept((u32)__cvta_generic_to_shared(units));
	int count = kept(units_of_warp(p, round, rank));
	Stage<as_codes> stage(staged, p, blocks);
	stage.keep();
	arrive_early();
	bool met = warp == 0;  // the others: behind the barrier below
	if (met) cluster_wait();
	after_previous();
	bool linked = p.link.squares && warp < p.rows;
	Squares squares;
	if (linked) squares = Squares(p.link, warp);
	stage.bring();
	if (threadIdx.x < p.units) units[threadIdx.x] = unit_kept;
#pragma unroll 1
	for (int i = threadIdx.x + threads; i < p.units; i += threads) units[i] = unit_of(p, i);
#pragma unroll 1
	for (int s = early; s < slots; s++) feed.ask();
	float norm = linked ? squares.factor(p.link, warp) : 1;
	if (lane == 0 && warp < p.rows) factors[warp] = as_codes ? norm * (1 << codes_down) : norm;
	if (lane == 0) barrier_arrive(&parts_there);
	__syncthreads();
	for (int parity = 0;; parity ^= 1) {
		float sums[eights][2][4] = {};
		for (int n = count; n > 0; n--) {
			arrived<slots - 1>();
			u32 u = feed.packed[0], then = feed.then[0];
			const uint4 *words = shared<uint4>(feed.slot), *mine = shared<uint4>(x + row_of(u));
			const u32* unit = shared<u32>(of + (then & (1 << part_bit) - 1) * 4);
			LaneCodes codes = {shared<u32>(feed.slot - feed.side), select};
			if (has_one_group(u)) multiply_unit<4>(u, sums, words, mine, second, codes, unit, e);
			else if (!any || shift_of(u) == 1) multiply_unit<2>(u, sums, words, mine, second, codes, unit, e);
			else multiply_unit<1>(u, sums, words, mine, second, codes, unit, e);
			if (then >> leaves_bit)
				parts.send(sums, then >> part_bit & (1 << (owner_bit - part_bit)) - 1, then >> owner_bit & 7);
			feed.ask();
		}
		bool all = false;
#pragma unroll 1
		for (int i = threadIdx.x;; i += threads) {
			Results<eights> mine(p, parts, round, i);
			if (!all) barrier_wait(&parts_there, parity), all = true;
			if (mine.item >= round.to) break;
			mine.store(p, parts, factors);
		}
		round = next_round(p, round);
		if (round.size() == 0) break;
		if (!met) cluster_wait(), met = true;
		__syncthreads();
		parts.fill(p, round);
		cluster_arrive();
		cluster_wait();
		if (lane == 0) barrier_arrive(&parts_there);
		count = units_of_warp(p, round, rank);
	}
	arrived<0>();
}

#else

template <int eights, bool any>
__device__ inline void qmatmul(const Product&) {}

#endif

// Names are of the rows, and whether groups may have one block.
#define QMATMUL_BATCH(name, eights, any)                                         \
	extern "C" __global__ void __launch_bounds__(threads, 1)                     \
	name(const __grid_constant__ Product product) {                              \
		qmatmul<eights, any>(product);                                           \
	}

QMATMUL_BATCH(qmatmul_batch_8, 1, false)
QMATMUL_BATCH(qmatmul_batch_16, 2, false)
QMATMUL_BATCH(qmatmul_batch_8_any, 1, true)
QMATMUL_BATCH(qmatmul_batch_16_any, 2, true)
