// Products of many rows with the EXL2 matrices of experts on Hopper: y[i] = x[i]·W[e] + bias[e] for
// the expert e of row i, rows being sorted by expert. As qgemm_hopper.cu, but
//
// - an expert's rows are sets of up to 128, of which each is multiplied by one matrix or two, 256 columns at a time: an item. How many there are is in
//   device memory, so blocks stay, and take every so many of them until there are no more. Tensor cores multiply as many rows as a set has, or few more.
// - a unit takes as much shared memory as its rows and codes need, behind the one before it (Ring): of few rows more units are on their way.
// - x has been put in order by qgemm_group_order, by sets, each in whole eights behind those before it.
// - what a multiprocessor reads waits behind words that it has asked for. So the warps that copy ask for what they need to know of an item while they
//   copy the one before, and what scales are made of comes to shared memory by copies, too.
#include "limited.cuh"
#include "order.cuh"
#include "qgemm_group_copy.cuh"
#include "qgemm_unit.cuh"

constexpr int most_rows = 128;                              // of a set
constexpr int write_rows = 32;                              // that a warp writes at once
constexpr int write_stride = tile_columns + 8;              // of its memory for them
constexpr int write_bytes = write_rows * write_stride * 2;  // of a warp
constexpr int ring_align = 512;                             // of units, as wgmma reads rows
constexpr int own = 224, others = 56;                       // registers of threads that multiply, and that copy
static_assert(write_bytes % 16 == 0 && most_rows % 8 == 0 && ring_align > 0, "rows are written 16 bytes at a time");
static_assert(tiles * own + copiers * others <= (tiles + copiers) * 168, "a block has as many registers as it was launched with, or else waits for more forever");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// put_all writes as many elements as 16 bytes are, those that there are.
__device__ inline void put_all(half* to, const half* from, int count) {
	constexpr int all = 16 / sizeof(half);
	if (count >= all && (size_t)to % 16 == 0) {
		*(uint4*)to = *(const uint4*)from;
	} else {
		for (int i = 0; i < min(count, all); i++) to[i] = from[i];
	}
}

// A Writer writes a warp's columns by way of its shared memory, so that rows are whole.
struct Writer {
	half* y;  // of the first row and column
	half* staged;
	int64 ldy;
	int rows, columns;  // that there are
	float bias[4];      // of columns g, g+8, g+16 and g+24

	// ask asks for the bias.
	__device__ void ask(const float* from) {
#pragma unroll
		for (int c = 0; c < 4; c++) {
			int at = threadIdx.x % 32 / 4 + 8 * c;
			bias[c] = from && at < columns ? __ldg(from + at) : 0;
		}
	}

	template <int n>
	__device__ void write(const float (&sums)[2][n / 2]) const {
		int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
		for (int from = 0; from < n; from += write_rows) {
			if (from >= rows) break;
#pragma unroll
			for (int c = 0; c < 4; c++)
#pragma unroll
				for (int i = 0; i < min(n, write_rows) / 4; i++)
					staged[(i / 2 * 8 + 2 * q + i % 2) * write_stride + g + 8 * c] = __float2half_rn(sums[c / 2][(from / 8 + i / 2) * 4 + c % 2 * 2 + i % 2] + bias[c]);
			__syncwarp();
			for (int i = lane; i < min(n, write_rows) * 4; i += 32) {
				int r = i / 4, c = i % 4 * 8;
				if (from + r < rows) put_all(y + (from + r) * ldy + c, staged + r * write_stride + c, columns - c);
			}
			__syncwarp();
		}
	}
};

// What of a unit's head says where it is, and whether it is an item's last.
struct Where {
	u32 x, last;
	__device__ Where(u32 head) {
		asm volatile("ld.shared.b32 %0, [%1+20];" : "=r"(x) : "r"(head) : "memory");
		last = x & 1, x &= ~1u;
	}
};

// multiply_item multiplies an item's units by up to n rows, of which a block is step apart in what an operand is, and writes the products.
template <int n>
__device__ __forceinline__ void multiply_item(const Writer& to, const Slots& s, Turn& turn, int step, Exponent e) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, words_at = unit_blocks * step * 16 + lane * 16, warp_bytes = warp * 512, mine = codes_at + warp * unit_blocks * 16 + lane / 4 * 2;
	float sums[2][n / 2] = {};
	u32 free = 0, last;
	do {
		u32 head = s.head_at(turn.at);
		barrier_wait(s.full_at(turn.at), turn.parity);
		Scales unit(head, mine);
		Where at(head);
		int bits = bits_of_unit(unit.packed);
		u32 words = at.x + words_at + warp_bytes * bits;
		if (has_one_group(unit.packed)) multiply_bits<true, n>(bits, sums, words, rows_of(at.x), step, unit, e, free);
		else multiply_bits<false, n>(bits, sums, words, rows_of(at.x), step, unit, e, free);
		free = s.empty_at(turn.at), last = at.last;
		turn.next(s);
	} while (!last);
	wgmma_wait<0>();
	if (lane == 0) barrier_arrive(free);
	to.write<n>(sums);
}

// multiply_all is what the warps do that multiply.
__device__ __forceinline__ void multiply_all(const Side& a, const Side& b, const List& list, const Slots& s, half* staged) {
	int warp = threadIdx.x / 32;
	Exponent e;
	Turn turn = {0, 0};
#pragma unroll 1
	for (int number = blockIdx.x;; number += gridDim.x) {
		Item item(a, b, list, number);
		if (!item.there()) return;
		const Side& side = item.second ? b : a;
		int column = (item.tile + warp) * tile_columns, rows = item.set.rows, step = item.set.rows8() * block_rows * (int)sizeof(half) >> 4;
		Writer to = {side.y + item.set.from * side.ldy + column, staged + warp * (write_bytes / 2), side.ldy, rows, side.out - column};
		barrier_wait(s.full_at(turn.at), turn.parity);
		const float* bias;
		asm volatile("ld.shared.b64 %0, [%1+24];" : "=l"(bias) : "r"(s.head_at(turn.at)) : "memory");
		to.ask(bias ? bias + column : bias);
		if (rows <= 32) multiply_item<32>(to, s, turn, step, e);
		else if (rows <= 64) multiply_item<64>(to, s, turn, step, e);
		else multiply_item<most_rows>(to, s, turn, step, e);
	}
}

#endif

// qgemm_group has `bytes` of shared memory for units. Other GPUs multiply eight rows at a time (qmatmul_group.cu).
extern "C" __global__ void __launch_bounds__(threads, 1) qgemm_group(
	half* y1, half* y2, const half* x1, const half* x2, const int* table1, const int* table2,
	const int* first, int count, int words1, int words2, int places1, int places2, int blocks1, int blocks2, int units1, int units2, int bytes,
	int in, int out1, int out2, int64 ldy1, int64 ldy2) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	extern __shared__ uint4 memory[];
	__shared__ u64 barriers[2 * most_slots];
	Side a = {y1, x1, {table1, words1, places1}, blocks1, out1, units1, ldy1}, b = {y2, x2, {table2, words2, places2}, blocks2, out2, units2, ldy2};
	u32 base = (shared_address(memory) + 1023) & ~1023u;
	Slots slots = {base, base + bytes, shared_address(barriers), 0, most_slots};
	unsigned char* behind = (unsigned char*)memory + (slots.head_at(most_slots) - shared_address(memory));
	List list((int*)(behind + tiles * write_bytes), count, most_rows);
	if (threadIdx.x == 0) {
		for (int i = 0; i < most_slots; i++) barrier_init(&barriers[i], 1 + 32), barrier_init(&barriers[most_slots + i], tiles);
		barriers_ready();
	}
	after_previous();
	if (threadIdx.x < 32) list.fill(first);
	__syncthreads();
	if (threadIdx.x / 32 >= tiles) {
		registers_down<others>();
		Copier{a, b, list, slots, in / block_rows, {bytes, 0, 0, 0, 0}}.run();
	} else {
		registers_up<own>();
		multiply_all(a, b, list, slots, (half*)behind);
	}
#endif
}
