// Products of two to sixteen rows of x with EXL2 matrices, up to four of one x: y = x·W +
// bias, or y += x·W + bias, or y = act(x·W + bias), times x·W' + bias' or x·W + bias or not.
//
// x is in stored order (order_rows.cu). A cluster of blocks has a run of tiles; each of its blocks has a share of the units of
// every tile, so that it needs no more than a share of x, and each warp of a block as many
// of the run's units as the others, one after the other, without regard for where tiles
// end. The sums that warps, and blocks, have of a tile are added at the end, in order.
//
// How units come to shared memory is as in qmatmul.cu.
#include "act.cuh"
#include "cluster.cuh"
#include "order.cuh"
#include "products.cuh"
#include "range.cuh"
#include "rows_unit.cuh"
#include "unit.cuh"

constexpr int most = 16;  // rows of x
constexpr int most_blocks = 8;  // of a cluster

// Product is what a launch does; cuda/rows.go has the same.
struct Product {
	Matrix m[most_matrices];
	const half* x;         // [rows, in], rows ldx elements apart, each at 16 bytes
	const half* to;        // [out]: where in y columns go, or null
	int64 ldx;
	int count, tiles;      // matrices, and tiles of all; of a gate, of one
	int share, rest;       // tiles of a cluster, and how many clusters have one more
	int then, act, in;
	int wide, rows;        // wide: y is float
	int slot;              // bytes
	int round;             // tiles that there are sums of in shared memory
	int units;             // of the matrices, with padding, and of the table behind, in words of 4 bytes
	int groups;            // of a unit, at most
	int blocks;            // of a cluster
	short staged[most_blocks][2];  // of every block of a cluster, the first block of x that it needs, and the one behind the last
};

constexpr int product_bytes = 80 * most_matrices + 80 + 4 * most_blocks;
static_assert(sizeof(Product) == product_bytes, "as cuda/rows.go has it");

__device__ inline int rank_of(const Product& p) { return blockIdx.x % p.blocks; }

// run_of returns a cluster's tiles.
__device__ inline Range run_of(const Product& p) {
	int c = blockIdx.x / p.blocks, from = c * p.share + min(c, p.rest);
	return {from, from + p.share + (c < p.rest)};
}

// units_of returns a block's units of every tile.
__device__ inline Range units_of(const Product& p, const Matrix& m, int rank) { return {m.count * rank / p.blocks, m.count * (rank + 1) / p.blocks}; }

// in returns the tiles of a matrix that are in a round.
__device__ inline Range in(const Matrix& m, Range round) {
	int from = max(round.from - m.base, 0);
	return {from, max(from, min(round.to - m.base, m.tiles))};
}

// A Sequence is what a block has of a round: the units of all tiles, matrix by matrix.
struct Sequence {
	const Product& p;
	Range round;
	int rank, size;

	__device__ Sequence(const Product& p, Range round, int rank) : p(p), round(round), rank(rank), size(0) {
		for (int k = 0; k < p.count; k++) size += in(p.m[k], round).size() * units_of(p, p.m[k], rank).size();
	}

	// first returns the first unit of a warp; only the first warps have some if there are
	// fewer than warps.
	template <int warps>
	__device__ int first(int warp) const { return size < warps ? min(warp, size) : size * warp / warps; }

	// warp_of returns the warp that has unit i.
	template <int warps>
	__device__ int warp_of(int i) const { return size < warps ? i : ((i + 1) * warps - 1) / size; }

	// of_tile returns the units of a tile, counted through all matrices.
	__device__ Range of_tile(int tile) const {
		int before = 0;
		for (int k = 0;; k++) {
			int tiles = in(p.m[k], round).size(), units = units_of(p, p.m[k], rank).size();
			if (tile < tiles) return {before + tile * units, before + (tile + 1) * units};
			before += tiles * units, tile -= tiles;
		}
	}
};

// A Cursor is where a warp is in a sequence.
struct Cursor {
	int left;                 // units
	int matrix, tile, unit;   // of the product, of the matrix, of the tile
	int index;                // of the tile, in the round
	Range tiles, units;       // of the matrix

	__device__ Cursor() : left(0), index(0) {}

	// begin goes to a warp's first unit.
	template <int warps>
	__device__ void begin(const Sequence& s) {
		int w = threadIdx.x / 32, at = s.first<warps>(w);
		left = s.first<warps>(w + 1) - at;
		index = 0;
		if (left == 0) return;
		for (matrix = 0;; matrix++) {
			enter(s);
			int all = tiles.size() * units.size();
			if (at < all) break;
			at -= all, index += tiles.size();
		}
		int t = at / units.size();
		tile = tiles.from + t, unit = units.from + at - t * units.size(), index += t;
	}
	__device__ void enter(const Sequence& s) { tiles = in(s.p.m[matrix], s.round), units = units_of(s.p, s.p.m[matrix], s.rank); }

	// next_tile goes to the first unit of the next tile, of which there must be one.
	__device__ void next_tile(const Sequence& s) {
		index++;
		if (++tile == tiles.to) {
			do matrix++, enter(s);
			while (tiles.size() * units.size() == 0);
			tile = tiles.from;
		}
		unit = units.from;
	}
};

// span_of returns the tiles of a round, in each of two matrices of a gate.
__device__ inline int span_of(const Product& p) { return p.then == gate ? p.round / 2 : p.round; }

// next_round returns the round behind one; it is empty at the end.
__device__ inline Range next_round(const Product& p, Range round) { return {round.to, min(round.to + span_of(p), run_of(p).to)}; }

// own_address returns part of an address of shared memory that all lanes have, so that ptxas 12.9 does not know that. It adds such parts in the
// copying instruction itself, which, where that has a policy of the L2 cache, too, no GPU takes then (kernelfile.Check); of this kernel for Blackwell alone.
__device__ inline u32 own_address(u32 v) {
#if __CUDA_ARCH__ >= 1000
	return __shfl_sync(~0u, v, 0);
#else
	return v;
#endif
}

// A Feed brings the units of a warp to its ring of slots, round after round.
template <int warps, int slots>
struct Feed {
	const Product& p;
	u32 ring, slot;      // where in shared memory the ring and the next slot are, at this lane
	const uint4* words;  // of the tile, at this lane
	const u32* scales;
	uint2 place;         // of the next unit
	Range round;
	Cursor at;
	unsigned long long policy;

	__device__ Feed(const Product& p, u32 ring) : p(p), ring(ring), slot(ring), policy(once()) {
		round.from = round.to = run_of(p).from;
		open();
#pragma unroll 1
		for (int s = 0; s < slots; s++) ask();
	}

	// open goes to the next round in which the warp has units, or to the end.
	__device__ void open() {
		do {
			round = next_round(p, round);
			if (round.size() == 0) {
				at.left = 0;
				return;
			}
			at.begin<warps>(Sequence(p, round, rank_of(p)));
		} while (at.left == 0);
		enter();
	}

	// enter finds the tile and its next unit.
	__device__ void enter() {
		const Matrix& m = p.m[at.matrix];
		int lane = threadIdx.x % 32;
		words = m.words + (int64)at.tile * m.chunks * 32 + lane, scales = (const u32*)m.scales + (int64)at.tile * m.groups * 4 + lane / 8;
		place = __ldg(m.places + at.unit);
	}

	// ask asks for the unit, if there is one, in the slot, and goes to the next of both.
	__device__ void ask() {
		if (at.left > 0) {
			Place u(place);
			int group = group_of(u.packed);
			copy_unit(slot + own_address((1 + p.groups) * lane_bytes) + threadIdx.x % 32 * 12, words + u.chunk * 32, slot + lane_bytes, scales + group * 4, bits_of_unit(u.packed), policy);
			if (!has_one_group(u.packed))
				for (int i = 1; i < unit_blocks >> shift_of(u.packed); i++)
					copy4((u32*)__cvta_shared_to_generic(slot + (1 + i) * lane_bytes), scales + min(group + i, p.m[at.matrix].groups - 1) * 4, true);
			*(u32*)__cvta_shared_to_generic(slot) = u.packed;
			if (--at.left == 0) {
				open();
			} else if (++at.unit < at.units.to) {
				place = __ldg(p.m[at.matrix].places + at.unit);
			} else {
				at.next_tile(Sequence(p, round, rank_of(p)));
				enter();
			}
		}
		commit();
		slot = slot == ring + (slots - 1) * p.slot ? ring : slot + p.slot;
	}
};

// sum_at is where the sum of a row and column of a tile is: lanes that store four rows at
// a time do not collide.
__device__ inline int sum_at(int row, int column) { return row * tile_columns + (column ^ row / 2 % 4 * 8); }

// keep puts a warp's sums of a tile where they are added, and begins new ones.
template <int eights>
__device__ inline void keep(float* part, float (&sums)[eights][2][4]) {
	int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
	for (int n = 0; n < eights; n++)
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				part[sum_at(8 * n + 2 * q + i % 2, g + 16 * t + i / 2 * 8)] = sums[n][t][i];
				sums[n][t][i] = 0;
			}
}

// Parts are sums of tiles, that of a warp and a tile of the round being number warp +
// tile: no two have the same, as a warp has units behind those of the warp before. table
// says of a block and tile of the round: the number of the first part, and in the low eight
// bits how many there are.
template <int warps, int eights>
struct Parts {
	static_assert(8 * eights <= most, "rows that the host may give");
	static constexpr int size = 8 * eights * tile_columns;
	float* at;
	u32* table;  // [blocks, p.round]

	__device__ float* of(int part) const { return at + part * size; }

	// fill fills the table.
	__device__ void fill(const Product& p, Range round, int tiles) const {
		for (int i = threadIdx.x; i < tiles * p.blocks; i += 32 * warps) {
			int rank = i % p.blocks, tile = i / p.blocks;
			Sequence s(p, round, rank);
			Range units = s.of_tile(tile);
			u32 entry = 0;
			if (units.size() > 0) {
				int first = s.warp_of<warps>(units.from), last = s.warp_of<warps>(units.to - 1);
				entry = (first + tile) << 8 | (last - first + 1);
			}
			table[rank * p.round + tile] = entry;
		}
	}

	// join adds the warps' sums of each tile, in the first part.
	__device__ void join(const Product& p, int tiles) const {
		constexpr int vectors = size / 4;
		for (int i = threadIdx.x; i < tiles * vectors; i += 32 * warps) {
			u32 entry = table[rank_of(p) * p.round + i / vectors];
			int count = entry & 255;
			if (count < 2) continue;
			float4* to = (float4*)of(entry >> 8) + i % vectors;
			float4 sum = *to;
			for (int w = 1; w < count; w++) {
				float4 v = to[w * vectors];
				sum.x += v.x, sum.y += v.y, sum.z += v.z, sum.w += v.w;
			}
			*to = sum;
		}
	}

	// total adds the blocks' sums of an element of a tile, in pairs that are loaded together.
	__device__ float total(const Product& p, int tile, int element) const {
		float sum = 0;
		for (int b = 0; b < p.blocks; b += 2) {
			bool two = b + 1 < p.blocks;
			u32 first = table[b * p.round + tile], second = two ? table[(b + 1) * p.round + tile] : 0;
			float x = load(p, first, element, b), y = load(p, second, element, two ? b + 1 : b);
			sum += first ? x : 0;
			sum += second ? y : 0;
		}
		return sum;
	}
	__device__ float load(const Product& p, u32 entry, int element, int block) const {
		const float* from = of(entry >> 8) + element;
#if __CUDA_ARCH__ >= 900
		if (p.blocks > 1) return cluster_load(of_block(from, block));
#endif
		return *from;
	}
};

// together waits for all blocks of a cluster, and shows them what others have stored.
__device__ inline void together(const Product& p) {
#if __CUDA_ARCH__ >= 900
	if (p.blocks > 1) {
		cluster_arrive();
		cluster_wait();
		return;
	}
#endif
	__syncthreads();
}

// Element is one of y: where its sums are, where it goes, and what is added.
struct Element {
	int tile, place, row, column;  // of the round, of the tile; of y
	const Matrix* m;
	int64 at;
	float bias, more;  // what is there before, or the bias of the second matrix of a gate
	bool there;

	__device__ Element(const Product& p, Range round, int i) : there(false) {
		int rank = rank_of(p), each = tile_columns * p.rows, k = 0;
		tile = i / each * p.blocks + rank;
		if (tile >= round.size()) return;
		column = i % tile_columns, row = i / tile_columns % p.rows, place = sum_at(row, column);
		while (k < p.count - 1 && p.then != gate && round.from + tile >= p.m[k + 1].base) k++;
		m = &p.m[k];
		column += (round.from + tile - m->base) * tile_columns;
		there = column < m->out;
		if (!there) return;
		at = row * m->ldy + (p.to ? __half_as_ushort(p.to[column]) : column);
		bias = m->bias ? m->bias[column] : 0;
		more = p.then == add ? __ldcg((const float*)m->y + at) : p.then == gate && p.m[1].bias ? p.m[1].bias[column] : 0;
	}
};

// finish does with a round of tiles what is to be done, every block with some of them;
// the thread's first element is there.
template <int warps, int eights>
__device__ inline void finish(const Product& p, const Parts<warps, eights>& parts, Range round, Element e) {
	for (int i = threadIdx.x; e.tile < round.size();) {
		if (e.there) {
			float sum = parts.total(p, e.tile, e.place) + e.bias;
			if (p.then >= gate) sum = activate(p.act, sum) * (p.then == gate ? parts.total(p, e.tile + round.size(), e.place) + e.more : p.then == self_gate ? sum : 1);
			if (p.then == add) ((float*)e.m->y)[e.at] = e.more + sum;
			else if (p.wide) ((float*)e.m->y)[e.at] = sum;
			else ((half*)e.m->y)[e.at] = __float2half_rn(sum);
		}
		i += 32 * warps;
		e = Element(p, round, i);
	}
}

// stage asks for blocks of x as tensor cores take it, [blocks, rows, 32], zeros for those
// past the end: a unit may go past it.
__device__ inline void stage(uint4* to, const Product& p, Range blocks) {
	constexpr int pieces = block_rows * sizeof(half) / sizeof(uint4);
	int there = p.in / block_rows;
	for (int i = threadIdx.x; i < blocks.size() * p.rows * pieces; i += blockDim.x) {
		int all = i / pieces, block = all / p.rows, row = all - block * p.rows;
		block += blocks.from;
		copy16(to + i, p.x + row * p.ldx + block * block_rows + i % pieces * 8, block < there);
	}
}

// stage_units asks for the units of the matrices' groups, zeros behind those of each.
__device__ inline void stage_units(u32* to, const Product& p) {
	for (int k = 0; k < p.count; k++) {
		const Matrix& m = p.m[k];
		int padded = padded_groups(m.groups);
		for (int i = threadIdx.x; i < padded; i += blockDim.x) copy4(to + i, m.units + min(i, m.groups - 1), i < m.groups);
		to += padded;
	}
}

template <int warps, int slots, int eights>
__device__ inline void qmatmul(const Product& p) {
	extern __shared__ __align__(128) uint4 memory[];
	let_next();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, g = lane / 4, rank = rank_of(p);
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	Parts<warps, eights> parts = {(float*)(base + warps * slots * p.slot), nullptr};
	u32* units = (u32*)parts.of(warps + p.round);
	uint4* staged = (uint4*)(units + p.units);
	parts.table = units + p.units - p.round * p.blocks;

	Feed<warps, slots> feed(p, first_byte + warp * slots * p.slot + lane * 4);
	Exponent e;
	u32 select = g % 2 ? spread_high : spread_low;
	stage_units(units, p);
	Range blocks = {p.staged[rank][0], p.staged[rank][1]}, first = next_round(p, {0, run_of(p).from});
	parts.fill(p, first, p.then == gate ? 2 * first.size() : first.size());
	after_previous();
	stage(staged, p, blocks);
	commit();
	arrived<0>();
	__syncthreads();
	int step = p.rows * 4, own = min(g, p.rows - 1), second = (min(g + 8, p.rows - 1) - own) * 4;
	const uint4* x = staged + own * 4 + lane % 4 - blocks.from * step;
	for (Range round = first; round.size() > 0;) {
		int tiles = p.then == gate ? 2 * round.size() : round.size();
		Sequence sequence(p, round, rank);
		Cursor at;
		at.begin<warps>(sequence);
		float sums[eights][2][4] = {};
		while (at.left > 0) {
			const u32* of = units;
			for (int k = 0; k < at.matrix; k++) of += padded_groups(p.m[k].groups);
			int n = min(at.left, at.units.to - at.unit);
			for (int j = 0; j < n; j++) {
				arrived<slots - 1>();
				const u32* slot = (const u32*)(base + (feed.slot - first_byte));
				u32 u = *slot;
				const uint4* words = (const uint4*)(slot + (1 + p.groups) * lane_words + lane * 3);
				const uint4* mine = x + block_of(u) * step;
				LaneCodes codes = {slot + lane_words, select};
				if (has_one_group(u)) multiply_bits<4>(bits_of_unit(u), sums, words, mine, step, second, codes, of + group_of(u), shift_of(u), e);
				else multiply_bits<1>(bits_of_unit(u), sums, words, mine, step, second, codes, of + group_of(u), shift_of(u), e);
				feed.ask();
			}
			keep<eights>(parts.of(warp + at.index), sums);
			at.left -= n;
			if (at.left > 0) at.next_tile(sequence);
		}
		Element mine(p, round, threadIdx.x);
		__syncthreads();
		parts.join(p, tiles);
		together(p);
		finish(p, parts, round, mine);
		together(p);  // others have read what is here
		round = next_round(p, round);
		if (round.size() > 0) parts.fill(p, round, p.then == gate ? 2 * round.size() : round.size());
	}
	arrived<0>();
}

constexpr int many_warps = 16, few_warps = 8;

// Names are of the warps, and rows.
#define QMATMUL_ROWS(name, warps, slots, eights)                                 \
	extern "C" __global__ void __launch_bounds__(32 * warps, 1)                  \
	name(const __grid_constant__ Product product) {                              \
		qmatmul<warps, slots, eights>(product);                                  \
	}

QMATMUL_ROWS(qmatmul_rows_many_8, many_warps, 2, 1)
QMATMUL_ROWS(qmatmul_rows_many_16, many_warps, 2, 2)
QMATMUL_ROWS(qmatmul_rows_few_8, few_warps, 1, 1)
QMATMUL_ROWS(qmatmul_rows_few_16, few_warps, 1, 2)
