// Products of several rows of x, up to sixteen, with EXL2 matrices, up to three of one x: y = x·W + bias, or
// y += x·W + bias, or y = act(x·W + bias)·(x·W' + bias').
//
// x is in stored order, or a stream that was left so (link.cuh). A cluster of blocks has a run of tiles, or of
// a gate's pairs; each of its blocks has a share of the units of every tile, so that it needs no more than a
// share of x, and each warp of a block as many of the run's units as the others, one after the other. A warp
// that leaves a tile sends what it has of it, registers as they are, to the block that finishes the
// tile, which finds all parts in its own memory, and knows by the bytes that have arrived when they are there.
// GPUs without clusters have qmatmul_rows.cu.
#include "act.cuh"
#include "barrier.cuh"
#include "cluster.cuh"
#include "link.cuh"
#include "order.cuh"
#include "products.cuh"
#include "rows_codes.cuh"
#include "rows_unit.cuh"
#include "unit.cuh"

constexpr int most = 16;  // rows of x
constexpr int most_blocks = 4;  // of a cluster
constexpr int warps = 16, slots = 2, threads = 32 * warps;
constexpr int early = 1;  // units of a warp that are asked for in front of x, which waits behind them

static_assert(most <= warps && 0 < early && early <= slots, "a warp has a row of x");
static_assert(slots == 2, "as Feed::both has it");

// Product is what a launch does; cuda/batch.go has the same. An item is a tile, or a pair of a gate.
struct Product {
	Matrix m[most_matrices];
	const half* x;         // [rows, in], rows ldx elements apart, each at 16 bytes
	const half* to;        // [out]: where in y columns go, or null
	int64 ldx;
	int count, then, act, in;
	int wide, rows;        // wide: y is float
	int share, rest;       // items of a cluster, and how many clusters have one more
	int blocks, slot;      // of a cluster; bytes
	int round, owned;      // items at a time, and how many of them a block finishes
	int parts;             // of a tile, that a block has at most
	int units, groups;     // of the matrices, with padding, in words of 4 bytes; of a unit, at most
	int counts;            // bytes of the table of parts
	short split[most_matrices][most_blocks + 2];  // where in a tile of a matrix units of each block begin, and of the last end
	short staged[most_blocks][2];  // of every block of a cluster, the first block of x that it needs, and the one behind the last
	int each;              // units of a round that a warp has, the last ones fewer
	float per_block, per_each;  // 1 / blocks, 1 / each
	Link link;
};

constexpr int product_bytes = 80 * most_matrices + 88 + 12 * most_matrices + 4 * most_blocks + 12 + 64;
static_assert(sizeof(Product) == product_bytes, "as cuda/batch.go has it");

// Range is some of something, from one to another.
struct Range {
	int from, to;
	__device__ int size() const { return to - from; }
};

// quotient returns n / by, of numbers below 2^20.
__device__ inline int quotient(int n, int by) { return (int)__fdividef(n + 0.5f, by); }

// divided is quotient, given 1 / by.
__device__ inline int divided(int n, float per) { return (int)((n + 0.5f) * per); }

#if __CUDA_ARCH__ >= 900

// number_of_cluster is a cluster's number, where all are in a row.
__device__ inline int number_of_cluster() {
	int n;
	asm("mov.u32 %0, %%clusterid.x;" : "=r"(n));
	return n;
}

// run_of returns a cluster's items.
__device__ inline Range run_of(const Product& p) {
	int c = number_of_cluster(), from = c * p.share + min(c, p.rest);
	return {from, from + p.share + (c < p.rest)};
}

// next_round returns the round behind one; it is empty at the end.
__device__ inline Range next_round(const Product& p, Range round) { return {round.to, min(round.to + p.round, run_of(p).to)}; }

// units_of returns a block's units of every tile of matrix k.
__device__ inline Range units_of(const Product& p, int k, int rank) { return {p.split[k][rank], p.split[k][rank + 1]}; }

// in returns the tiles of a matrix that are in a round.
__device__ inline Range in(const Matrix& m, Range round) {
	int from = max(round.from - m.base, 0);
	return {from, max(from, min(round.to - m.base, m.tiles))};
}

// units_of_warp returns how many units of a block's round a warp has.
__device__ inline int units_of_warp(const Product& p, Range round, int rank) {
	int size = 0;
#pragma unroll 1
	for (int k = 0; k < p.count; k++) size += in(p.m[k], round).size() * units_of(p, k, rank).size();
	return max(min(size - (int)(threadIdx.x / 32) * p.each, p.each), 0);
}

// shared returns what is at an address of shared memory.
template <class T>
__device__ inline const T* shared(u32 at) { return (const T*)__cvta_shared_to_generic(at); }

// kept returns v, which is to stay in a register, where the compiler would work it out for every unit again.
__device__ inline u32 kept(u32 v) {
	asm volatile("" : "+r"(v));
	return v;
}

// What a warp does behind a unit, in bits: whether it was its last one of a tile; then to which block
// it sends its part, and as which; and where the unit of its first group is.
constexpr int leaves_bit = 31, owner_bit = 28, part_bit = 14;

__device__ inline u32 row_of(u32 packed) { return packed >> 1 & 0x1fff << 6; }  // in bytes: block_of times 64

// A Feed brings the units of a warp to its ring of slots, round after round.
struct Feed {
	const Product& p;
	u32 side;               // how far in front of its words the lane's scales are
	u32 slot, both;         // where in shared memory its words of the next unit are, and the sum of that of both slots
	const uint4* words;     // of the tile, at this lane
	const u32* scales;
	uint2 place;            // of the next unit
	u32 packed[slots], then[slots];  // of the units on their way
	u32 tile_then;
	Range round;
	int left;               // units in the round
	int k, tile, begin, unit, end;  // of the product; of the matrix, and where in the block's share it begins; of the tile
	unsigned long long policy;

	// ring is where the warp's slots are.
	__device__ Feed(const Product& p, u32 ring) : p(p), left(0), policy(once()) {
		int lane = threadIdx.x % 32;
		side = kept(p.groups * lane_bytes + lane * 12), slot = ring + p.groups * lane_bytes + lane * 16, both = kept(2 * slot + p.slot);
		round.from = round.to = run_of(p).from;
	}

	// open goes to the next round in which the warp has units, and to the first of them; there may be none.
	__device__ bool open(int rank) {
		int warp = threadIdx.x / 32;
#pragma unroll 1
		do {
			round = next_round(p, round);
			if (round.size() == 0) return false;
			left = units_of_warp(p, round, rank);
		} while (left == 0);
		int at = warp * p.each, n;
#pragma unroll 1
		for (k = 0, begin = 0;; k++) {
			n = units_of(p, k, rank).size();
			int all = in(p.m[k], round).size() * n;
			if (at < begin + all) break;
			begin += all;
		}
		int t = quotient(at - begin, n);
		begin += t * n, tile = in(p.m[k], round).from + t, unit = at - begin;
		return true;
	}

	// next goes to the next unit, if there is one, whose place it asks for.
	__device__ void next() {
		if (left > 0 && unit < end) {
			place = __ldg(p.m[k].places + unit);
			return;
		}
		int rank = rank_in_cluster();
		if (left > 0) {
			begin += units_of(p, k, rank).size(), unit = 0;
			if (++tile == in(p.m[k], round).to) {
#pragma unroll 1
				do k++;
				while (in(p.m[k], round).size() * units_of(p, k, rank).size() == 0);
				tile = in(p.m[k], round).from;
			}
		} else if (!open(rank)) {
			return;
		}
		const Matrix& m = p.m[k];
		int lane = threadIdx.x % 32;
		Range units = units_of(p, k, rank);
		unit += units.from, end = units.to;
		place = __ldg(m.places + unit);
		words = m.words + (int64)tile * m.chunks * 32 + lane, scales = (const u32*)m.scales + (int64)tile * m.groups * 4 + lane / 8;
		int item = tile + m.base - round.from, local = divided(item, p.per_block), owner = item - local * p.blocks, of = 0;
		if (p.then == gate) local += k * p.owned;
#pragma unroll 1
		for (int i = 0; i < k; i++) of += padded_groups(p.m[i].groups);
		int part = (local * p.blocks + rank) * p.parts + threadIdx.x / 32 - divided(begin, p.per_each);
		tile_then = owner << owner_bit | part << part_bit | of;
	}

	// ask asks for the unit, if there is one, in the slot, and goes to the next of both; the first time
	// there is nothing to ask for.
	__device__ void ask(bool begun = true) {
		if (begun) {
#pragma unroll
			for (int s = 0; s < slots - 1; s++) packed[s] = packed[s + 1], then[s] = then[s + 1];
			if (left > 0) {
				Place u(place);
				int group = group_of(u.packed);
				copy_unit(slot, words + u.chunk * 32, slot - side, scales + group * 4, bits_of_unit(u.packed), policy);
				if (!has_one_group(u.packed))
#pragma unroll 1
					for (int i = 1; i < unit_blocks >> shift_of(u.packed); i++)
						copy4((u32*)__cvta_shared_to_generic(slot - side + i * lane_bytes), scales + min(group + i, p.m[k].groups - 1) * 4, true);
				left--, unit++;
				packed[slots - 1] = u.packed, then[slots - 1] = tile_then + group | (left == 0 || unit == end ? 1u << leaves_bit : 0);
			}
			commit();
			slot = both - slot;
		}
		next();
	}
};

// Parts are what blocks have of tiles that this one finishes: of tile `local`, those of a block behind each
// other, as many as counts says.
template <int eights>
struct Parts {
	static constexpr int vectors = eights * 2 * 32;  // of a part: lanes' sums, 16 bytes each
	float4* at;
	unsigned char* counts;
	u64* arrival;  // of all parts of a round

	// fill counts, and says how much is to arrive.
	__device__ void fill(const Product& p, Range round) const {
		int all = 0;
		int tiles = p.then == gate ? 2 * p.owned : p.owned, rank = rank_in_cluster();
#pragma unroll 1
		for (int i = threads - 1 - threadIdx.x; i < tiles * p.blocks; i += threads) {  // the last warp: the first one waits for the cluster
			int local = divided(i, p.per_block), b = i - local * p.blocks, k = 0, begin = 0, n = 0;
			bool second = local >= p.owned;
			int item = (second ? local - p.owned : local) * p.blocks + rank + round.from;
			if (item < round.to) {
				if (p.then == gate) {
					k = second;
					if (second) begin = round.size() * units_of(p, 0, b).size();
				} else {
#pragma unroll 1
					for (; k < p.count - 1 && item >= p.m[k + 1].base; k++) begin += in(p.m[k], round).size() * units_of(p, k, b).size();
				}
				n = units_of(p, k, b).size();
				begin += (item - p.m[k].base - in(p.m[k], round).from) * n;
			}
			n = n > 0 ? divided(begin + n - 1, p.per_each) - divided(begin, p.per_each) + 1 : 0;
			counts[i] = n, all += n;
		}
		if (all > 0) asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(arrival)), "r"(all * vectors * (int)sizeof(float4)) : "memory");
	}

	// send sends a warp's sums, and begins new ones.
	__device__ void send(float (&sums)[eights][2][4], int part, int owner) const {
		u32 there = of_block(at + part * vectors + threadIdx.x % 32, owner), barrier = of_block(arrival, owner);
#pragma unroll
		for (int n = 0; n < eights; n++)
#pragma unroll
			for (int t = 0; t < 2; t++) {
				float(&s)[4] = sums[n][t];
				asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(there + (2 * n + t) * 32 * (int)sizeof(float4)), "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3]), "r"(barrier) : "memory");
				s[0] = s[1] = s[2] = s[3] = 0;
			}
	}

	// counted returns how many parts of a tile each block has, in a byte.
	__device__ u32 counted(const Product& p, int local) const {
		u32 n = 0;
#pragma unroll
		for (int b = 0; b < most_blocks; b++)
			if (b < p.blocks) n |= counts[local * p.blocks + b] << 8 * b;
		return n;
	}

	// total adds the parts of a tile, vectors of two, those of two blocks at a time.
	__device__ float2 total(const Product& p, int local, int vector, u32 counted) const {
		constexpr int together = 4;  // of a block, that are loaded
		const float2* from = (const float2*)(at + local * p.blocks * p.parts * vectors) + vector;
		int next = p.parts * 2 * vectors;
		float2 sum = make_float2(0, 0);
#pragma unroll 1
		for (; counted; counted >>= 16, from += 2 * next) {
			int n = counted & 255, m = counted >> 8 & 255;
			const float2* at = from;
#pragma unroll 1
			for (int w = 0; w < max(n, m); w += together, at += together * 2 * vectors) {
				float2 v[together], u[together];
#pragma unroll
				for (int j = 0; j < together; j++) {
					v[j] = w + j < n ? at[j * 2 * vectors] : make_float2(0, 0);
					u[j] = w + j < m ? at[next + j * 2 * vectors] : make_float2(0, 0);
				}
#pragma unroll
				for (int j = 0; j < together; j++) sum.x += v[j].x + u[j].x, sum.y += v[j].y + u[j].y;
			}
		}
		return sum;
	}
};

// opened is activate, once in the code.
__device__ __noinline__ float opened(int act, float x) { return activate(act, x); }

// Results are two of y: of row and the one behind it, of one column.
template <int eights>
struct Results {
	static constexpr int of_tile = Parts<eights>::vectors * 2;
	int local, vector, part, item, row, column, to, k;
	u32 counted, gated;
	float bias, other, y[2];
	float weight, power[2];
	int left;

	__device__ bool there(const Product& p, int r) const { return row + r < p.rows && column < p.m[k].out; }

	// Two lanes have what was one's of the products: of its columns, one each.
	__device__ Results(const Product& p, const Parts<eights>& parts, Range round, int i) {
		local = i / of_tile, item = round.from + local * p.blocks + rank_in_cluster();
		int lane = i % 32, eight = i % of_tile / 32, quad = eight / 2, pair = eight % 2 * 2 + lane % 2, second = lane / 2 % 2;
		vector = 2 * (quad * 32 + lane / 4 * 4 + pair) + second;
		part = item * 2 + quad % 2, row = quad / 2 * 8 + pair * 2, k = 0;
		if (item >= round.to) return;
		counted = parts.counted(p, local), gated = p.then == gate ? parts.counted(p, p.owned + local) : 0;
#pragma unroll 1
		while (k < p.count - 1 && p.then != gate && item >= p.m[k + 1].base) k++;
		const Matrix& m = p.m[k];
		column = (item - m.base) * tile_columns + quad % 2 * 16 + lane / 4 + second * 8;
		bool in_row = column < m.out, links = p.link.left && in_row;
		to = p.to && in_row ? __half_as_ushort(p.to[column]) : column;
		bias = m.bias && in_row ? m.bias[column] : 0;
		other = p.then == gate && p.m[1].bias && in_row ? p.m[1].bias[column] : 0;
		left = links ? __half_as_ushort(p.link.places[column]) : 0, weight = links ? p.link.scale[column] + p.link.offset : 0;
#pragma unroll
		for (int r = 0; r < 2; r++) {
			y[r] = p.then == add && there(p, r) ? read_square((const float*)m.y + (row + r) * m.ldy + to) : 0;
			power[r] = p.link.left && p.link.powers && row + r < p.rows ? read_square(p.link.powers + row + r) : 1;
		}
	}

	__device__ void store(const Product& p, const Parts<eights>& parts, const float* factors) const {
		float2 all = parts.total(p, local, vector, counted), second = make_float2(0, 0);
		if (p.then == gate) second = parts.total(p, p.owned + local, vector, gated);
		const float *sums = &all.x, *others = &second.x;
		const Matrix& m = p.m[k];
		float squares[2] = {};
#pragma unroll
		for (int r = 0; r < 2; r++) {
			if (!there(p, r)) continue;
			float factor = factors[row + r], v = sums[r] * factor + bias;
			int64 at = (row + r) * m.ldy + to;
			if (p.then == gate) v = opened(p.act, v) * (others[r] * factor + other);
			if (p.then == add) ((float*)m.y)[at] = v += y[r];
			else if (p.wide) ((float*)m.y)[at] = v;
			else ((half*)m.y)[at] = __float2half_rn(v);
			if (p.link.left) {
				squares[r] = v * v;
				p.link.left[(int64)(row + r) * p.link.cols + left] = __float2half_rn(fminf(fmaxf(v * weight * power[r], -65504), 65504));
			}
		}
		if (p.link.left) leave(p, squares);
	}

	// leave adds up the squares of half a tile, and leaves them.
	__device__ void leave(const Product& p, float (&squares)[2]) const {
		int lane = threadIdx.x % 32;
#pragma unroll
		for (int r = 0; r < 2; r++) {
#pragma unroll
			for (int step = 2; step < 32; step *= 2) squares[r] += __shfl_xor_sync(~0u, squares[r], step);
			if (lane >= 2 || row + r >= p.rows) continue;
			float* to = p.link.left_squares + (row + r) * squares_stride;
			to[1 + part] = squares[r];
			if (part == 0) to[0] = power[r];
		}
	}
};

// A row of x in shared memory begins 64 bytes behind a multiple of 128 from the one before, so that lanes that read
// eight rows at a time do not collide.
__device__ inline int stride_of(Range blocks) { return (blocks.size() | 1) * 4; }  // of 16 bytes

// clear puts zeros behind the end of x, past which a unit may go.
__device__ inline void clear(uint4* to, const Product& p, Range blocks) {
	int behind = max(blocks.to - p.in / block_rows, 0) * 4, from = blocks.size() * 4 - behind;
#pragma unroll 1
	for (int i = threadIdx.x; i < behind * p.rows; i += threads) {
		int row = quotient(i, behind);
		to[row * stride_of(blocks) + from + i - row * behind] = make_uint4(0, 0, 0, 0);
	}
}

// fresh reads what the kernel in front has written, behind the wait for it.
__device__ inline uint4 fresh(const uint4* p) {
	uint4 v;
	asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
	return v;
}

// A Stage brings a block's part of x. A warp has a row, or a part of one.
struct Stage {
	const uint4* x;
	uint4* to;
	int first, there, step;

	__device__ Stage(uint4* staged, const Product& p, Range blocks) {
		int of_row = warps / p.rows, warp = threadIdx.x / 32, part = quotient(warp, p.rows), row = warp - part * p.rows;
		x = (const uint4*)(p.x + row * p.ldx + blocks.from * block_rows), to = staged + row * stride_of(blocks);
		there = part < of_row ? (min(blocks.to, p.in / block_rows) - blocks.from) * 4 : 0;
		first = part * 32 + threadIdx.x % 32, step = 32 * of_row;
	}

	// keep has all of it in registers.
	__device__ void keep() { asm volatile("" : "+l"(x), "+l"(to), "+r"(first), "+r"(there), "+r"(step)); }

	// bring has pairs of rows 2 and 3 and of rows 4 and 5 of every eight take turns if they are to be multiplied by codes.
	template <bool turned>
	__device__ void bring() const {
		constexpr int together = 8;
#pragma unroll 1
		for (int i = first; i < there; i += step * together) {
			uint4 v[together];
#pragma unroll
			for (int j = 0; j < together; j++)
				if (int at = i + j * step; at < there) v[j] = fresh(x + at);
#pragma unroll
			for (int j = 0; j < together; j++)
				if (int at = i + j * step; at < there) to[at] = turned ? make_uint4(v[j].x, v[j].z, v[j].y, v[j].w) : v[j];
		}
	}
};

// unit_of returns element i of the table of the matrices' units, with zeros behind those of each.
__device__ inline u32 unit_of(const Product& p, int i) {
#pragma unroll 1
	for (int k = 0; k < p.count; k++) {
		int groups = p.m[k].groups;
		if (i < groups) return __ldg(p.m[k].units + i);
		i -= padded_groups(groups);
		if (i < 0) break;
	}
	return 0;
}

// Squares are a lane's squares of a warp's row, which are asked for as they are made.
struct Squares {
	static constexpr int together = 8;
	float left, v[together];

	__device__ Squares() {}
	__device__ Squares(const Link& l, int row) {
		left = read_square(l.squares + row * squares_stride);
		ask(l, row, threadIdx.x % 32);
	}

	__device__ void ask(const Link& l, int row, int first) {
		const float* squares = l.squares + row * squares_stride + 1;
#pragma unroll
		for (int j = 0; j < together; j++) v[j] = first + 32 * j < l.parts ? read_square(squares + first + 32 * j) : 0;
	}

	// factor returns what sums of the row are to be multiplied by.
	__device__ float factor(const Link& l, int row) {
		float sum = 0;
#pragma unroll 1
		for (int first = threadIdx.x % 32;;) {
#pragma unroll
			for (int j = 0; j < together; j++) sum += v[j];
			if ((first += 32 * together) >= l.parts) break;
			ask(l, row, first);
		}
		float square = __fdividef(warp_sum(sum), l.cols) + l.eps;
		if (blockIdx.x == 0 && threadIdx.x % 32 == 0) l.powers[row] = power(square);
		return rsqrtf(square) / left;
	}
};

// arrive_early is cluster_arrive where nothing that was written before is read by other blocks but barriers that are ready.
__device__ inline void arrive_early() { asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory"); }

template <int eights>
__device__ inline void qmatmul(const Product& p) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float factors[most];  // of the norm that x is without
	__shared__ u64 parts_there;
	constexpr bool as_codes = eights == 1;
	let_next();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, rank = rank_in_cluster();
	unsigned char* base = (unsigned char*)memory;
	int tiles = p.then == gate ? 2 * p.owned : p.owned;
	Parts<eights> parts = {(float4*)(base + warps * slots * p.slot), nullptr, &parts_there};
	u32* units = (u32*)(parts.at + tiles * p.blocks * p.parts * parts.vectors);
	parts.counts = (unsigned char*)(units + p.units);
	uint4* staged = (uint4*)(parts.counts + p.counts);

	if (threadIdx.x == 0) {
		barrier_init(&parts_there, warps);
		barriers_ready();
	}
	Feed feed(p, (u32)__cvta_generic_to_shared(memory) + warp * slots * p.slot);
	Exponent e;
	u32 select = g % 2 ? spread_high : spread_low, unit_kept = 0;
	Range blocks = {p.staged[rank][0], p.staged[rank][1]}, round = next_round(p, {0, run_of(p).from});
#pragma unroll 1
	for (int s = 0; s <= early; s++) {
		if (s == early) {  // while the place of a unit is on its way
			if (threadIdx.x < p.units) unit_kept = unit_of(p, threadIdx.x);
			__syncthreads();
			parts.fill(p, round);
			clear(staged, p, blocks);
		}
		feed.ask(s > 0);
	}
	// What loops below need is worked out in front of the wait.
	int stride = stride_of(blocks), own = min(g, p.rows - 1), second = kept((min(g + 8, p.rows - 1) - own) * stride);
	u32 x = kept((u32)__cvta_generic_to_shared(staged + own * stride + lane % 4 - blocks.from * 4)), of = kept((u32)__cvta_generic_to_shared(units));
	int count = kept(units_of_warp(p, round, rank));
	Stage stage(staged, p, blocks);
	stage.keep();
	arrive_early();
	bool met = warp == 0;  // the others: behind the barrier below
	if (met) cluster_wait();
	after_previous();
	bool linked = p.link.squares && warp < p.rows;
	Squares squares;
	if (linked) squares = Squares(p.link, warp);
	stage.template bring<as_codes>();
	if (threadIdx.x < p.units) units[threadIdx.x] = unit_kept;
#pragma unroll 1
	for (int i = threadIdx.x + threads; i < p.units; i += threads) units[i] = unit_of(p, i);
#pragma unroll 1
	for (int s = early; s < slots; s++) feed.ask();
	float norm = linked ? squares.factor(p.link, warp) : 1;
	if (lane == 0 && warp < p.rows) factors[warp] = as_codes ? norm * (1 << codes_down) : norm;
	if (lane == 0) barrier_arrive(&parts_there);
	__syncthreads();
	for (int parity = 0;; parity ^= 1) {
		float sums[eights][2][4] = {};
		for (int n = count; n > 0; n--) {
			arrived<slots - 1>();
			u32 u = feed.packed[0], then = feed.then[0];
			const uint4 *words = shared<uint4>(feed.slot), *mine = shared<uint4>(x + row_of(u));
			const u32* unit = shared<u32>(of + (then & (1 << part_bit) - 1) * 4);
			LaneCodes codes = {shared<u32>(feed.slot - feed.side), select};
			if constexpr (as_codes) {
				if (has_one_group(u)) multiply_codes_bits<true>(bits_of_unit(u), sums[0], words, mine, 4, codes, unit, shift_of(u), e);
				else multiply_codes_bits<false>(bits_of_unit(u), sums[0], words, mine, 4, codes, unit, shift_of(u), e);
			} else {
				if (has_one_group(u)) multiply_bits<true>(bits_of_unit(u), sums, words, mine, 4, second, codes, unit, shift_of(u), e);
				else multiply_bits<false>(bits_of_unit(u), sums, words, mine, 4, second, codes, unit, shift_of(u), e);
			}
			if (then >> leaves_bit)
				parts.send(sums, then >> part_bit & (1 << (owner_bit - part_bit)) - 1, then >> owner_bit & 7);
			feed.ask();
		}
		bool all = false;
#pragma unroll 1
		for (int i = threadIdx.x;; i += threads) {
			Results<eights> mine(p, parts, round, i);
			if (!all) barrier_wait(&parts_there, parity), all = true;
			if (mine.item >= round.to) break;
			mine.store(p, parts, factors);
		}
		round = next_round(p, round);
		if (round.size() == 0) break;
		if (!met) cluster_wait(), met = true;
		__syncthreads();
		parts.fill(p, round);
		cluster_arrive();
		cluster_wait();
		if (lane == 0) barrier_arrive(&parts_there);
		count = units_of_warp(p, round, rank);
	}
	arrived<0>();
}

#else

template <int eights>
__device__ inline void qmatmul(const Product&) {}

#endif

// Names are of the rows.
#define QMATMUL_BATCH(name, eights)                                              \
	extern "C" __global__ void __launch_bounds__(threads, 1)                     \
	name(const __grid_constant__ Product product) {                              \
		qmatmul<eights>(product);                                                \
	}

QMATMUL_BATCH(qmatmul_batch_8, 1)
QMATMUL_BATCH(qmatmul_batch_16, 2)
