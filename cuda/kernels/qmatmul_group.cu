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
//
// The table is asked for before the choice is known. Kernels with sum in their names come
// behind one of the others, which waits for the choice before it lets them start: they
// ask for words before it is done. What they multiply is act(gate)·up, and the block that
// is the last of a row's experts in a tile adds their weighted sum to y.
#include "act.cuh"
#include "arrive.cuh"
#include "exl2.cuh"
#include "mma.cuh"

constexpr int most = 8;         // rows of x
constexpr int ring = 9216;      // bytes of shared memory that a warp's units have
constexpr int side_bytes = 256; // of scales and units in front of a unit's words
constexpr int row_padding = 8;  // of a row of x in shared memory, against conflicts
constexpr int few_warps = 2, some_warps = 4, many_warps = 8;

constexpr int head_words = 16;  // of a matrix in a group's table, in front of its regions

// Matrix is what a group's table has of an expert's; its regions are behind it.
struct Matrix {
	const uint4* words;   // [out/32, tile]
	const int* scales;    // [out/32, groups, 4]
	const int* units;     // [groups]
	const half* order;    // [in]: place in x of each stored row, a 16-bit number
	const float* bias;    // [out] or null
	int count, tile, groups, slot;  // slot: bytes of the largest unit
	int64 unused;
};
static_assert(sizeof(Matrix) == 4 * head_words, "the table's layout");

// Table is a group's.
struct Table {
	const int* words;  // [experts, stride]
	int stride;

	__device__ const int* of(int e) const { return words + (int64)e * stride; }
	__device__ void ask(int experts) const {
		constexpr int line = 32;
		for (int i = threadIdx.x * line; i < experts * stride; i += blockDim.x * line) prefetch(words + i);
	}
};

// Choice says whose rows are multiplied.
struct Choice {
	const int* rows;     // [n] or null
	const int* experts;  // [n]
	const int* first;    // [count + 1]
	int count;           // experts
};

// Inputs are the rows that are multiplied: x, or, where there is up, act(x)·up.
struct Inputs {
	const half *x, *up;  // rows ldx and ldu elements apart, x at 16 bytes without up
	int64 ldx, ldu;
	int act;
};

// Sum is where the weighted sums of rows go.
struct Sum {
	float* y;              // [·, out], rows ldy elements apart
	const int* places;     // [·, columns]
	const float* weights;  // [·, columns]
	int* counters;         // [·, tiles], zeros
	int chosen, columns;   // at most 32
	int64 ldy;
	float scale;
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

// Order is where a thread's first columns of x are.
struct Order {
	Eight<half> at[2];

	__device__ void read(const half* order, int in) {
#pragma unroll
		for (int k = 0; k < 2; k++) {
			int i = (threadIdx.x + k * blockDim.x) * 8;
			if (i < in) at[k].words[0] = *(const uint4*)(order + i);
		}
	}
};

// Taken is eight numbers of a row of x, and of up.
template <bool acts>
struct Taken {
	Eight<half> x, up;

	__device__ void read(const Eight<half>& at, const half* from, const half* with) {
#pragma unroll
		for (int j = 0; j < 8; j++) x.v[j] = from[__half_as_ushort(at.v[j])];
		if constexpr (acts) {
#pragma unroll
			for (int j = 0; j < 8; j++) up.v[j] = with[__half_as_ushort(at.v[j])];
		}
	}
	__device__ void apply(int act) {
		if constexpr (acts) {
#pragma unroll
			for (int j = 0; j < 8; j++) narrow(x.v[j], activate(act, widen(x.v[j])) * widen(up.v[j]));
		}
	}
};

// stage puts a row of x in shared memory in stored order.
template <bool acts>
__device__ inline void stage(half* to, const half* order, const Order& first, const Inputs& from, int64 row, int in) {
	const half *x = from.x + row * from.ldx, *up = acts ? from.up + row * from.ldu : nullptr;
	int i = threadIdx.x * 8, step = blockDim.x * 8;
	Taken<acts> now, second;
	if (i < in) now.read(first.at[0], x, up);
	if (i + step < in) second.read(first.at[1], x, up);
#pragma unroll 1
	for (int k = 0; i < in; k++, i += step) {
		if (k == 1) now = second;
		if (k > 1) {
			Eight<half> at;
			at.words[0] = *(const uint4*)(order + i);
			now.read(at, x, up);
		}
		now.apply(from.act);
		*(uint4*)(to + i) = now.x.words[0];
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

// gather adds the weighted sum of what the experts of a row have computed to a row of y,
// for a tile of columns, a lane each; lane k has the place and weight of the kth.
__device__ inline void gather(const Sum& to, const half* x, int row, int place, float weight, int tile, int out, int64 ldx) {
	int at = tile * tile_columns + threadIdx.x % 32, column = min(at, out - 1);
	float sum = 0;
#pragma unroll 8
	for (int k = 0; k < to.columns; k++) {
		float v = __half2float(__ldcg(x + __shfl_sync(~0u, place, k) * ldx + column));
		sum += __shfl_sync(~0u, weight, k) * v;
	}
	if (at < out) to.y[row * to.ldy + at] += to.scale * sum;
}

// unite counts that some rows have been multiplied by an expert, and gathers those that
// all of theirs have.
__device__ inline void unite(const Sum& to, const half* x, const int* order, int rows, int tile, int tiles, int out, int64 ldx) {
	__shared__ bool last[most];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	__syncthreads();
	if (threadIdx.x < rows) last[threadIdx.x] = count(to.counters + order[threadIdx.x] * tiles + tile, to.chosen);
	__syncthreads();
	for (int r = warp; r < rows; r += blockDim.x / 32) {
		if (!last[r]) continue;
		int row = order[r], from = row * to.columns + min(lane, to.columns - 1);
		gather(to, x, row, to.places[from], to.weights[from], tile, out, ldx);
	}
}

template <int warps, bool sums_up>
__device__ void qmatmul_group(
	half* y,                 // [n, out], rows ldy elements apart
	const Inputs& x, const Sum& sum,
	const Table& table, const Choice& choice,
	int tile, int tiles, int together,  // rows at a time
	int in, int out, int64 ldy) {
	extern __shared__ uint4 memory[];
	table.ask(choice.count);
	if (!sums_up) {
		wait_for_previous();
		let_next();
	}
	int i = blockIdx.y, e = choice.experts[i], begin = choice.first[e];
	if ((i - begin) % together) return;
	int rows = min(together, choice.first[e + 1] - i);
	const int* entry = table.of(e);
	Matrix m = *(const Matrix*)entry;
	if (!sums_up && !m.words) return;  // it is dense
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, shift = g % 2 * 16;
	Weights w = {m.words + (int64)tile * m.tile, m.scales + (int64)tile * m.groups * 4 + lane / 8, m.units, (const int4*)(entry + head_words), m.count};
	unsigned char* mine = (unsigned char*)memory + warp * ring;
	half* staged = (half*)((unsigned char*)memory + warps * ring);
	int slots = min(ring / m.slot, 4), stride = in + row_padding;

	Order columns;
	columns.read(m.order, in);
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
	if (sums_up) after_previous();
	for (int r = 0; r < rows; r++)
		stage<sums_up>(staged + r * stride, m.order, columns, x, !sums_up && choice.rows ? choice.rows[i + r] : i + r, in);
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
	if (sums_up) unite(sum, y, choice.rows + i, rows, tile, tiles, out, ldy);
}

#define QMATMUL_GROUP(name, sum_name, warps)                                                        \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                        \
	name(half* y1, half* y2, const half* x, const int* table1, const int* table2, const int* rows,  \
	     const int* experts, const int* first, int count, int words1, int words2, int tiles,        \
	     int together, int in, int out1, int out2, int64 ldy1, int64 ldy2, int64 ldx) {             \
		bool second = blockIdx.x >= tiles;                                                          \
		Choice c = {rows, experts, first, count};                                                   \
		Table t = {second ? table2 : table1, second ? words2 : words1};                             \
		Inputs from = {x, nullptr, ldx, 0, 0};                                                      \
		qmatmul_group<warps, false>(second ? y2 : y1, from, Sum(), t, c,                            \
		                            second ? blockIdx.x - tiles : blockIdx.x, tiles, together, in,  \
		                            second ? out2 : out1, second ? ldy2 : ldy1);                    \
	}                                                                                               \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                        \
	sum_name(float* y, half* each, const half* gate, const half* up, const int* table,              \
	         const int* rows, const int* experts, const int* first, const int* places,              \
	         const float* weights, int* counters, int count, int words, int together, int in,       \
	         int out, int chosen, int columns, int act, int64 ldy, int64 lde, int64 ldg, int64 ldu, \
	         float scale) {                                                                         \
		Choice c = {rows, experts, first, count};                                                   \
		Table t = {table, words};                                                                   \
		Inputs from = {gate, up, ldg, ldu, act};                                                    \
		Sum sum = {y, places, weights, counters, chosen, columns, ldy, scale};                      \
		qmatmul_group<warps, true>(each, from, sum, t, c, blockIdx.x, gridDim.x, together, in, out, lde); \
	}

QMATMUL_GROUP(qmatmul_group_2, qmatmul_group_sum_2, few_warps)
QMATMUL_GROUP(qmatmul_group_4, qmatmul_group_sum_4, some_warps)
QMATMUL_GROUP(qmatmul_group_8, qmatmul_group_sum_8, many_warps)
