// Products with the EXL2 matrices of experts: y[i] = x[rows[i]]·W[e] + bias[e] for the
// expert e of row i. Rows are sorted by expert.
//
// blockIdx.y is a row of y; the block of an expert's first row multiplies up to eight
// rows by tiles of 32 columns, the block of the next row behind those the next ones,
// and so on; the others have nothing to do. So what is launched does not depend on the
// choice of experts, which is in device memory. Where there are many rows blockIdx.y is the
// number of such a set of rows, which a block finds by the experts before. blockIdx.x goes over
// the tiles of one group of matrices, and then of another, if two are multiplied by the same
// rows; a block has one of them, or every so many.
//
// The units of a tile (exl2.cuh) are shared among the warps, each of which asks for
// several at once: tiles of experts are small, and there are many. They are multiplied
// as in packed.cuh. The sums of the warps are added in shared memory, in order.
//
// The table is asked for before the choice is known. Kernels with sum in their names come
// behind one of the others, which waits for the choice before it lets them start: they
// ask for words before it is done. What they multiply is act(gate)·up, and the block that
// is the last of a row's experts in a tile adds their weighted sum to y.
#include "act.cuh"
#include "arrive.cuh"
#include "expert.cuh"
#include "mma.cuh"
#include "packed.cuh"

constexpr int most = 8;         // rows of x
constexpr int ring = 9216;      // bytes of shared memory that a warp's units have
constexpr int few_warps = 2, some_warps = 4, many_warps = 8;

// Choice says whose rows are multiplied.
struct Choice {
	const int* rows;     // [n] or null
	const int* experts;  // [n]
	const int* first;    // [count + 1]
	int count;           // experts
	bool many;           // blockIdx.y is the number of a set
};

// A Set is rows of an expert that a block multiplies, `rows` from `from` on, or none.
struct Set {
	int expert, from, rows;

	__device__ Set(const Choice& c, int together) : expert(0), from(blockIdx.y), rows(0) {
		if (!c.many) {
			expert = c.experts[from];
			if ((from - c.first[expert]) % together == 0) rows = min(together, c.first[expert + 1] - from);
			return;
		}
		int lane = threadIdx.x % 32, left = blockIdx.y;  // of the sets in front
#pragma unroll 1
		for (int e = lane; e - lane < c.count; e += 32) {
			int begin = c.first[min(e, c.count)], sets = (c.first[min(e + 1, c.count)] - begin + together - 1) / together, end = sets;
#pragma unroll
			for (int step = 1; step < 32; step *= 2) {
				int other = __shfl_up_sync(~0u, end, step);
				if (lane >= step) end += other;
			}
			unsigned behind = __ballot_sync(~0u, left < end);
			if (behind) {
				int at = __ffs(behind) - 1;
				expert = e - lane + at, from = begin + (left - (end - sets)) * together;
				from = __shfl_sync(~0u, from, at), rows = min(together, c.first[expert + 1] - from);
				return;
			}
			left -= __shfl_sync(~0u, end, 31);
		}
	}
};

// Run is the tiles of a matrix that a block has: every so many.
struct Run {
	int from, step, end;
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
	const Run& run, int together,  // rows at a time
	int in, int out, int64 ldy) {
	extern __shared__ uint4 memory[];
	if (!choice.many) table.ask(choice.count);
	if (!sums_up) {
		wait_for_previous();
		let_next();
	}
	Set set(choice, together);
	int i = set.from, rows = set.rows;
	if (rows == 0) return;
	const int* entry = table.of(set.expert);
	Matrix m = *(const Matrix*)entry;
	if (!sums_up && !m.words) return;  // it is dense
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, padded = padded_groups(m.groups), slots = min(ring / m.slot, 4);
	unsigned char* mine = (unsigned char*)memory + warp * ring;
	uint4* scales = (uint4*)((unsigned char*)memory + warps * ring);
	u32* units = (u32*)(scales + m.groups);
	half* staged = (half*)(units + padded);

	Order columns;
	columns.read(m.order, in);
	for (int k = threadIdx.x; k < padded; k += blockDim.x) copy4(units + k, m.units + min(k, m.groups - 1), k < m.groups);
#pragma unroll 1
	for (int tile = run.from; tile < run.end; tile += run.step) {
		bool begins = tile == run.from;
		if (!begins) __syncthreads();  // the sums are no longer needed
		Weights w = {m.words + (int64)tile * m.chunks * 32 + lane, (const int4*)(entry + head_words), m.count};
		Cursor<warps> ahead, now;
		ahead.start(w, warp);
		now = ahead;
		for (int k = threadIdx.x; k < m.groups; k += blockDim.x) copy16(scales + k, m.scales + (int64)tile * m.groups + k, true);
		for (int s = 0; s < slots; s++) {
			if (ahead.index < w.count) {
				fetch(mine + s * m.slot, w, ahead);
				ahead.next(w);
			}
			commit();
		}
		if (sums_up && begins) after_previous();
		for (int r = 0; begins && r < rows; r++) {
			half* to = staged + r * stride(in);
			stage<sums_up>(to, m.order, columns, x, !sums_up && choice.rows ? choice.rows[i + r] : i + r, in);
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
		if (sums_up) unite(sum, y, choice.rows + i, rows, tile, run.end, out, ldy);
	}
}

#define QMATMUL_GROUP(name, sum_name, warps)                                                        \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                        \
	name(half* y1, half* y2, const half* x, const int* table1, const int* table2, const int* rows,  \
	     const int* experts, const int* first, int count, int words1, int words2, int many,         \
	     int blocks1, int blocks2, int together, int in, int out1, int out2, int64 ldy1,            \
	     int64 ldy2, int64 ldx) {                                                                   \
		bool second = blockIdx.x >= blocks1;                                                        \
		Choice c = {rows, experts, first, count, many != 0};                                        \
		Run run = {second ? (int)blockIdx.x - blocks1 : (int)blockIdx.x, second ? blocks2 : blocks1, ((second ? out2 : out1) + tile_columns - 1) / tile_columns}; \
		Table t = {second ? table2 : table1, second ? words2 : words1, 0};                           \
		Inputs from = {x, nullptr, ldx, 0, 0};                                                      \
		qmatmul_group<warps, false>(second ? y2 : y1, from, Sum(), t, c, run, together, in,         \
		                            second ? out2 : out1, second ? ldy2 : ldy1);                    \
	}                                                                                               \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                        \
	sum_name(float* y, half* each, const half* gate, const half* up, const int* table,              \
	         const int* rows, const int* experts, const int* first, const int* places,              \
	         const float* weights, int* counters, int count, int words, int many, int together,     \
	         int in, int out, int chosen, int columns, int act, int64 ldy, int64 lde, int64 ldg, int64 ldu, \
	         float scale) {                                                                         \
		Choice c = {rows, experts, first, count, many != 0};                                        \
		Run run = {(int)blockIdx.x, (int)gridDim.x, (out + tile_columns - 1) / tile_columns};       \
		Table t = {table, words, 0};                                                                \
		Inputs from = {gate, up, ldg, ldu, act};                                                    \
		Sum sum = {y, places, weights, counters, chosen, columns, ldy, scale};                      \
		qmatmul_group<warps, true>(each, from, sum, t, c, run, together, in, out, lde);             \
	}

QMATMUL_GROUP(qmatmul_group_2, qmatmul_group_sum_2, few_warps)
QMATMUL_GROUP(qmatmul_group_4, qmatmul_group_sum_4, some_warps)
QMATMUL_GROUP(qmatmul_group_8, qmatmul_group_sum_8, many_warps)
