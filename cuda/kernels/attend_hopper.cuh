// Attention of runs of rows on Hopper: y = softmax(scale·q·Kᵀ)·V by heads, each row
// seeing the positions up to its own, the last `window` of them if window > 0.
//
// A block takes 128 rows of a run and one head, and then others: two warp groups have
// 64 rows each, and a third brings queries, keys and values to shared memory, ahead of
// them. Of heads of more than 256 dimensions it takes 64 rows, whose scores both groups
// compute, as each has room for the sums of half of the columns. A group's products run while it weighs the scores before: those of the next
// keys, and those of the values with the weights before, which stay in registers (Shah
// et al. 2024, FlashAttention-3, algorithm 2). The groups take turns at the tensor
// cores.
//
// Sums are relative to the largest score so far (attend_prefill.cu).
//
// Runs of few rows have several heads that share keys in a block, one after the other. Where there are fewer blocks of
// rows and heads than multiprocessors, the keys of each are divided among blocks, and what these find is joined by attend_join.cu.
//
// H200, 2026-11-22, heads of 128: 2048 rows of 32 heads from the start 73 µs, 468 TFLOP/s;
// behind 8192 others 524 µs, 590 TFLOP/s; behind 2048, with 8 heads of keys, 177 µs, 581.
//
// Where keys and values are is their kernels' business: attend_hopper.cu, attend_latent_hopper.cu.
#pragma once

#include "attend.cuh"
#include "attend_found.cuh"
#include "attend_softmax.cuh"
#include "attend_wgmma.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "ring.cuh"
#include "tile.cuh"

constexpr int groups = 2, group_rows = 64;  // warp groups that compute, and their rows
constexpr int rows_a_block = groups * group_rows, rows_512 = group_rows;
constexpr int group = 128, threads = (groups + 1) * group;
constexpr int stages = 2;
constexpr int map_bytes = 128;
constexpr int alignment = 1024;

static_assert(alignment % 1024 == 0 && rows_512 == group_rows && map_bytes % 64 == 0 && threads > rows_a_block && stages > 1, "as wgmma and copies want it");

// Task is what kernels are given beside where keys and values are.
struct Task {
	half* y;              // [rows, heads·value_dim], rows ldy elements apart
	const half* q;        // [rows, heads·dim], ldq
	const int* pos;       // [rows]
	const int* seq;       // [rows]
	const float* sinks;   // [heads] or null
	int runs, span, heads, kv_heads, dim, value_dim;
	int64 ldy, ldq;
	Scoring how;
	int window;
	int together;  // heads of an item
	Found found;   // where keys are divided, or of one part
};

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// A Part is what a group has: all columns of values of rows of its own, or half of the columns of all rows.
template <int V>
struct Part {
	static constexpr bool shared = V > 256;
	static constexpr int rows = shared ? rows_512 : rows_a_block;  // of a block
	static constexpr int columns = shared ? V / groups : V;

	__device__ static int row(int mine) { return shared ? 0 : mine * group_rows; }
	__device__ static int column(int mine) { return shared ? mine * columns : 0; }
};

constexpr int nowhere = -1 << 20;  // rows there see nothing

// Item is rows of a run, at most so many, from first on, of one head or several that share keys, `filled` of all, and a part of the
// keys; the rows stand at positions from begin on, and the part's that they see are before end. Tiles of keys begin at start.
struct Item : Stack {
	int first, filled, kv, run, part, begin, start, end, seq, tiles;

	// Items are in the order of their length; those of one length share keys and values
	// with the next ones.
	__device__ Item(const Task& t, int index, int most, int keys, int box) {
		int cuts = (t.span + most - 1) / most, sets = t.heads / t.together, each = t.runs * t.found.parts * sets, rest = index % each;
		int cut = cuts - 1 - index / each;
		run = rest / (t.found.parts * sets), part = rest / sets % t.found.parts;
		int run_begin = t.pos[run * t.span];
		head = rest % sets * t.together, kv = head / (t.heads / t.kv_heads);
		first = run * t.span + cut * most, rows = min(most, (run + 1) * t.span - first), filled = rows * t.together;
		begin = run_begin + cut * most, seq = t.seq[run * t.span], end = begin + rows;
		start = t.window > 0 ? max(0, begin - t.window + 1) / box * box : 0;
		tiles = (end - start + keys - 1) / keys;
		if (t.found.parts > 1) take_part(t.found.parts, keys);
	}

	// take_part leaves the part's tiles, of so many parts. One without any has the last tile, of which its rows see nothing.
	__device__ void take_part(int parts, int keys) {
		int each = (tiles + parts - 1) / parts, before = part * each;
		if (before >= tiles) begin = nowhere, before = tiles - 1;
		tiles = min(each, tiles - before);
		start += before * keys, end = min(end, start + tiles * keys);
	}
};

// Order is the items of a block: there and back again over the blocks, so that all
// have about as much to do.
struct Order {
	int round = 0, items;
	__device__ Order(const Task& t, int most) : items(t.runs * t.found.parts * (t.heads / t.together) * ((t.span + most - 1) / most)) {}
	__device__ int item() const { return round * gridDim.x + (round % 2 ? gridDim.x - 1 - blockIdx.x : blockIdx.x); }
	__device__ bool more() const { return item() < items; }
	__device__ bool last() const { Order next = *this; next.round++; return !next.more(); }
};

// Memory is the shared memory of a block: parts of 64 columns follow each other, in
// rows of 128 bytes as operand has them. Queries and keys have up to D columns, values up to V.
template <int D, int V, int keys, int queries>
struct Memory {
	half q[queries][D / 64][Part<V>::rows][64], k[stages][D / 64][keys][64], v[stages][V / 64][keys][64];
	u64 got_q[queries], free_q[queries], got_k[stages], got_v[stages], free_k[stages], free_v[stages];
};

// bring_tiles copies keys, or values: a thread for each, as keys are free half a tile earlier. Cached says where they are:
// columns 64·part and on of a head are in a map's matrix, from a column on, and positions in rows of it, as many as `box`
// follow each other.
template <int D, int V, int keys, int queries, class Cached>
__device__ inline void bring_tiles(Memory<D, V, keys, queries>& m, const Task& t, const Cached& c, bool values) {
	Ring<stages> ring;
	half* tiles = values ? m.v[0][0][0] : m.k[0][0][0];
	u64 *got = values ? m.got_v : m.got_k, *free = values ? m.free_v : m.free_k;
	c.ready(values);
	int box = c.box(keys), parts = c.parts(t, values), stage = (values ? V : D) * keys;
	for (Order o(t, Part<V>::rows); o.more(); o.round++) {
		Item b(t, o.item(), Part<V>::rows, keys, box);
		auto row = c.rows(b);
		for (int i = 0; i < b.tiles; i++, ring.next()) {
			int from = b.start + i * keys, boxes = min(keys / box, (b.end - from + box - 1) / box), at = row(from);
			barrier_wait(&free[ring.at], ring.parity ^ 1);
			barrier_expect(&got[ring.at], boxes * box * parts * 128);
			for (int r = 0; r < boxes * box; r += box, at = row(from + min(r, (boxes - 1) * box)))
				for (int part = 0; part < parts; part++) copy_tile(tiles + ring.at * stage + (part * keys + r) * 64, c.map(part, values), c.column(t, b.kv, part, values), at, &got[ring.at]);
		}
	}
}

// bring_queries copies queries; two warps do.
template <int D, int V, int keys, int queries>
__device__ inline void bring_queries(Memory<D, V, keys, queries>& m, const Task& t, int box) {
	int chunk = threadIdx.x % 8, row = threadIdx.x % 64 / 8;
	for (Order o(t, Part<V>::rows); o.more(); o.round++) {
		Item b(t, o.item(), Part<V>::rows, keys, box);
		barrier_wait(&m.free_q[o.round % queries], o.round / queries % 2 ^ 1);
#pragma unroll 4
		for (int r = row; r < Part<V>::rows; r += 8) {
			const half* from = t.q + (b.first + b.row_of(r)) * t.ldq + b.head_of(r) * t.dim;
#pragma unroll
			for (int part = 0; part < D / 64; part++) {
				int at = part * 64 + chunk * 8;
				bool there = r < b.filled && at < t.dim;
				copy16(&m.q[o.round % queries][part][r][(chunk ^ row) * 8], there ? from + at : t.q, there);
			}
		}
		commit();
		arrived<0>();
		show();
		barrier_arrive(&m.got_q[o.round % queries]);
	}
}

// Turns are those of the groups at the tensor cores, by barriers of hardware.
struct Turns {
	int mine;
	__device__ void take() { asm volatile("bar.sync %0, %1;" ::"r"(1 + mine), "r"(groups * group) : "memory"); }
	__device__ void pass() { asm volatile("bar.arrive %0, %1;" ::"r"(1 + (mine + 1) % groups), "r"(groups * group) : "memory"); }
	// meet waits for the threads of a group.
	__device__ void meet() { asm volatile("bar.sync %0, %1;" ::"r"(1 + groups + mine), "r"(group) : "memory"); }
};

// done lets a warp tell that it needs a tile no more.
__device__ inline void done(u64* b) {
	__syncwarp();
	if (threadIdx.x % 32 == 0) barrier_arrive(b);
}

// forget stores zeros instead of the values from a row on: weights of zero do not
// make up for what stands in memory there.
template <int V, int keys>
__device__ inline void forget(half (&v)[V / 64][keys][64], int row) {
	for (int i = row * 8 + threadIdx.x % group; i < keys * 8; i += group)
#pragma unroll
		for (int part = 0; part < V / 64; part++) ((uint4*)v[part])[i] = make_uint4(0, 0, 0, 0);
	show();
}

// consume computes the rows of a warp group.
template <int D, int V, int keys, int queries>
__device__ inline void consume(Memory<D, V, keys, queries>& m, const Task& t, int box) {
	constexpr int columns = Part<V>::columns;
	int mine = threadIdx.x / group - 1, thread = threadIdx.x % group, lane = thread % 32;
	int rows_from = Part<V>::row(mine), column = Part<V>::column(mine), row = rows_from + thread / 32 * 16 + lane / 4;
	Ring<stages> at;      // the tile of keys
	Ring<stages> before;  // that of values
	Turns turns = {mine};
	if (mine == groups - 1) turns.pass();
	for (Order o(t, Part<V>::rows); o.more(); o.round++) {
		Item b(t, o.item(), Part<V>::rows, keys, box);
		bool last_item = o.last();
		Softmax<columns, keys> softmax;
		float cap = t.how.cap, inner[2];
#pragma unroll
		for (int h = 0; h < 2; h++) {
			softmax.own[h] = b.begin + b.row_of(row + 8 * h);
			float factor = t.how.factor(max(softmax.own[h], 0));
			inner[h] = cap == 0 ? 0 : 2 * log2e * factor / cap;
			softmax.factor[h] = cap == 0 ? fabsf(factor) * log2e : log2e;
		}
		float out[columns / 2] = {}, s[keys / 2];
		unsigned w[keys / 16][4];
		uint64 q = operand(m.q[o.round % queries][0][rows_from]);
		auto multiply_keys = [&] {
			wgmma_begin();
#pragma unroll
			for (int i = 0; i < D / 16; i++) {
				constexpr int q_part = Part<V>::rows * 128 >> 4, k_part = keys * 128 >> 4;
				wgmma_rows(s, q + i / 4 * q_part + i % 4 * 2, operand(m.k[at.at][0][0]) + i / 4 * k_part + i % 4 * 2, i > 0);
			}
			wgmma_end();
		};
		auto multiply_values = [&] {
			wgmma_begin();
#pragma unroll
			for (int i = 0; i < keys / 16; i++) wgmma_registers(out, w[i], value_operand(m.v[before.at][column / 64][0], keys) + i * 128);
			wgmma_end();
		};
		auto weigh = [&](int tile) {
			int from = b.start + tile * keys, first = b.begin + (t.together > 1 ? 0 : rows_from);
			if (cap != 0)
				softmax.cap(s, cap, inner);
			else if (t.how.scale < 0)
				softmax.turn(s);
			if (from + keys > first + 1 || t.window > 0 && from <= first + group_rows - 1 - t.window) softmax.hide(s, from, t.window);
			softmax.weigh(s);
		};
		auto round = [&] {
#pragma unroll
			for (int i = 0; i < keys / 16; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) w[i][j] = pack(s[8 * i + 2 * j], s[8 * i + 2 * j + 1]);
		};
		auto pass = [&](int tile) {  // for every turn
			if (mine < groups - 1 || !last_item || tile + 1 < b.tiles) turns.pass();
		};
		barrier_wait(&m.got_q[o.round % queries], o.round / queries % 2);
		barrier_wait(&m.got_k[at.at], at.parity);
		turns.take();
		multiply_keys();
		pass(0);
		wgmma_wait<0>();
		settled(s);
		done(&m.free_k[at.at]);
		weigh(0);
		round();
		for (int i = 1; i < b.tiles; i++) {
			at.next();
			barrier_wait(&m.got_k[at.at], at.parity);
			turns.take();
			multiply_keys();
			barrier_wait(&m.got_v[before.at], before.parity);
			multiply_values();
			pass(i);
			wgmma_wait<1>();
			settled(s);
			done(&m.free_k[at.at]);
			weigh(i);
			wgmma_wait<0>();
			settled(out);
			done(&m.free_v[before.at]);
			before.next();
			softmax.scale(out);
			round();
		}
		at.next();
		done(&m.free_q[o.round % queries]);
		barrier_wait(&m.got_v[before.at], before.parity);
		int left = b.end - b.start - (b.tiles - 1) * keys;
		if (left < keys) {
			forget<V, keys>(m.v[before.at], left);
			turns.meet();
		}
		multiply_values();
		wgmma_wait<0>();
		settled(out);
		done(&m.free_v[before.at]);
		before.next();
#pragma unroll
		for (int h = 0; h < 2; h++) {
			float sum = quad_sum(softmax.sum[h]), inverse = 1 / sum;
			if (row + 8 * h >= b.filled) continue;
			int of = b.first + b.row_of(row + 8 * h), head = b.head_of(row + 8 * h);
			if (t.found.parts > 1) {
				int64 at = t.found.at(of, head, t.heads, b.part);
				if (column == 0 && lane % 4 == 0) t.found.store(at, softmax.top[h], sum);
#pragma unroll
				for (int j = 0; j < columns / 8; j++) {
					int to = column + 8 * j + lane % 4 * 2;
					if (to < t.value_dim) *(float2*)(t.found.sums + at * t.value_dim + to) = make_float2(out[4 * j + 2 * h], out[4 * j + 2 * h + 1]);
				}
				continue;
			}
			if (t.sinks) {  // one more score, whose value is zero
				float sink = t.sinks[head] * log2e, most = fmaxf(softmax.top[h], sink), shrink = power2(softmax.top[h] - most);
				inverse = shrink / (sum * shrink + power2(sink - most));
			}
			half* y = t.y + of * t.ldy + head * t.value_dim;
#pragma unroll
			for (int j = 0; j < columns / 8; j++) {
				int at = column + 8 * j + lane % 4 * 2;
				if (at < t.value_dim) *(unsigned*)(y + at) = pack(out[4 * j + 2 * h] * inverse, out[4 * j + 2 * h + 1] * inverse);
			}
		}
	}
}

// clear stores zeros where columns of keys would be that heads have not, and nobody brings: queries of zero do not make up for
// what stands there.
template <int D, int V, int keys, int queries>
__device__ inline void clear(Memory<D, V, keys, queries>& m, int dim) {
	for (int part = (dim + 63) / 64; part < D / 64; part++)
		for (int s = 0; s < stages; s++)
			for (int i = threadIdx.x; i < keys * 8; i += threads) ((uint4*)m.k[s][part])[i] = make_uint4(0, 0, 0, 0);
	show();
}

template <int D, int V, int keys, int queries, class Cached>
__device__ void attend(const Task& t, const Cached& c) {
	extern __shared__ uint4 memory[];
	Memory<D, V, keys, queries>& m = *(Memory<D, V, keys, queries>*)(((size_t)memory + alignment - 1) & ~(size_t)(alignment - 1));
	if (D > 128) clear(m, t.dim);  // others have no such columns
	if (threadIdx.x == 0) {
		constexpr int consumers = groups * group / 32;
		for (int i = 0; i < queries; i++) barrier_init(&m.got_q[i], 64), barrier_init(&m.free_q[i], consumers);
		for (int s = 0; s < stages; s++) {
			barrier_init(&m.got_k[s], 1), barrier_init(&m.got_v[s], 1);
			barrier_init(&m.free_k[s], consumers), barrier_init(&m.free_v[s], consumers);
		}
		barriers_ready();
	}
	__syncthreads();
	after_previous();
	int box = c.box(keys);
	if (threadIdx.x < group) {
		asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
		if (threadIdx.x == 0 || threadIdx.x == 32) bring_tiles(m, t, c, threadIdx.x > 0);
		if (threadIdx.x >= 64) bring_queries(m, t, box);
	} else {
		asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
		consume(m, t, box);
	}
}

#endif
