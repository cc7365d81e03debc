// Products with the EXL2 matrices of experts: y[i] = x[rows[i]]·W[e] + bias[e] for the
// expert e of row i. Rows are sorted by expert.
//
// blockIdx.y is a row of y; the block of an expert's first row multiplies up to eight
// rows by a tile of 32 columns, the block of the next row behind those the next ones,
// and so on; the others have nothing to do. So what is launched does not depend on the
// choice of experts, which is in device memory. blockIdx.x goes over the tiles of one
// group of matrices, and then of another, if two are multiplied by the same rows.
//
// The units of a tile (exl2.cuh) are shared among the warps, each of which asks for
// several at once: tiles of experts are small, and there are many. They are multiplied
// as in packed.cuh. The sums of the warps are added in shared memory, in order.
#include "exl2.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "packed.cuh"

constexpr int most = 8;         // rows of x
constexpr int ring = 9216;      // bytes of shared memory that a warp's units have
constexpr int few_warps = 2, some_warps = 4, many_warps = 8;

// Matrix is an expert's, as a group's table has it.
struct Matrix {
	const uint4* words;   // [out/32, chunks, 32]
	const uint4* scales;  // [out/32, groups]
	const u32* units;     // [groups]
	const half* order;    // [in]: place in x of each stored row, a 16-bit number
	const float* bias;    // [out] or null
	const int4* regions;  // [count, 2], as Region
	int count, chunks, groups, slot;  // slot: bytes of the largest unit
};

// Choice says whose rows are multiplied.
struct Choice {
	const int* rows;     // [n] or null
	const int* experts;  // [n]
	const int* first;    // [experts + 1]
};

// Weights is a tile as a lane reads it.
struct Weights {
	const uint4* words;
	const int4* regions;
	int count;

	__device__ Region region(int i) const {
		int4 a = __ldg(regions + 2 * i), b = __ldg(regions + 2 * i + 1);
		return {a.x, a.y, a.z, a.w, b.x, b.y};
	}
};

// Cursor goes through the units of a warp.
template <int warps>
struct Cursor {
	Region at;
	int index, unit;  // region, and unit in it

	__device__ void start(const Weights& w, int warp) {
		index = 0, unit = warp, at = w.region(0);
		settle(w);
	}
	__device__ void next(const Weights& w) {
		unit += warps;
		settle(w);
	}
	__device__ void settle(const Weights& w) {
		while (index < w.count && unit >= at.units()) {
			unit -= at.units();
			if (++index < w.count) at = w.region(index);
		}
	}
};

// fetch asks for this lane's part of a unit.
template <int warps>
__device__ inline void fetch(unsigned char* slot, const Weights& w, const Cursor<warps>& c) {
	const uint4* from = w.words + (c.at.place + c.unit * c.at.bits) * 32;
	uint4* to = (uint4*)slot + threadIdx.x % 32;
	for (int i = 0; i < c.at.bits; i++) copy16(to + i * 32, from + i * 32, true);
}

// stage puts a row of x in shared memory in stored order.
__device__ inline void stage(half* to, const half* order, const half* x, int in) {
	for (int i = threadIdx.x * 8; i < in; i += blockDim.x * 8) {
		Eight<half> from, v;
		from.words[0] = *(const uint4*)(order + i);
#pragma unroll
		for (int j = 0; j < 8; j++) v.v[j] = x[__half_as_ushort(from.v[j])];
		*(uint4*)(to + i) = v.words[0];
	}
}

// finish adds the warps' sums and writes them.
template <int warps>
__device__ inline void finish(half* y, const float* bias, float (&sums)[2][4], float* parts, int tile, int rows, int out, int64 ldy) {
	constexpr int step = tile_columns * most;
	__syncthreads();  // units are no longer needed, parts takes their place
	keep<most>(parts + threadIdx.x / 32 * step, sums);
	__syncthreads();
	for (int i = threadIdx.x; i < tile_columns * rows; i += blockDim.x) {
		int column = i % tile_columns, row = i / tile_columns, at = tile * tile_columns + column;
		if (at >= out) continue;
		float sum = bias ? bias[at] : 0;
#pragma unroll
		for (int w = 0; w < warps; w++) sum += parts[w * step + i];
		narrow(y[row * ldy + at], sum);
	}
}

template <int warps>
__device__ void qmatmul_group(
	half* y,             // [n, out], rows ldy elements apart
	const half* x,       // rows ldx elements apart, at 16 bytes
	const Matrix* table, // [experts]
	const Choice& choice,
	int tile, int together,  // rows at a time
	int in, int out, int64 ldy, int64 ldx) {
	extern __shared__ uint4 memory[];
	after_previous();
	int i = blockIdx.y, e = choice.experts[i], begin = choice.first[e];
	if ((i - begin) % together) return;
	int rows = min(together, choice.first[e + 1] - i);
	Matrix m = table[e];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, padded = padded_groups(m.groups), slots = min(ring / m.slot, 4);
	Weights w = {m.words + (int64)tile * m.chunks * 32 + lane, m.regions, m.count};
	unsigned char* mine = (unsigned char*)memory + warp * ring;
	uint4* scales = (uint4*)((unsigned char*)memory + warps * ring);
	u32* units = (u32*)(scales + m.groups);
	half* staged = (half*)(units + padded);

	Cursor<warps> ahead, now;
	ahead.start(w, warp);
	now = ahead;
	for (int k = threadIdx.x; k < m.groups; k += blockDim.x) copy16(scales + k, m.scales + (int64)tile * m.groups + k, true);
	for (int k = threadIdx.x; k < padded; k += blockDim.x) copy4(units + k, m.units + min(k, m.groups - 1), k < m.groups);
	for (int s = 0; s < slots; s++) {
		if (ahead.index < w.count) {
			fetch(mine + s * m.slot, w, ahead);
			ahead.next(w);
		}
		commit();
	}
	for (int r = 0; r < rows; r++) {
		int64 from = choice.rows ? choice.rows[i + r] : i + r;
		half* to = staged + r * stride(in);
		stage(to, m.order, x + from * ldx, in);
		for (int k = threadIdx.x; k < row_padding; k += blockDim.x) to[in + k] = __float2half(0);
	}
	arrived_but(slots - 1);  // scales and units are in the first batch
	__syncthreads();

	Exponent e1024;
	float sums[2][4] = {};
	const half* xs = staged + min(lane / 4, rows - 1) * stride(in) + lane % 4 * 8;
	for (int s = 0; now.index < w.count; now.next(w)) {
		arrived_but(slots - 1);
		__syncwarp();
		unsigned char* from = mine + s * m.slot;
		int block = now.unit * unit_blocks, group = now.at.group_of(block);
		multiply_unit<most>(now.at.bits, now.at.shift >= 2, sums, (const uint4*)from + lane, (const uint4*)(xs + (now.at.block + block) * block_rows),
		                    Codes{scales + group}, units + group, now.at.shift, e1024);
		__syncwarp();
		if (ahead.index < w.count) {
			fetch(from, w, ahead);
			ahead.next(w);
		}
		commit();
		if (++s == slots) s = 0;
	}
	arrived<0>();
	finish<warps>(y + (int64)i * ldy, m.bias, sums, (float*)memory, tile, rows, out, ldy);
}

#define QMATMUL_GROUP(name, warps)                                                                  \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                        \
	name(half* y1, half* y2, const half* x, const int* table1, const int* table2, const int* rows,  \
	     const int* experts, const int* first, int tiles, int together, int in, int out1, int out2, \
	     int64 ldy1, int64 ldy2, int64 ldx) {                                                       \
		bool second = blockIdx.x >= tiles;                                                          \
		Choice c = {rows, experts, first};                                                          \
		qmatmul_group<warps>(second ? y2 : y1, x, (const Matrix*)(second ? table2 : table1), c,     \
		                     second ? blockIdx.x - tiles : blockIdx.x, together, in,                \
		                     second ? out2 : out1, second ? ldy2 : ldy1, ldx);                      \
	}

QMATMUL_GROUP(qmatmul_group_2, few_warps)
QMATMUL_GROUP(qmatmul_group_4, some_warps)
QMATMUL_GROUP(qmatmul_group_8, many_warps)
