// Dense products on Hopper: y = x·wᵀ + bias for x [m, k] and w [n, k], fp16, fp32
// sums; or those are added to y; or of two matrices w, w', y = act(x·wᵀ)·(x·w'ᵀ); or
// of three, the queries and keys of heads turn (turns.cu), and keys and values go to
// their pages.
//
// Two blocks of a cluster compute tiles of y that stand one above the other, each 128
// rows, with the same columns; then other tiles. Two warp groups of a block multiply 64
// rows each. One thread of a third has tiles of x and w, 64 of k at a time, copied to
// shared memory several steps ahead (tile.cuh): its own rows of x, and half of the
// columns' rows of w, which both blocks get. A stage is filled again when the warps of
// both blocks have read it.
//
// The third group's other warps decode weights that products to come will multiply
// (unpack.cuh): that takes none of the tensor cores' time. So do the warps of blocks that have
// a tile less than others.
//
// Where tiles of the last round are so few that each can be two clusters', they are halves.
#include "act.cuh"
#include "cluster.cuh"
#include "half.cuh"
#include "order.cuh"
#include "quad.cuh"
#include "ring.cuh"
#include "tile.cuh"
#include "unpack.cuh"
#include "wgmma_packed.cuh"

constexpr int bm = 128;              // rows of a tile
constexpr int wide = 256, slim = 128;  // columns of tiles
constexpr int depth = 64;            // of k, a step
constexpr int group = 128, threads = 3 * group;
constexpr int warps = 8;             // that multiply
constexpr int few_registers = 120, many_registers = 192, all_registers = 65536 / (3 * 128) / 8 * 8;
constexpr int cluster_blocks = 2;
constexpr int band = 8;              // tiles of clusters, one above the other, that follow each other
constexpr int asked = 4;             // turns of a thread that are on their way
constexpr int most_matrices = 3, most_unpackings = 4;
constexpr int line = 32;             // floats of a line of memory
constexpr int stage_bytes = 192 * 1024;
constexpr int shared_bytes = 1024 + stage_bytes + warps * 16 * line * 4;

static_assert(few_registers + 2 * many_registers <= 3 * all_registers, "or groups wait for registers for ever");
static_assert(band > 0 && asked > 0 && wide == 2 * slim && depth * sizeof(half) == 128 && threads == 32 * (warps + 4) && warps * 16 == bm && cluster_blocks == 2 && shared_bytes < 227 * 1024, "as wgmma and copies want it");

// What is done with products: device.Then.
enum Then { store, add, gate, turn };

// Matrix is some rows of w, whose products go to a y of their own.
struct Matrix {
	void* y;            // [m, columns], rows ldy elements apart
	const float* bias;  // [columns] or null
	int64 ldy;
	int row, columns;   // first row in w, and how many
	int tiles, unused;  // of columns, of the matrices before
};

// Product is what the kernels are given; cuda/gemm_tiles.go has the same.
struct alignas(64) Product {
	unsigned char x[128], w[128];  // maps for copies
	Matrix matrices[most_matrices];
	int m, k, count, tiles;  // tiles: of columns, of all matrices
	int unused, act, wide_y, ahead;
	Unpacking unpackings[most_unpackings];  // as many as ahead says
	const half* order;  // [columns] of a gate: the column that stands there, a 16-bit number; or null
	const float2* turns;  // [m, dim/2]: cosines and sines
	const int* places;  // [m]: rows of pages, or -1
	int dim;            // of heads: 64 or 128
	int units, beside;  // of all unpackings, and of that beside products
	int idle;           // the first block that has a tile less than others
	unsigned char halves[128];  // map for copies of w to half tiles
	int whole;          // tiles, of a cluster's rows, that are whole; those after them are two halves each
	int unread;         // rows, the first ones, whose queries nobody reads
};

constexpr int product_bytes = 960;
static_assert(sizeof(Product) == product_bytes, "as cuda/gemm_tiles.go has it");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

template <int bn>
struct Stage {
	half x[bm][depth], w[bn][depth];
};

template <int bn>
struct Memory {
	static constexpr int stages = stage_bytes / sizeof(Stage<bn>);
	Stage<bn> stage[stages];
	float staged[warps][16][line];
};

// Tile is a tile of y, or half of its columns: of which matrix, and its first row and column.
struct Tile {
	int matrix, row, column;
	int halved;
	int unread;  // by anybody: it is left out

	// Tiles one above the other follow each other, so many at most.
	template <int bn, Then then>
	__device__ static Tile of(const Product& p, int index, int pairs, int rank) {
		Tile t;
		int part = max(0, index - p.whole);
		t.halved = bn == wide && index >= p.whole;
		if (t.halved) index = p.whole + part / 2;
		int above = index / (band * p.tiles) * band, rest = index - above * p.tiles, high = min(band, pairs - above);
		int at = rest / high, columns = then == gate ? bn / 2 : bn;
		t.matrix = then == gate ? 0 : at >= p.matrices[1].tiles && p.count > 1 ? at >= p.matrices[2].tiles && p.count > 2 ? 2 : 1 : 0;
		t.column = (at - (t.matrix ? p.matrices[t.matrix].tiles : 0)) * columns + (t.halved ? part % 2 * columns / 2 : 0);
		int pair = above + rest % high;
		t.row = (pair * 2 + rank) * bm, t.unread = then == turn && t.matrix == 0 && (pair + 1) * 2 * bm <= p.unread;
		return t;
	}

	// settle has the compiler know by now.
	__device__ void settle() { asm volatile("" : "+r"(matrix), "+r"(row), "+r"(column), "+r"(halved), "+r"(unread)); }

	// count returns how many there are.
	template <int bn>
	__device__ static int count(const Product& p, int pairs) {
		int all = pairs * p.tiles;
		return bn == wide ? 2 * all - p.whole : all;
	}
};

template <int bn, Then then>
__device__ inline void bring(Memory<bn>& m, const Product& p, u64* full, u64* empty, int pairs, int steps, int rank) {
	Ring<Memory<bn>::stages> ring;
	int all = Tile::count<bn>(p, pairs);
	for (int i = blockIdx.x / cluster_blocks; i < all; i += gridDim.x / cluster_blocks) {
		Tile t = Tile::of<bn, then>(p, i, pairs, rank);
		if (t.unread) continue;
		int columns = t.halved ? bn / 4 : bn / 2, row = then == gate ? p.matrices[rank].row + t.column : p.matrices[t.matrix].row + t.column + rank * columns;
		int bytes = sizeof(Stage<bn>::x) + 2 * columns * depth * sizeof(half);
		const unsigned char* map = t.halved ? p.halves : p.w;
		for (int s = 0; s < steps; s++, ring.next()) {
			Stage<bn>& to = m.stage[ring.at];
			barrier_wait(&empty[ring.at], ring.parity ^ 1);
			barrier_expect(&full[ring.at], bytes);
			copy_tile(to.x, p.x, s * depth, t.row, &full[ring.at]);
			copy_tile_both(to.w[rank * columns], map, s * depth, row, &full[ring.at]);
		}
	}
}

// add_bias adds the bias, if there is one, to a thread's sums.
template <int bn, Then then>
__device__ inline void add_bias(float (&sums)[bn / 2], const Product& p, const Tile& t) {
	if (!p.matrices[t.matrix].bias) return;
	constexpr int half_tile = bn / 16;
#pragma unroll
	for (int j = 0; j < bn / 8; j++) {
		bool second = then == gate && j >= half_tile;
		const Matrix& w = p.matrices[second ? 1 : t.matrix];
		int c = t.column + 8 * (second ? j - half_tile : j) + threadIdx.x % 4 * 2;
#pragma unroll
		for (int e = 0; e < 2; e++) {
			float add = c + e < w.columns ? w.bias[p.order ? __half_as_ushort(p.order[c + e]) : c + e] : 0;
			sums[4 * j + e] += add, sums[4 * j + 2 + e] += add;
		}
	}
}

// add_pair adds two sums to neighbours in memory.
__device__ inline void add_pair(float* to, float a, float b) {
	asm volatile("red.global.add.v2.f32 [%0], {%1, %2};" ::"l"(to), "f"(a), "f"(b) : "memory");
}

// add_lines adds a warp's sums, sixteen rows, by way of shared memory, so that memory gets
// whole lines.
template <int bn>
__device__ inline void add_lines(const Matrix& w, const Tile& t, const float (&sums)[bn / 2], int row, int rows, float (&staged)[16][line]) {
	float* m = staged[0];  // eights of columns in the order of those of row r%4
	int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, r = lane / 8, c = lane % 8 * 4;
	float* to = (float*)w.y + (row + r) * w.ldy + t.column + c;
#pragma unroll
	for (int part = 0; part < bn / line; part++) {
#pragma unroll
		for (int j = 0; j < line / 8; j++) {
			int i = (part * (line / 8) + j) * 4, at = (8 * j + 2 * q) ^ 8 * (g % 4);
			*(float2*)(m + g * line + at) = make_float2(sums[i], sums[i + 1]);
			*(float2*)(m + (g + 8) * line + at) = make_float2(sums[i + 2], sums[i + 3]);
		}
		__syncwarp();
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float4 v = *(const float4*)(m + (r + 4 * i) * line + (c ^ 8 * r));
			if (row + r + 4 * i < rows)
				asm volatile("red.global.add.v4.f32 [%0], {%1, %2, %3, %4};" ::"l"(to + 4 * i * w.ldy + part * line), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w) : "memory");
		}
		__syncwarp();
	}
}

// write_wide puts a warp's sums, or adds them, in floats.
template <int bn, bool adds>
__device__ inline void write_wide(const Matrix& w, const Tile& t, const float (&sums)[bn / 2], int row, int rows, float (&staged)[16][line]) {
	if (adds && t.column + bn <= w.columns && ((size_t)w.y | w.ldy * sizeof(float)) % 16 == 0) return add_lines<bn>(w, t, sums, row, rows, staged);
	bool fast = t.column + bn <= w.columns && ((size_t)w.y | w.ldy * sizeof(float)) % 8 == 0;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int r = row + threadIdx.x % 32 / 4 + 8 * h, c = t.column + threadIdx.x % 4 * 2;
		if (r >= rows) continue;
		float* to = (float*)w.y + r * w.ldy + c;
		if (fast) {
#pragma unroll
			for (int j = 0; j < bn / 8; j++) {
				float a = sums[4 * j + 2 * h], b = sums[4 * j + 2 * h + 1];
				if (adds)
					add_pair(to + 8 * j, a, b);
				else
					*(float2*)(to + 8 * j) = make_float2(a, b);
			}
		} else {
#pragma unroll
			for (int j = 0; j < bn / 8; j++)
#pragma unroll
				for (int e = 0; e < 2; e++)
					if (c + 8 * j + e < w.columns) to[8 * j + e] = (adds ? to[8 * j + e] : 0) + sums[4 * j + 2 * h + e];
		}
	}
}

// exchange has four lanes, each of which has a pair of four groups of eight columns, have a group
// each.
__device__ inline void exchange(unsigned (&v)[4]) {
	int q = threadIdx.x % 4;
	bool odd = q & 1, high = q & 2;
#pragma unroll
	for (int i = 0; i < 4; i += 2) {
		unsigned got = __shfl_xor_sync(~0u, odd ? v[i] : v[i + 1], 1);
		v[i] = odd ? got : v[i], v[i + 1] = odd ? v[i + 1] : got;
	}
#pragma unroll
	for (int i = 0; i < 2; i++) {
		unsigned got = __shfl_xor_sync(~0u, high ? v[i] : v[i + 2], 2);
		v[i] = high ? got : v[i], v[i + 2] = high ? v[i + 2] : got;
	}
}

// group_of returns the columns of a group of eight, of four that begin at sum i, that is the lane's.
template <int all>
__device__ inline uint4 group_of(const float (&sums)[all], int i) {
	unsigned v[4];
#pragma unroll
	for (int k = 0; k < 4; k++) v[k] = pack(sums[i + 4 * k], sums[i + 4 * k + 1]);
	exchange(v);
	return make_uint4(v[0], v[1], v[2], v[3]);
}

// put_some writes eight halves of a row, those that there are.
__device__ inline void put_some(half* to, uint4 v, int count) {
#pragma unroll
	for (int i = 0; i < 8; i++)
		if (i < count) to[i] = __ushort_as_half((i < 4 ? i < 2 ? v.x : v.y : i < 6 ? v.z : v.w) >> 16 * (i % 2));
}

// write puts columns of a warp's sums, sixteen rows: where places say, if they are there. Four
// lanes of a row have 64 bytes of it.
template <int columns, int all>
__device__ inline void write(const Matrix& w, const Tile& t, const float (&sums)[all], int row, int rows, const int* places) {
	int lane = threadIdx.x % 32, c = t.column + lane % 4 * 8;
	bool fast = t.column + columns <= w.columns && ((size_t)w.y | w.ldy * sizeof(half)) % 16 == 0;
#pragma unroll
	for (int h = 0; h < 2; h++) {
		int at = row + lane / 4 + 8 * h;
		bool there = at < rows;
		if (places && there) at = places[at], there = at >= 0;
		half* to = (half*)w.y + at * w.ldy + c;
		if (fast) {
#pragma unroll
			for (int part = 0; part < columns / 32; part++) {
				uint4 v = group_of(sums, 16 * part + 2 * h);
				if (there) *(uint4*)(to + 32 * part) = v;
			}
		} else {
#pragma unroll
			for (int part = 0; part < columns / 32; part++) {
				uint4 v = group_of(sums, 16 * part + 2 * h);
				if (there) put_some(to + 32 * part, v, w.columns - c - 32 * part);
			}
		}
	}
}

// Turns are cosines and sines of pairs of a thread, of a row.
struct Turns {
	const float2* from;  // of the thread's first row
	int step, eights;    // to the row eight below, and of half a head

	__device__ Turns(const Product& p, int row) : step(0), eights(p.dim / 16) {
		int r = min(row + (int)threadIdx.x % 32 / 4, p.m - 1);
		from = p.turns + (int64)r * (p.dim / 2) + threadIdx.x % 4 * 2, step = (min(r + 8, p.m - 1) - r) * (p.dim / 2);
	}
	__device__ float4 of(int h, int j) const { return *(const float4*)(from + h * step + 8 * (j & (eights - 1))); }
};

// turn_heads turns the heads of a tile, whose pairs (i, i + dim/2) are a thread's own; two has the
// turns of the first row.
template <int dim, int n>
__device__ inline void turn_heads(float (&sums)[n], const Turns& turns, float4 (&two)[asked]) {
	constexpr int eights = dim / 16;  // of half a head
#pragma unroll
	for (int h = 0; h < 2; h++)
#pragma unroll
		for (int j = 0; j < eights; j++) {
			constexpr int last = 2 * eights - 1;
			int k = h * eights + j, then = min(k + asked, last);
			float4 now = two[k % asked];
			if (k + asked <= last) two[k % asked] = turns.of(then / eights, then % eights);
#pragma unroll
			for (int i = 4 * j + 2 * h; i < n; i += 8 * eights) {
				float a = sums[i], b = sums[i + 4 * eights], c = sums[i + 1], d = sums[i + 1 + 4 * eights];
				sums[i] = a * now.x - b * now.y, sums[i + 4 * eights] = b * now.x + a * now.y;
				sums[i + 1] = c * now.z - d * now.w, sums[i + 1 + 4 * eights] = d * now.z + c * now.w;
			}
		}
}

// apply makes act(gate)·up of a thread's sums, in the first half of them.
template <class Act, int n>
__device__ inline void apply(float (&sums)[n]) {
#pragma unroll
	for (int i = 0; i < n / 2; i++) sums[i] = Act::of(sums[i]) * sums[n / 2 + i];
}

// apply_gate does so with the function that has a number, as device.Act counts.
template <int n>
__device__ inline void apply_gate(float (&sums)[n], int act) {
	switch (act) {
		case 0: return apply<SiLU>(sums);
		case 1: return apply<GELU>(sums);
		case 2: return apply<GELUTanh>(sums);
		default: return apply<ReLU>(sums);
	}
}

// multiply_tile computes a tile of so many columns. What other says is done while the last products
// run.
template <int columns, Then then, int bn, class Other>
__device__ inline void multiply_tile(Memory<bn>& m, Ring<Memory<bn>::stages>& ring, const Product& p, const Tile& t, u64* full, u64* empty, int steps, Other other) {
	int mine = threadIdx.x / group - 1, warp = threadIdx.x / 32 - 4;
	bool tells = threadIdx.x % 32 < cluster_blocks;  // lane i tells block i
	const Matrix& w = p.matrices[t.matrix];
	int row = t.row + mine * 64 + warp % 4 * 16;
	Turns turns(p, row);
	float4 two[asked];
	float sums[columns / 2] = {};
	unsigned before = 0;
	for (int s = 0; s < steps; s++, ring.next()) {
		Stage<bn>& from = m.stage[ring.at];
		barrier_wait(&full[ring.at], ring.parity);
		uint64 xs = operand(from.x[mine * 64]), ws = operand(from.w[0]);
		wgmma_begin();
#pragma unroll
		for (int j = 0; j < depth / 16; j++) wgmma(sums, xs + 2 * j, ws + 2 * j);
		wgmma_end();
		if (s == steps - 1) {
			if constexpr (then == turn)
#pragma unroll
				for (int j = 0; j < asked; j++) two[j] = turns.of(0, j);
			other();
		}
		wgmma_wait<1>();
		if (s > 0 && tells) arrive_at(before);
		before = of_block(&empty[ring.at], threadIdx.x % cluster_blocks);
	}
	wgmma_wait<0>();
	settle(sums);
	if (tells) arrive_at(before);
	add_bias<columns, then>(sums, p, t);
	if constexpr (then == gate) {
		apply_gate(sums, p.act);
		write<columns / 2>(w, t, sums, row, p.m, nullptr);
	} else if constexpr (then == add)
		write_wide<columns, true>(w, t, sums, row, p.m, m.staged[warp]);
	else if (p.wide_y)
		write_wide<columns, false>(w, t, sums, row, p.m, m.staged[warp]);
	else {
		if (then == turn && t.matrix < 2) p.dim == 128 ? turn_heads<128>(sums, turns, two) : turn_heads<64>(sums, turns, two);
		write<columns>(w, t, sums, row, p.m, t.matrix > 0 ? p.places : nullptr);
	}
}

// consume computes tiles. Where the next one is, is found before this one is done.
template <int bn, Then then>
__device__ inline void consume(Memory<bn>& m, const Product& p, u64* full, u64* empty, int pairs, int steps, int rank) {
	Ring<Memory<bn>::stages> ring;
	int all = Tile::count<bn>(p, pairs), i = blockIdx.x / cluster_blocks, step = gridDim.x / cluster_blocks;
	Tile t = Tile::of<bn, then>(p, i, pairs, rank), next;
	auto other = [&] {
		next = Tile::of<bn, then>(p, min(i + step, all - 1), pairs, rank);
		next.settle();
	};
	for (; i < (bn == wide ? p.whole : all); i += step, t = next) t.unread ? other() : multiply_tile<bn, then>(m, ring, p, t, full, empty, steps, other);
	if constexpr (bn == wide)
		for (; i < all; i += step, t = next) t.unread ? other() : multiply_tile<bn / 2, then>(m, ring, p, t, full, empty, steps, other);
}

// decode_ahead decodes what is warp w's, of so many, of units lo to hi of all unpackings.
__device__ inline void decode_ahead(const Product& p, int lo, int hi, int w, int warps) {
	int before = 0;
	for (int i = 0; i < p.ahead; i++) {
		const Unpacking& u = p.unpackings[i];
		int end = min(before + u.end - u.first, hi), next = lo + w;
		if (next < before) next += (before - next + warps - 1) / warps * warps;
		for (; next < end; next += warps) unpack(u, u.first + next - before);
		before += u.end - u.first;
	}
}

template <int bn, Then then>
__device__ inline void gemm(const Product& p) {
	extern __shared__ uint4 memory[];
	using M = Memory<bn>;
	static_assert(sizeof(M) + 1024 <= shared_bytes && M::stages * sizeof(Stage<bn>) == stage_bytes, "shared memory");
	M& m = *(M*)((char*)memory + (-(int)shared_address(memory) & 1023));
	__shared__ u64 full[M::stages], empty[M::stages];
	int rank = rank_in_cluster(), pairs = (p.m + 2 * bm - 1) / (2 * bm), steps = (p.k + depth - 1) / depth;
	begin_ring(full, empty, cluster_blocks * warps);
	after_previous();
	if (threadIdx.x < group) {
		registers_down<few_registers>();
		if (threadIdx.x == 0) bring<bn, then>(m, p, full, empty, pairs, steps, rank);
		__syncwarp();
	} else {
		registers_up<many_registers>();
		consume<bn, then>(m, p, full, empty, pairs, steps, rank);
		registers_down<few_registers>();
	}
	constexpr int decoders = group / 32 - 1;
	int warp = (int)threadIdx.x / 32 - 1, idle = blockIdx.x - p.idle;
	if (warp >= 0 && (warp < decoders || idle >= 0)) {  // one text for both: it is long
		bool beside = warp < decoders;
		int w = beside ? blockIdx.x * decoders + warp : idle * warps + warp - decoders;
		decode_ahead(p, beside ? 0 : p.beside, beside ? p.beside : p.units, w, beside ? gridDim.x * decoders : (gridDim.x - p.idle) * warps);
	}
	cluster_arrive();
	cluster_wait();
}

#else  // other GPUs have gemm.cu

template <int bn, Then then>
__device__ inline void gemm(const Product&) {}

#endif

// Names are of the columns, and of what is done with products: code of the rest would be
// between what is run.
#define GEMM(name, bn, then)                                                                        \
	extern "C" __global__ void __launch_bounds__(threads, 1) name(const __grid_constant__ Product p) { gemm<bn, then>(p); }

GEMM(gemm_tiles_256_store, wide, store)
GEMM(gemm_tiles_256_add, wide, add)
GEMM(gemm_tiles_256_gate, wide, gate)
GEMM(gemm_tiles_256_turn, wide, turn)
GEMM(gemm_tiles_128_store, slim, store)
GEMM(gemm_tiles_128_add, slim, add)
GEMM(gemm_tiles_128_gate, slim, gate)
GEMM(gemm_tiles_128_turn, slim, turn)
