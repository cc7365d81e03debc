// Products with the EXL2 matrices of experts: y[i] = x[rows[i]]·W[e] + bias[e] for the
// expert e of row i. Rows are sorted by expert; some of an expert's, a set, are multiplied together.
//
// All tiles of all sets' matrices are one run, which blocks share evenly, so that what is launched does not depend on the
// choice of experts, which is in device memory. What a block has of one set's matrix is a segment, of which each of the
// warps that multiply has as many units as the others, one after the other. A tile is stored by the warp that begins it: at once, if it ends
// it, too; else behind the segment, when the warps that went on with it have left their sums in shared memory. Four more warps bring the rows
// of the next segment meanwhile; those of the first one all bring.
//
// Kernels with acts in their names multiply units of gate and up, in the same rows as y and in the order of their matrices, as the others leave
// them for such a reader. They come behind one of those, which waits for the choice before it lets them start: they ask for words before it is done.
#include "arrive.cuh"
#include "group_rows.cuh"

constexpr int vector_bytes = 512;  // of a quarter or half of a warp's sums of a tile, that it leaves for another
constexpr int few_warps = 2, some_warps = 6, many_warps = 12;  // that multiply
constexpr int bringers = 4;        // warps
constexpr int early = 1;           // units that are asked for in front of the first rows, which wait behind them
constexpr int most = 8, most_by_digits = 4;  // rows of a set

static_assert(most == ByCodes::most && most_by_digits == ByDigits::most && vector_bytes == 32 * sizeof(float4), "as cuda/group_packed.go has it");

// Named barriers (PTX ISA, "barrier"), of so many threads: rows are there, and no longer needed, of either buffer, and
// heads are there. Barrier 0 is __syncthreads.
constexpr int rows_there = 1, rows_done = 3, heads_there = 5;

__device__ inline void meet(int barrier, int threads) { asm volatile("barrier.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }
__device__ inline void meet_later(int barrier, int threads) { asm volatile("barrier.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// Staged is where the rows of a segment are brought: one buffer of them or two.
struct Staged {
	unsigned char* at;
	int buffers, bytes;  // of a buffer
	__device__ unsigned char* of(int i) const { return at + (i % buffers) * bytes; }
};

// Result is where a tile's sums go.
struct Result {
	half* y;  // rows ld elements apart
	int out;
	int64 ld;
};

// Columns are where a lane's columns of a tile go, and their biases, which are asked for as the tile is begun.
struct Columns {
	int place[4];  // or -1
	float bias[4];

	__device__ void ask(const Segment& s, int tile, int out) {
#pragma unroll
		for (int c = 0; c < 4; c++) {
			int column = (s.tile + tile) * tile_columns + threadIdx.x % 32 / 4 + 8 * c;
			place[c] = -1, bias[c] = 0;
			if (column >= out) continue;
			place[c] = s.stored ? (int)__half_as_ushort(__ldg(s.stored + column)) : column;
			if (s.bias) bias[c] = __ldg(s.bias + column);
		}
	}
};

// A Warp is one that multiplies. What it has of a tile that another one has begun it leaves in heads, of a segment and of the one before.
template <int warps, class Rows>
struct Warp {
	static constexpr int sums = 4 * Rows::vectors;
	Feed<warps>& feed;
	float4* heads;  // [2, warps, vectors, 32]
	const Inputs& from;
	Rows rows;
	Columns columns;
	int tile;  // of which the sums are

	__device__ Warp(Feed<warps>& feed, float4* heads, const Inputs& from) : feed(feed), heads(heads), from(from), rows(from) {}

	__device__ void clear() {
#pragma unroll
		for (int i = 0; i < sums; i++) rows.sum(i) = 0;
	}
	__device__ float4* head(int segment, int warp, int vector) const { return heads + ((segment % 2 * warps + warp) * Rows::vectors + vector) * 32 + threadIdx.x % 32; }
	__device__ void leave(int segment) {
#pragma unroll
		for (int v = 0; v < Rows::vectors; v++) *head(segment, threadIdx.x / 32, v) = make_float4(rows.sum(4 * v), rows.sum(4 * v + 1), rows.sum(4 * v + 2), rows.sum(4 * v + 3));
	}
	__device__ void add(int segment, int warp) {
#pragma unroll
		for (int v = 0; v < Rows::vectors; v++) {
			float4 h = *head(segment, warp, v);
			rows.sum(4 * v) += h.x, rows.sum(4 * v + 1) += h.y, rows.sum(4 * v + 2) += h.z, rows.sum(4 * v + 3) += h.w;
		}
	}
	__device__ void store(const Segment& s, const Result& to) {
#pragma unroll
		for (int i = 0; i < sums; i++) {
			int row = Rows::row(i), c = Rows::column_of(i);
			if (row < s.rows && columns.place[c] >= 0) narrow(to.y[(s.from + row) * to.ld + columns.place[c]], rows.sum(i) * Rows::times + columns.bias[c]);
		}
	}

	// multiply_units multiplies the warp's units of a segment by its rows, and reports whether the sums are of a tile that others end.
	__device__ bool multiply_units(const Segment& s, int k, const Result& to, const unsigned char* staged) {
		Range run = s.run<warps>(threadIdx.x / 32);
		tile = run.from / max(s.each, 1);
		int unit = run.from - tile * s.each;
		bool begun = unit == 0;  // by this warp
		u32 select = threadIdx.x % 32 / 4 % 2 ? spread_high : spread_low;
		clear();
		rows.begin(staged, s, from, unit);
		if (begun && run.size() > 0) columns.ask(s, tile, to.out);
#pragma unroll 1
		for (int u = run.from; u < run.to; u++) {
			u32 what = feed.come();
			const u32* side = feed.side();
			rows.multiply(what, feed.here(), {side, select}, {side});
			feed.leave();
			bool ends = ++unit == s.each;
			if (!ends && u + 1 < run.to) continue;
			if (begun && !ends) return true;
			if (begun) store(s, to);
			else leave(k);
			clear();
			rows.begin(staged, s, from, 0);
			tile++, unit = 0, begun = true;
			if (u + 1 < run.to) columns.ask(s, tile, to.out);
		}
		return false;
	}

	// end adds what other warps have of the tile, and stores it.
	__device__ void end(const Segment& s, int k, const Result& to) {
#pragma unroll 1
		for (int w = threadIdx.x / 32 + 1; w < warps; w++) {
			Range other = s.run<warps>(w);
			if (other.size() == 0) continue;
			add(k, w);
			if (other.to >= (tile + 1) * s.each) break;
		}
		store(s, to);
	}
};

// brought returns how many times rows are brought for some segments.
__device__ inline int brought(const Segment* segments, int count) {
	int n = 0;
#pragma unroll 1
	for (int k = 0; k < count; k++) n += segments[k].brings();
	return n;
}

// share_of returns block i's share of so many: all * i / blocks is where it begins.
__device__ inline Range share_of(u32 all, u32 i, u32 blocks) {
	u32 each = all / blocks, rest = all - each * blocks;
	return {(int)(i * each + i * rest / blocks), (int)((i + 1) * each + (i + 1) * rest / blocks)};
}

template <class Rows, int warps, bool acts>
__device__ void qmatmul_group(const Result& y1, const Result& y2, const Inputs& x, const Pair& pair, const Choice& choice, Ring ring, int together, int buffers, int units) {
	extern __shared__ __align__(128) unsigned char memory[];
	__shared__ Segment segments[most_segments];
	constexpr int threads = (warps + bringers) * 32;
	int warp = threadIdx.x / 32;
	bool multiplies = warp < warps, waited = !acts;
	float4* heads = (float4*)(memory + warps * ring.bytes * ring.count);
	uint4* windows = (uint4*)heads + 2 * warps * Rows::vectors * (vector_bytes / 16);
	Staged staged = {(unsigned char*)(windows + warps * listed), buffers, Rows::bytes(x.in, units, together)};
	Sets sets = {(int*)(staged.at + buffers * staged.bytes), nullptr, choice.count, together};
	sets.firsts = sets.ends + choice.count;
	ring.at = (u32)__cvta_generic_to_shared(memory) + warp * ring.bytes * ring.count;
	for (int i = 0; i < buffers; i++) Rows::prepare(staged.of(i), x.in, together);
	if (!acts) {
		pair.one.ask(choice.count, blockIdx.x, gridDim.x);
		if (pair.others) pair.two.ask(choice.count, blockIdx.x, gridDim.x);
		wait_for_previous();
		let_next();
	}
	if (warp == 0) sets.fill(choice);
	__syncthreads();
	Range range = share_of((u32)sets.all() * pair.all(), blockIdx.x, gridDim.x);
	int first = pair.segment(range.from), last = range.size() > 0 ? pair.segment(range.to - 1) : first - 1;
#pragma unroll 1
	for (int q = first; q <= last; q += most_segments) {
		int count = min(most_segments, last + 1 - q);
		if (threadIdx.x < count) segments[threadIdx.x].fill(q + threadIdx.x, range, sets, pair, threadIdx.x == 0);
		__syncthreads();
		if (!acts && threadIdx.x * 64 < x.in && segments[0].all > 0) prefetch(segments[0].order + threadIdx.x * 64);
		Feed<warps> feed(segments, count, windows + warp * listed, ring);
		if (multiplies) {
			feed.begin();
			for (int i = 0; i < early; i++) feed.ask();
		}
		if (!waited) after_previous(), waited = true;
		int turns = brought(segments, count), turn = 0;
#pragma unroll 1
		for (int k = 0; k < count; k++) {
			const Segment& s = segments[k];
			if (s.brings()) {
				bool all_bring = turn == 0;
				if (turn >= buffers) meet(rows_done + turn % buffers, threads);
				Rows::template bring<acts>(staged.of(turn), s, x, all_bring ? threadIdx.x : threadIdx.x - warps * 32, all_bring ? threads : bringers * 32);
				if (!all_bring) {
					meet_later(rows_there + turn % buffers, threads);
				} else {
					if (multiplies)
						for (int i = early; i < ring.count; i++) feed.ask();
					__syncthreads();
					if (multiplies) break;
				}
				turn++;
			}
		}
		if (multiplies) {
			Warp<warps, Rows> mine(feed, heads, x);
			turn = -1;
#pragma unroll 1
			for (int k = 0; k < count; k++) {
				const Segment& s = segments[k];
				Result to = {s.second() ? y2.y : y1.y, s.second() ? y2.out : y1.out, s.second() ? y2.ld : y1.ld};
				if (s.brings() && ++turn > 0) meet(rows_there + turn % buffers, threads);
				bool left = mine.multiply_units(s, k, to, staged.of(max(turn, 0)));
				if (turn >= 0 && turn + buffers < turns && k + 1 < count && segments[k + 1].brings()) meet_later(rows_done + turn % buffers, threads);
				meet(heads_there, warps * 32);
				if (left) mine.end(s, k, to);
			}
			arrived<0>();
		}
		__syncthreads();
	}
	if (!waited) after_previous();
}

#define QMATMUL_GROUP(name, acts_name, Rows, warps)                                                                                               \
	extern "C" __global__ void __launch_bounds__(32 * warps + 32 * bringers)                                                                      \
	name(half* y1, half* y2, const half* x, const int* table1, const int* table2, const int* reader, const int* rows,                             \
	     const int* first, int count, int words1, int words2, int words3, int places1, int places2, int tiles1, int tiles2, int same,             \
	     int together, int buffers, int units, int in, int out1, int out2, int slots, int slot, int groups, int64 ldy1, int64 ldy2,               \
	     int64 ldx) {                                                                                                                             \
		Pair pair = {{table1, words1, places1}, {table2, words2, places2}, {reader, words3, 0}, tiles1, tiles2, same != 0};                       \
		qmatmul_group<Rows, warps, false>({y1, out1, ldy1}, {y2, out2, ldy2}, {x, nullptr, rows, ldx, 0, {}, in}, pair,                           \
		                                  {first, count}, {0, slot, slots, groups}, together, buffers, units);                                    \
	}                                                                                                                                             \
	extern "C" __global__ void __launch_bounds__(32 * warps + 32 * bringers)                                                                      \
	acts_name(half* y, const half* gate, const half* up, const int* table, const int* first, int count, int words, int places,                    \
	          int tiles, int together, int buffers, int units, int in, int out, int act, int slots, int slot, int groups, int64 ldy,              \
	          int64 ldg, int64 ldu, float limit, float most, float alpha, float added) {                                                          \
		Pair pair = {{table, words, places}, {table, words, places}, {nullptr, 0, 0}, tiles, 0, false};                                           \
		qmatmul_group<Rows, warps, true>({y, out, ldy}, {y, out, ldy}, {gate, up, nullptr, ldg, ldu, {act, limit, most, alpha, added}, in}, pair, \
		                                 {first, count}, {0, slot, slots, groups}, together, buffers, units);                                     \
	}

QMATMUL_GROUP(qmatmul_group_2, qmatmul_group_acts_2, ByCodes, few_warps)
QMATMUL_GROUP(qmatmul_group_6, qmatmul_group_acts_6, ByCodes, some_warps)
QMATMUL_GROUP(qmatmul_group_12, qmatmul_group_acts_12, ByCodes, many_warps)
QMATMUL_GROUP(qmatmul_group_digits_6, qmatmul_group_digits_acts_6, ByDigits, some_warps)
QMATMUL_GROUP(qmatmul_group_digits_12, qmatmul_group_digits_acts_12, ByDigits, many_warps)
