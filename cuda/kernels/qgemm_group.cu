// Products of many rows with the EXL2 matrices of experts on Hopper: y[i] = x[i]·W[e] + bias[e] for
// the expert e of row i, rows being sorted by expert. As qgemm_hopper.cu, but
//
// - an expert's rows are sets of up to n, of which each is multiplied by one matrix or two,
//   256 columns at a time. How many sets there are is in device memory: blocks stay, and take
//   every so many of such products until there are no more. The warp that copies finds the
//   sets, and tells the others with the first unit of each what it is (Item).
// - x has been put in order by qgemm_group_order: a set's rows by the units of its expert's
//   matrix, in whole eights behind those of the sets before it. Of the last products of a mixture
//   it makes units of gate and up, too.
#include "expert.cuh"
#include "gemm.cuh"
#include "limited.cuh"
#include "qgemm.cuh"

constexpr int rows_at_once = 4;                             // that a block of qgemm_group_order puts in order
constexpr int write_rows = 32;                              // that a warp writes at once
constexpr int write_stride = tile_columns + 8;              // of its memory for them
constexpr int write_bytes = write_rows * write_stride * 2;  // of a warp
static_assert(write_bytes % 16 == 0, "rows are written 16 bytes at a time");

// An Item is a set's product with 256 columns, or, without rows, the end.
struct alignas(16) Item {
	int expert, from, rows, block;
};

// Experts says whose rows there are.
struct Experts {
	const int* first;  // [count + 1]
	int count, n;      // rows of a set, at most, a multiple of eight
};

// A Set is rows of an expert from a place among all on; `base` of those in order are before it. Past
// the last one there are no rows.
struct Set {
	int expert, from, rows, base;

	__device__ Set(const Experts& all, int number) : expert(0), from(0), rows(0), base(0) {
		int lane = threadIdx.x % 32;
#pragma unroll 1
		for (int e = lane; e - lane < all.count; e += 32) {
			int begin = all.first[min(e, all.count)], mine = all.first[min(e + 1, all.count)] - begin;
			int sets = (mine + all.n - 1) / all.n, in_order = (mine + 7) / 8 * 8, end = sets, upto = in_order;
#pragma unroll
			for (int step = 1; step < 32; step *= 2) {
				int a = __shfl_up_sync(~0u, end, step), b = __shfl_up_sync(~0u, upto, step);
				if (lane >= step) end += a, upto += b;
			}
			unsigned behind = __ballot_sync(~0u, number < end);
			if (behind) {
				int at = __ffs(behind) - 1, before = (number - (end - sets)) * all.n;
				expert = e - lane + at;
				from = __shfl_sync(~0u, begin + before, at), base += __shfl_sync(~0u, upto - in_order + before, at);
				rows = min(all.n, __shfl_sync(~0u, mine - before, at));
				return;
			}
			number -= __shfl_sync(~0u, end, 31), base += __shfl_sync(~0u, upto, 31);
		}
	}
	__device__ int rows8() const { return (rows + 7) & ~7; }
};

// Side is matrices of experts, what they multiply, and where that goes.
struct Side {
	half* y;        // [rows, out], ldy apart
	const half* x;  // in order
	Table table;
	int blocks, out;  // of 256 columns
	int64 ldy;
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Stages are the slots of shared memory: rows of x and words of eight tiles, and what they are of.
struct Stages {
	unsigned char* base;
	int bytes, count;
	u64 *full, *empty;
	Item* items;
};

__device__ inline Packed packed_of(const int* entry, int out) {
	const Matrix& m = *(const Matrix*)entry;
	return {m.words, (const unsigned short*)m.scales, (const int*)m.units, (const int4*)(entry + head_words), m.count, m.chunks, m.groups, (out + tile_columns - 1) / tile_columns};
}

// copy_all is what the copier does: lane i copies a tile's words, and lane 0 the rows of x, too.
template <int n>
__device__ void copy_all(const Side& a, const Side& b, const Experts& experts, const Stages& s, int halves) {
	int lane = threadIdx.x % 32, blocks = a.blocks + b.blocks, i = 0;
	for (int number = blockIdx.x;; number += gridDim.x) {
		Set set(experts, number / blocks);
		Item item = {set.expert, set.from, set.rows, number % blocks};
		bool second = item.block >= a.blocks;
		const int* entry = (second ? b.table : a.table).of(set.expert);
		Packed w = packed_of(entry, second ? b.out : a.out);
		const half* x = (second ? b.x : a.x) + (int64)set.base * halves * half_rows;
		int tile = (item.block - (second ? a.blocks : 0)) * warps + lane, there = min(warps, w.tiles - tile + lane);
		int units = set.rows ? ((const Matrix*)entry)->units128 : 1, count = set.rows8() * half_rows * (int)sizeof(half);
		Cursor c(w, 0);
		for (int u = 0; u < units; u++, i++, c.next(w)) {
			int at = i % s.count, bytes = c.at.bits * 512;
			if (i >= s.count) barrier_wait(&s.empty[at], (i / s.count - 1) & 1);
			unsigned char* to = s.base + at * s.bytes;
			if (lane == 0) {
				s.items[at] = item;
				barrier_expect(&s.full[at], set.rows ? 2 * count + there * bytes : 0);
				for (int h = 0; set.rows && h < 2; h++)
					copy_bulk(to + h * n * half_rows * sizeof(half), x + (int64)(2 * u + h) * set.rows8() * half_rows, count, &s.full[at]);
			}
			__syncwarp();
			if (set.rows && lane < there)
				copy_bulk(to + n * unit_rows * sizeof(half) + lane * bytes, w.words + ((int64)tile * w.chunks + c.at.place + c.unit * c.at.bits) * 32, bytes, &s.full[at]);
		}
		if (set.rows == 0) return;
	}
}

// write writes a warp's columns by way of its shared memory, so that rows are whole.
template <int n>
__device__ inline void write(half* y, const float* bias, const float (&low)[n / 2], const float (&high)[n / 2], half* staged, int rows, int column, int out, int64 ldy) {
	int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
	for (int from = 0; from < n; from += write_rows) {
		if (from >= rows) break;
#pragma unroll
		for (int c = 0; c < 4; c++) {
			int at = g + 8 * c;
			float add = bias && column + at < out ? bias[column + at] : 0;
#pragma unroll
			for (int i = 0; i < min(n, write_rows) / 4; i++) {
				int k = (from / 8 + i / 2) * 4 + c % 2 * 2 + i % 2;
				staged[(i / 2 * 8 + 2 * q + i % 2) * write_stride + at] = __float2half_rn((c < 2 ? low[k] : high[k]) + add);
			}
		}
		__syncwarp();
		for (int i = lane; i < min(n, write_rows) * 4; i += 32) {
			int r = i / 4, c = i % 4 * 8;
			if (from + r < rows) put_all(y + (from + r) * ldy + column + c, staged + r * write_stride + c, out - column - c);
		}
		__syncwarp();
	}
}

// multiply_all is what the other warps do.
template <int n>
__device__ void multiply_all(const Side& a, const Side& b, const Stages& s, half* staged) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	Exponent e;
	for (int i = 0;;) {
		barrier_wait(&s.full[i % s.count], i / s.count & 1);
		Item item = s.items[i % s.count];
		if (item.rows == 0) return;
		bool second = item.block >= a.blocks;
		const int* entry = (second ? b.table : a.table).of(item.expert);
		int out = second ? b.out : a.out, tile = (item.block - (second ? a.blocks : 0)) * warps + warp;
		Packed w = packed_of(entry, out);
		Cursor c(w, 0);
		Scales now(w, c, tile);
		float low[n / 2] = {}, high[n / 2] = {};
		u64* free = nullptr;
		for (int end = i + ((const Matrix*)entry)->units128; i < end; i++) {
			int at = i % s.count, bits = c.at.bits;
			c.next(w);
			Scales ahead(w, c, tile);
			barrier_wait(&s.full[at], i / s.count & 1);
			unsigned char* from = s.base + at * s.bytes;
			uint64 x = operand((const half*)from);
			const uint4* words = (const uint4*)(from + n * unit_rows * sizeof(half) + warp * bits * 512) + lane;
			switch (bits) {
				case 2: multiply<2, n>(low, high, words, x, now, e, free); break;
				case 3: multiply<3, n>(low, high, words, x, now, e, free); break;
				case 4: multiply<4, n>(low, high, words, x, now, e, free); break;
				case 5: multiply<5, n>(low, high, words, x, now, e, free); break;
				case 6: multiply<6, n>(low, high, words, x, now, e, free); break;
				case 8: multiply<8, n>(low, high, words, x, now, e, free); break;
			}
			now = ahead;
			free = &s.empty[at];
		}
		wgmma_wait<0>();
		if (lane == 0) barrier_arrive(free);
		int64 ldy = second ? b.ldy : a.ldy;
		write<n>((second ? b.y : a.y) + item.from * ldy, ((const Matrix*)entry)->bias, low, high, staged + warp * (write_bytes / 2), item.rows, tile * tile_columns, out, ldy);
	}
}

template <int n>
__device__ void products(const Side& a, const Side& b, const Experts& experts, int slot, int slots, int halves) {
	extern __shared__ uint4 memory[];
	__shared__ u64 full[most_stages], empty[most_stages];
	__shared__ Item items[most_stages];
	Stages stages = {(unsigned char*)(((size_t)memory + 1023) & ~(size_t)1023), slot, slots, full, empty, items};
	int warp = threadIdx.x / 32;
	if (threadIdx.x == 0) {
		for (int i = 0; i < slots; i++) barrier_init(&full[i], 1), barrier_init(&empty[i], warps);
		barriers_ready();
	}
	__syncthreads();
	after_previous();
	if (warp >= copier) {
		registers_down<56>();
		if (warp == copier) copy_all<n>(a, b, experts, stages, halves);
	} else {
		registers_up<224>();
		multiply_all<n>(a, b, stages, (half*)(stages.base + slots * slot));
	}
}

#else  // other GPUs multiply eight rows at a time (qmatmul_group.cu)

template <int n>
__device__ void products(const Side&, const Side&, const Experts&, int, int, int) {}

#endif

#define QGEMM_GROUP(name, n)                                                                                 \
	extern "C" __global__ void __launch_bounds__(384, 1) name(                                             \
		half* y1, half* y2, const half* x1, const half* x2, const int* table1, const int* table2,          \
		const int* first, int count, int words1, int words2, int blocks1, int blocks2, int slot, int slots, \
		int halves, int out1, int out2, int64 ldy1, int64 ldy2) {                                          \
		Side a = {y1, x1, {table1, words1, 0}, blocks1, out1, ldy1}, b = {y2, x2, {table2, words2, 0}, blocks2, out2, ldy2}; \
		products<n>(a, b, {first, count, n}, slot, slots, halves);                                         \
	}

QGEMM_GROUP(qgemm_group_16, 16)
QGEMM_GROUP(qgemm_group_32, 32)
QGEMM_GROUP(qgemm_group_64, 64)
QGEMM_GROUP(qgemm_group_128, 128)

// qgemm_group_order puts a set's rows in the order in which their expert's matrix has its rows
// (qgemm_order.cu): blockIdx.y is the number of the set, blockIdx.x of some of its rows.
extern "C" __global__ void __launch_bounds__(256) qgemm_group_order(
	half* y,           // by sets: [halves, rows of the set in whole eights, 64], as wgmma reads it
	const half* x,     // rows ldx elements apart, each at 16 bytes
	const half* up,    // likewise; or null. y has units of x and up where it is there.
	const int* rows,   // [·]: of x, or null
	const int* table, const int* first, int count, int n, int words, int in, int halves, int act, int64 ldx, int64 ldu, float limit, float most, float alpha, float added) {
	extern __shared__ half row[];  // [rows_at_once, in]
	after_previous();
	Unit unit = {act, limit, most, alpha, added};
	Set set({first, count, n}, blockIdx.y);
	int from = blockIdx.x * rows_at_once, mine = min(rows_at_once, set.rows - from);
	if (mine <= 0) return;
	for (int r = 0; r < mine; r++) {
		int64 place = set.from + from + r, at = rows ? rows[place] : place;
		for (int i = threadIdx.x * 8; i < in; i += blockDim.x * 8) {
			Eight<half> v, u;
			v.words[0] = *(const uint4*)(x + at * ldx + i);
			if (up) {
				u.words[0] = *(const uint4*)(up + at * ldu + i);
				unit.eight(v, u);
			}
			*(uint4*)(row + r * in + i) = v.words[0];
		}
	}
	__syncthreads();
	const Matrix& m = *(const Matrix*)Table{table, words, 0}.of(set.expert);
	int all = m.units128 * unit_rows;
	y += (int64)set.base * halves * half_rows;
	for (int i = threadIdx.x * 8; i < all; i += blockDim.x * 8) {
		Eight<half> places, v;
		places.words[0] = *(const uint4*)(m.shuffle + i);
		for (int r = 0; r < mine; r++) {
#pragma unroll
			for (int j = 0; j < 8; j++) {
				int at = __half_as_ushort(places.v[j]);
				v.v[j] = at == absent ? __half(0.0f) : row[r * in + at];
			}
			int k = from + r;
			*(uint4*)(y + ((int64)(i / half_rows) * set.rows8() + k) * half_rows + (i % half_rows / 8 ^ k % 8) * 8) = v.words[0];
		}
	}
}
