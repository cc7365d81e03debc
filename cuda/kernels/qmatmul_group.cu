// Products with the EXL2 matrices of experts: y[i] = x[rows[i]]·W[e] + bias[e] for the
// expert e of row i. Rows are sorted by expert.
//
// blockIdx.y is a row of y; the block of an expert's first row multiplies up to eight
// rows by a tile of 32 columns, the block of the next row behind those the next ones,
// and so on; the others have nothing to do. So what is launched does not depend on the
// choice of experts, which is in device memory. blockIdx.x goes over the tiles of one
// group of matrices, and then of another, if two are multiplied by the same rows.
//
// A tile's units of 128 rows (exl2.cuh) are shared among the warps, each of which asks
// for several at once: tiles of experts are small, and there are many. A pair of codes
// becomes a register of an operand of tensor cores, the columns being the rows of that
// product, the rows of x its columns. The sums of the warps are added in shared memory,
// in order.
#include "exl2.cuh"
#include "mma.cuh"
#include "order.cuh"

constexpr int most = 8;         // rows of x
constexpr int ring = 9216;      // bytes of shared memory that a warp's units have
constexpr int side_bytes = 256; // of scales and units in front of a unit's words
constexpr int row_padding = 8;  // of a row of x in shared memory, against conflicts
constexpr int few_warps = 2, some_warps = 4, many_warps = 8;

// Matrix is an expert's, as a group's table has it.
struct Matrix {
	const uint4* words;   // [out/32, tile]
	const int* scales;    // [out/32, groups, 4]
	const int* units;     // [groups]
	const half* order;    // [in]: place in x of each stored row, a 16-bit number
	const float* bias;    // [out] or null
	const int4* regions;  // [count, 2], as Region
	int count, tile, groups, slot;  // slot: bytes of the largest unit
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
	const int* scales;  // at this lane's columns
	const int* units;
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
	int lane = threadIdx.x % 32, block = c.unit * 4 + lane % 4;
	const uint4* from = w.words + chunk_of(c.at, c.unit, 0, lane);
	uint4* to = (uint4*)(slot + side_bytes) + lane;
	for (int i = 0; i < c.at.bits; i++) copy16(to + i * 32, from + i * 32, true);
	bool there = block < c.at.blocks;
	int group = there ? c.at.group_of(block) : 0;
	u32* side = (u32*)slot + lane;
	copy4(side, (const u32*)w.scales + group * 4, there);
	copy4(side + 32, (const u32*)w.units + group, there);
}

// multiply adds a unit's products; sums are those of columns 0, 1 and 2, 3.
template <int bits>
__device__ inline void multiply(float (&sums)[2][4], const unsigned char* slot, const half* x, bool has_x, int shift) {
	int lane = threadIdx.x % 32;
	const u32* side = (const u32*)slot + lane;
	u32 scales = side[0] >> shift, unit = side[32], b[16];
#pragma unroll
	for (int i = 0; i < 4; i++) {
		uint4 v = has_x ? ((const uint4*)x)[i] : make_uint4(0, 0, 0, 0);
		b[4 * i] = v.x, b[4 * i + 1] = v.y, b[4 * i + 2] = v.z, b[4 * i + 3] = v.w;
	}
#pragma unroll
	for (int t = 0; t < 2; t++) {
		u32 first[bits], second[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) {
			uint2 v = ((const uint2*)(slot + side_bytes))[(i * 32 + lane) * 2 + t];
			first[i] = v.x, second[i] = v.y;
		}
		half2 scale1 = scale_of(scales >> 8 * t, unit), scale2 = scale_of(scales >> (8 * t + 4), unit);
#pragma unroll
		for (int s = 0; s < 8; s++) {
			u32 a[4] = {bits_of(weights<bits>(first, 2 * s, scale1)), bits_of(weights<bits>(second, 2 * s, scale2)),
			            bits_of(weights<bits>(first, 2 * s + 1, scale1)), bits_of(weights<bits>(second, 2 * s + 1, scale2))};
			u32 pair[2] = {b[2 * s], b[2 * s + 1]};
			mma(sums[t], a, pair);
		}
	}
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
__device__ inline void finish(half* y, const float* bias, const float (&sums)[2][4], float* parts, int tile, int rows, int out, int64 ldy) {
	int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
	__syncthreads();  // units are no longer needed, parts takes their place
#pragma unroll
	for (int t = 0; t < 2; t++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (2 * q + i % 2 < rows) parts[(warp * tile_columns + 4 * g + 2 * t + i / 2) * most + 2 * q + i % 2] = sums[t][i];
	__syncthreads();
	for (int i = threadIdx.x; i < tile_columns * rows; i += blockDim.x) {
		int column = i % tile_columns, row = i / tile_columns, at = tile * tile_columns + column;
		if (at >= out) continue;
		float sum = bias ? bias[at] : 0;
#pragma unroll
		for (int w = 0; w < warps; w++) sum += parts[(w * tile_columns + column) * most + row];
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
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, shift = g % 2 * 16;
	Weights w = {m.words + (int64)tile * m.tile, m.scales + (int64)tile * m.groups * 4 + lane / 8, m.units, m.regions, m.count};
	unsigned char* mine = (unsigned char*)memory + warp * ring;
	half* staged = (half*)((unsigned char*)memory + warps * ring);
	int slots = min(ring / m.slot, 4), stride = in + row_padding;

	Cursor<warps> ahead, now;
	ahead.start(w, warp);
	now = ahead;
	for (int s = 0; s < slots; s++) {
		if (ahead.index < w.count) {
			fetch(mine + s * m.slot, w, ahead);
			ahead.next(w);
		}
		commit();
	}
	for (int r = 0; r < rows; r++) {
		int64 from = choice.rows ? choice.rows[i + r] : i + r;
		stage(staged + r * stride, m.order, x + from * ldx, in);
	}
	__syncthreads();

	float sums[2][4] = {};
	for (int s = 0; now.index < w.count; now.next(w)) {
		arrived_but(slots - 1);
		unsigned char* from = mine + s * m.slot;
		int block = now.unit * 4 + lane % 4;
		bool has_x = g < rows && block < now.at.blocks;
		const half* row = staged + g * stride + (now.at.block + block) * block_rows;
		switch (now.at.bits) {
			case 2: multiply<2>(sums, from, row, has_x, shift); break;
			case 3: multiply<3>(sums, from, row, has_x, shift); break;
			case 4: multiply<4>(sums, from, row, has_x, shift); break;
			case 5: multiply<5>(sums, from, row, has_x, shift); break;
			case 6: multiply<6>(sums, from, row, has_x, shift); break;
			case 8: multiply<8>(sums, from, row, has_x, shift); break;
		}
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
