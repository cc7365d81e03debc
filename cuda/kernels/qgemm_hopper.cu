// Products of some rows with EXL2 matrices on Hopper, up to three of one x: y = x·W + bias, or y += x·W + bias, fp32 sums.
//
// Tensor cores take one operand from registers: that is W, transposed, whose codes become weights where they are needed (exl2.cuh), and
// are never written. A block computes 256 columns of y: each of its eight warps a tile of 32, of which g, g+8 and g+16, g+24 are the rows of two products.
// Four others copy rows of x and the words of units of 128 rows of W several steps ahead (barrier.cuh). Weights are made while the products of those before run.
//
// A cluster of blocks shares the units of 256 columns, then of others. Sums of eight rows go, registers as they are, to the block that finishes
// those rows, which finds all parts in its own memory, knows by the bytes that have arrived when they are there (`st.async`, PTX ISA), and adds them in the order
// of the blocks. When all of a cluster have taken theirs, the next may come.
//
// x has been put in order by qgemm_order: by blocks [rows, 32], stored as wgmma reads them, in which sixteen neighbours are those that
// meet the sixteen weights of a lane and its neighbours. So matrices of one order need not have the same units.
#include "qgemm_copy.cuh"
#include "qgemm_meet.cuh"
#include "qgemm_unit.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// begin has sums begin with the bias, or with zeros.
template <int n>
__device__ __forceinline__ void begin(float (&sums)[2][n / 2], const Matrix& m, int tile, bool biased) {
	const float* bias = biased ? m.bias : nullptr;
	int column = tile * tile_columns + threadIdx.x % 32 / 4;
#pragma unroll
	for (int t = 0; t < 2; t++)
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int at = column + 16 * t + 8 * h;
			float v = bias && at < m.out ? bias[at] : 0;
#pragma unroll
			for (int i = 0; i < n / 4; i++) sums[t][i / 2 * 4 + 2 * h + i % 2] = v;
		}
}

// multiply_all is what the warps do that multiply.
template <int n>
__device__ __forceinline__ void multiply_all(const Product& p, const Slots& s, const Cluster& cluster, const Parts& parts) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = p.rows8 * block_rows * (int)sizeof(half) >> 4;
	int words_at = unit_blocks * step * 16 + lane * 16, warp_bytes = warp * 512, mine = codes_at + warp * unit_blocks * 16 + lane / 4 * 2;  // in a slot; times bits; in a head
	Exponent e;
	Finisher finisher = {cluster, parts, 0};
	Turn turn = {0, 0};
	for (int columns = cluster.number; columns < p.all; columns += cluster.count) {
		const Matrix& m = matrix_of(p, columns);
		int tile = (columns - m.first) * tiles + warp;
		float sums[2][n / 2];
		begin<n>(sums, m, tile, cluster.rank == 0);
		u32 free = 0;
		for (int left = cluster.to(m) - cluster.from(m); left > 0; left--, turn.next(s)) {
			u32 x = s.base + turn.at * s.bytes;
			barrier_wait(s.full_at(turn.at), turn.parity);
			Scales unit(s.head_at(turn.at), mine);
			int bits = bits_of_unit(unit.packed);
			u32 words = x + words_at + warp_bytes * bits;
			if (has_one_group(unit.packed)) multiply_bits<true, n>(bits, sums, words, rows_of(x), step, unit, e, free);
			else multiply_bits<false, n>(bits, sums, words, rows_of(x), step, unit, e, free);
			free = s.empty_at(turn.at);
		}
		Results results(p, m, tile);
		wgmma_wait<0>();
		if (lane == 0 && free) barrier_arrive(free);
		if (columns == cluster.number) cluster_wait();  // all are there
		finisher.finish<n, 0>(sums, results, p.rows8 / 8);
	}
}

template <int n>
__device__ __forceinline__ void product(const Product& p) {
	extern __shared__ uint4 memory[];
	__shared__ u64 barriers[2 * most_slots + 2];
	u32 base = (shared_address(memory) + 1023) & ~1023u, first = shared_address(barriers);
	Slots slots = {base, base + p.slots * p.slot, first, p.slot, p.slots};
	Cluster cluster;
	let_next();
	int warp = threadIdx.x / 32;
	if (threadIdx.x == 0) {
		for (int i = 0; i < p.slots; i++) barrier_init(&barriers[i], 1), barrier_init(&barriers[most_slots + i], tiles);
		barrier_init(&barriers[2 * most_slots], 1), barrier_init(&barriers[2 * most_slots + 1], cluster.size);
		barriers_ready();
	}
	__syncthreads();
	asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // nothing but barriers that are ready is read by others
	if (warp >= tiles) {
		registers_down<40>();
		Copier{p, slots, (int)threadIdx.x % 32, p.rows8 * block_rows * (int)sizeof(half), {}, 0}.run(cluster);
		cluster_wait();
	} else {
		registers_up<232>();
		after_previous();
		multiply_all<n>(p, slots, cluster, Parts{slots.head_at(p.slots), first + 16 * most_slots, first + 16 * most_slots + 8});
	}
	cluster_arrive();  // others may still send or arrive
	cluster_wait();
}

#else  // other GPUs decode matrices first

template <int n>
__device__ void product(const Product&) {}

#endif

#define QGEMM(name, n)                                       \
	extern "C" __global__ void __launch_bounds__(threads, 1) \
	name(const __grid_constant__ Product p) {                \
		product<n>(p);                                       \
	}

QGEMM(qgemm_hopper_128, 128)
QGEMM(qgemm_hopper_96, 96)
QGEMM(qgemm_hopper_64, 64)
QGEMM(qgemm_hopper_48, 48)
QGEMM(qgemm_hopper_32, 32)
