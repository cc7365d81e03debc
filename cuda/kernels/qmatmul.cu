// Products of up to eight rows with an EXL2 matrix: y = x·W + bias.
//
// Tensor cores multiply; fp32 sums. A block computes a tile of 32 columns, whose
// units of 128 rows (exl2.cuh) its warps take in turn: a pair of codes becomes a
// register of an operand where it is (mma.cuh), the columns being the rows of that
// product, the rows of x its columns. The sums of the warps are added in shared
// memory, in order.
//
// Units come to shared memory several steps ahead, each lane's part for itself, so
// that only the lane waits for it. The first ones are asked for before the kernel
// before this one is done: weights do not depend on it. That keeps memory busy
// from one product to the next, which is what decoding takes its speed from.
//
// H200, 2026-11-21, 4096 x 4096 at 4 bits, in a chain of products over cold memory:
// loads alone 3.1 µs (4.8 with words by rows, as in the file), all of it 7.7.
#include "exl2.cuh"
#include "mma.cuh"
#include "order.cuh"

constexpr int most = 8;  // rows of x

// Variant is how a block is made: warps, and the bytes of shared memory that a
// warp's units have. Rows of x are put in stored order from shared memory, or, where
// it is scarce, directly.
enum Source { by_shared, direct };

template <int w, int r, Source s>
struct Variant {
	static constexpr int warps = w, ring = r;
	static constexpr Source source = s;
};

// Weights is a matrix as a lane reads it.
struct Weights {
	const uint4* words;   // of this tile
	const int* scales;    // of this tile, at this lane's columns
	const int* units;     // [groups]
	const int4* regions;  // [count, 2], as Region
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

// A unit in shared memory: a word of scales and one of units a lane, then chunks of
// words. Whatever the width, a lane's words lie where its own lay before.
constexpr int side_bytes = 256;

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

// stride is the distance between the rows of x in shared memory, in which lanes
// that read different rows at a time do not collide.
constexpr int row_padding = 8;

__device__ inline int stride(int in) { return in + row_padding; }

// fetch_order asks for the places in x of the stored rows, 16 bits each, where the
// first row of x will be; permute puts a row of x there in that order.
__device__ inline void fetch_order(half* to, const half* order, int in) {
	for (int i = threadIdx.x * 8; i < in; i += blockDim.x * 8) copy16(to + i, order + i, true);
}

__device__ inline void permute(half* to, const half* order, const half* x, int in) {
	for (int i = threadIdx.x * 8; i < in; i += blockDim.x * 8) {
		Eight<half> from, v;
		from.words[0] = *(const uint4*)(order + i);
#pragma unroll
		for (int j = 0; j < 8; j++) v.v[j] = x[__half_as_ushort(from.v[j])];
		*(uint4*)(to + i) = v.words[0];
	}
}

// stage puts the rows of x in stored order, the first one, where the order is, last.
template <Source source>
__device__ inline void stage(half* to, const half* x, int64 ldx, int rows, int in) {
	half* raw = to + rows * stride(in);
	for (int r = rows - 1; r >= 0; r--) {
		const half* from = x + r * ldx;
		if (source == by_shared) {
			__syncthreads();  // the row before is permuted
			for (int i = threadIdx.x * 8; i < in; i += blockDim.x * 8) *(uint4*)(raw + i) = *(const uint4*)(from + i);
			__syncthreads();
			from = raw;
		}
		permute(to + r * stride(in), to, from, in);
	}
}

// finish adds the warps' sums and writes them.
template <int warps, class Y>
__device__ inline void finish(Y* y, const float* bias, const float (&sums)[2][4], float* parts, int rows, int out, int64 ldy) {
	int warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
	__syncthreads();  // units are no longer needed, parts takes their place
#pragma unroll
	for (int t = 0; t < 2; t++)
#pragma unroll
		for (int i = 0; i < 4; i++)
			if (2 * q + i % 2 < rows) parts[(warp * tile_columns + 4 * g + 2 * t + i / 2) * most + 2 * q + i % 2] = sums[t][i];
	__syncthreads();
	for (int i = threadIdx.x; i < tile_columns * rows; i += blockDim.x) {
		int column = i % tile_columns, row = i / tile_columns, at = blockIdx.x * tile_columns + column;
		if (at >= out) continue;
		float sum = bias ? bias[at] : 0;
#pragma unroll
		for (int w = 0; w < warps; w++) sum += parts[(w * tile_columns + column) * most + row];
		narrow(y[row * ldy + at], sum);
	}
}

template <class V, class Y>
__device__ void qmatmul(
	Y* y,               // [rows, out], rows ldy elements apart
	const half* x,      // [rows, in], rows ldx elements apart, each at 16 bytes
	const Weights& w,
	const half* order,  // [in]: place in x of each stored row, a 16-bit number
	const float* bias,  // [out] or null
	int slot,           // bytes of the largest unit
	int slots,          // that a warp's ring has, up to 7
	int rows, int in, int out, int64 ldy, int64 ldx) {
	extern __shared__ uint4 memory[];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, shift = g % 2 * 16;
	unsigned char* ring = (unsigned char*)memory + warp * V::ring;
	half* staged = (half*)((unsigned char*)memory + V::warps * V::ring);

	let_next();
	fetch_order(staged, order, in);
	Cursor<V::warps> ahead, now;
	ahead.start(w, warp);
	now = ahead;
	for (int s = 0; s < slots; s++) {
		if (ahead.index < w.count) {
			fetch(ring + s * slot, w, ahead);
			ahead.next(w);
		}
		commit();
	}
	after_previous();
	arrived_but(slots - 1);  // the order is in the first batch
	stage<V::source>(staged, x, ldx, rows, in);
	__syncthreads();

	float sums[2][4] = {};
	for (int s = 0; now.index < w.count; now.next(w)) {
		arrived_but(slots - 1);
		unsigned char* from = ring + s * slot;
		int block = now.unit * 4 + lane % 4;
		bool has_x = g < rows && block < now.at.blocks;
		const half* row = staged + g * stride(in) + (now.at.block + block) * block_rows;
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
	finish<V::warps>(y, bias, sums, (float*)memory, rows, out, ldy);
}

// Blocks of 16 warps where there are fewer tiles than the GPU can hold blocks of
// eight; blocks that take little shared memory where there is little.
constexpr int few_warps = 16, few_ring = 4608;
constexpr int many_warps = 8, many_ring = 7168;
constexpr int tight_warps = 8, tight_ring = 4352;

using Few = Variant<few_warps, few_ring, by_shared>;
using Many = Variant<many_warps, many_ring, by_shared>;
using Tight = Variant<tight_warps, tight_ring, direct>;

#define QMATMUL(name, V, blocks, Y)                                                                 \
	extern "C" __global__ void __launch_bounds__(32 * V::warps, blocks)                             \
	name(Y* y, const half* x, const int* words, const int* scales, const int* units,                \
	     const half* order, const float* bias, const int* regions, int count, int tile, int groups, \
	     int slot, int slots, int rows, int in, int out, int64 ldy, int64 ldx) {                    \
		const int* lane_scales = scales + (int64)blockIdx.x * groups * 4 + threadIdx.x % 32 / 8;    \
		Weights w = {(const uint4*)words + (int64)blockIdx.x * tile, lane_scales, units,            \
		             (const int4*)regions, count};                                                  \
		qmatmul<V>(y, x, w, order, bias, slot, slots, rows, in, out, ldy, ldx);                     \
	}

QMATMUL(qmatmul_few_f16, Few, 2, half)
QMATMUL(qmatmul_few_f32, Few, 2, float)
QMATMUL(qmatmul_many_f16, Many, 3, half)
QMATMUL(qmatmul_many_f32, Many, 3, float)
QMATMUL(qmatmul_tight_f16, Tight, 2, half)
QMATMUL(qmatmul_tight_f32, Tight, 2, float)
