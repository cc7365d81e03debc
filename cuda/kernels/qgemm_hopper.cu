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
#include "wgmma_packed.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A Unit is what a lane needs of one beside words and x: what it is, its columns' scales, and the units of their groups.
struct Unit {
	u32 packed;
	u32 codes[unit_blocks], units[unit_blocks];

	__device__ __forceinline__ Unit(u32 head, u32 mine) {
		asm volatile("ld.shared.b32 %0, [%1+16];" : "=r"(packed) : "r"(head) : "memory");
		asm volatile("ld.shared.v4.b32 {%0, %1, %2, %3}, [%4];" : "=r"(units[0]), "=r"(units[1]), "=r"(units[2]), "=r"(units[3]) : "r"(head) : "memory");
#pragma unroll
		for (int j = 0; j < unit_blocks; j++) {
			unsigned short v;
			asm volatile("ld.shared.u16 %0, [%1];" : "=h"(v) : "r"(head + mine + 16 * j) : "memory");
			codes[j] = v;
		}
	}
};

__device__ inline uint4 read_words(u32 at) {
	uint4 v;
	asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"(at) : "memory");
	return v;
}

// rows_of describes rows of 32 halves from an address that is a multiple of 512, stored with the 16-byte chunk
// c of row r in place c ^ r/2%4 (the 64-byte swizzle). Sixteen halves further along the rows is 2 more.
__device__ inline uint64 rows_of(u32 address) {
	constexpr uint64 eight_rows = 512 >> 4, swizzle_64 = 2;
	return (address & 0x3ffff) >> 4 | 1ull << 16 | eight_rows << 32 | swizzle_64 << 62;
}

// multiply adds the products of a unit, the last of which it leaves under way; free is told when those of the unit before are done. x is the first
// block's rows, blocks being step apart. Words of a block are read while the one before is multiplied.
template <int bits, bool one_group, int n>
__device__ __forceinline__ void multiply(float (&sums)[2][n / 2], u32 from, uint64 x, int step, const Unit& unit, Exponent e, u32 free) {
	u32 all[unit_blocks * bits];
	half2 scales[2];
#pragma unroll
	for (int j = -1; j < unit_blocks; j++) {
#pragma unroll
		for (int i = 0; i < bits; i++)
			if ((j < 0 || 4 * i >= (j + 1) * bits) && 4 * i < (j + 2) * bits) {
				uint4 v = read_words(from + i * 512);
				all[4 * i] = v.x, all[4 * i + 1] = v.y, all[4 * i + 2] = v.z, all[4 * i + 3] = v.w;
			}
		if (j < 0) continue;
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = all[j * bits + i];
		if (j == 0 || !one_group) scales_of(scales, unit.codes[j], unit.units[j], e);
		half2 v[16];
		numbers<bits>(v, w, e);
		u32 a[2][2][4];
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int h = 0; h < 2; h++)
#pragma unroll
				for (int i = 0; i < 4; i++) a[t][h][i] = bits_of(__hmul2(v[8 * t + i % 2 * 4 + 2 * h + i / 2], __half2half2(scale_of(scales, 2 * t + i % 2))));
		wgmma_begin();
#pragma unroll
		for (int h = 0; h < 2; h++)
#pragma unroll
			for (int t = 0; t < 2; t++) wgmma(sums[t], a[t][h], x + j * step + 2 * h);
		wgmma_end();
		wgmma_wait<1>();
		if (j == 1 && threadIdx.x % 32 == 0 && free) barrier_arrive(free);
	}
}

template <bool one_group, int n>
__device__ __forceinline__ void multiply_bits(int bits, float (&sums)[2][n / 2], u32 from, uint64 x, int step, const Unit& unit, Exponent e, u32 free) {
	switch (bits) {
		case 2: multiply<2, one_group, n>(sums, from, x, step, unit, e, free); break;
		case 3: multiply<3, one_group, n>(sums, from, x, step, unit, e, free); break;
		case 4: multiply<4, one_group, n>(sums, from, x, step, unit, e, free); break;
		case 5: multiply<5, one_group, n>(sums, from, x, step, unit, e, free); break;
		case 6: multiply<6, one_group, n>(sums, from, x, step, unit, e, free); break;
		case 8: multiply<8, one_group, n>(sums, from, x, step, unit, e, free); break;
	}
}

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
	int words_at = unit_blocks * step * 16 + lane * 16, warp_bytes = warp * 512, codes_at = 32 + warp * unit_blocks * 16 + lane / 4 * 2;  // in a slot; times bits; in a head
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
			Unit unit(s.head_at(turn.at), codes_at);
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
