// Products of up to eight rows of x with EXL2 matrices, up to three of one x: y = x·W +
// bias, or y += x·W + bias, or y = act(x·W + bias)·(x·W' + bias'), with x as it is or
// normalized.
//
// A grid has as many blocks as there are multiprocessors. A block has a run of tiles,
// whose units are shared among its warps (packed.cuh). The sums of the warps are added
// at the end of the run, in order. x is brought to shared memory in stored order, which
// costs nothing but the places where its elements are put.
//
// Units come to shared memory several steps ahead, each lane's part for itself, so that
// only the lane waits for it. The first ones are asked for before the kernel in front of
// this one is done: weights depend on nothing. What a multiprocessor reads waits behind all
// words that it has asked for, so these are not all that there is room for (docs/decoding.md).
#include "act.cuh"
#include "arrive.cuh"
#include "digit_part.cuh"
#include "digit_row.cuh"
#include "digit_rows.cuh"
#include "link.cuh"
#include "meet.cuh"
#include "order.cuh"
#include "products.cuh"
#include "step.cuh"
#include "unit.cuh"

constexpr int most = 8;  // rows of x
constexpr int many_warps = 16, few_warps = 8;

struct Product {
	// What the first unit is found by comes first: reads of what a kernel is told are by lines.
	int count;            // matrices
	int share, rest;      // tiles of a block, and how many blocks have one more
	int then;
	int slot;             // bytes
	int round;            // tiles that there are sums of in shared memory
	int groups;           // of a unit, at most, that a lane has the scales of
	int leaves;           // whether there is something in leaving
	Matrix m[most_matrices];
	const void* x;        // [rows, in], rows ldx elements apart, each at 16 bytes; float to be normalized
	const half* places;   // [in]: where in stored order a column of x is, a 16-bit number; or null
	const float* scale;   // [in] of the norm
	const float* shift;   // [in] or null
	const half* to;       // [out]: where in y columns go, or null
	int64 ldx;
	int tiles;            // of all matrices; of a gate, of one
	int act, norm, in;
	int wide, rows;       // wide: y is float
	float eps, offset;
	int units;            // of the matrices, with padding, for those who have no steps (step.cuh)
	int unused;
	Leaving leaving;      // q, k and v are left for attend_left.cu
	Link link;
	Area areas[most_matrices + 1];     // of matrices, of four rows by digits
	Portion portions[many_warps + 2];  // of warps, of one row in order, and of two

	// has reports whether the block has tiles of a matrix.
	__device__ bool has(int k) const;
};

constexpr int product_bytes = 80 * most_matrices + 120 + 40 + 64 + 16 + 4 * (many_warps + 2);
static_assert(sizeof(Product) == product_bytes, "as cuda/packed.go has it");

__device__ inline int row_of(u32 packed) { return packed >> 1 & 0x1fff << 6; }  // in bytes: block_of times 64

// Range is what a warp, or block, does of something.
struct Range {
	int from, to;
	__device__ int size() const { return to - from; }
};

// run_of returns a block's tiles of a product.
__device__ inline Range run_of(const Product& p) {
	int b = blockIdx.x, from = b * p.share + min(b, p.rest);
	return {from, from + p.share + (b < p.rest)};
}

// units_of returns a warp's units of every tile.
template <int warps>
__device__ inline Range units_of(const Matrix& m) {
	int w = threadIdx.x / 32;
	return {m.count * w / warps, m.count * (w + 1) / warps};
}

// in returns the tiles of a matrix that are in a round.
__device__ inline Range in(const Matrix& m, Range round) {
	return {max(round.from - m.base, 0), min(round.to - m.base, m.tiles)};
}

__device__ inline bool Product::has(int k) const { return ::in(m[k], run_of(*this)).size() > 0; }

// span_of returns the tiles of a round, in each of two matrices of a gate.
__device__ inline int span_of(const Product& p) { return p.then == gate ? p.round / 2 : p.round; }

// A Feed brings the units of a warp to its ring of slots, those of a matrix's tiles of a
// round after each other, and then of the next matrix, or round.
template <int warps, int slots>
struct Feed {
	const Product& product;
	u32 ring, slot;                 // where in shared memory the ring and the next slot are, at this lane
	const uint4* words;             // of the tile, at this lane
	const u32* scales;
	const uint2 *next, *first;      // place of the unit behind, and of the first in a tile
	uint2 place;
	int units, left, tiles;         // of the warp in a tile, to go in it, and tiles to go
	int words_step, scales_step;    // from tile to tile
	int matrix;
	Range round;
	unsigned long long policy;

	// The first units are asked for at once, up to `early`.
	__device__ Feed(const Product& product, u32 ring, int early = slots) : product(product), ring(ring), slot(ring), matrix(product.count - 1), policy(once()) {
		round.to = run_of(product).from;
		open();
#pragma unroll
		for (int s = 0; s < slots; s++)
			if (s < early) ask();
	}

	// open goes on to the next matrix of which there are units, or to the end.
	__device__ void open() {
		for (;;) {
			if (++matrix == product.count) {
				int end = run_of(product).to;
				matrix = 0, round.from = round.to, left = 0;
				if (round.from == end) return;
				round.to = min(round.from + span_of(product), end);
			}
			const Matrix& m = product.m[matrix];
			Range r = in(m, round), u = units_of<warps>(m);
			tiles = r.size(), left = units = u.size();
			if (tiles <= 0 || units == 0) continue;
			int lane = threadIdx.x % 32;
			words_step = m.chunks * 32, scales_step = m.groups * 4;
			words = m.words + (int64)r.from * words_step + lane, scales = (const u32*)m.scales + (int64)r.from * scales_step + lane / 8;
			next = first = m.places + u.from;
			place = __ldg(next++);
			return;
		}
	}

	// more_scales asks for those of a group, which are i behind the first.
	__device__ void more_scales(int group, int i) const {
		copy4((u32*)__cvta_shared_to_generic(slot + (1 + i) * lane_bytes), scales + min(group, scales_step / 4 - 1) * 4, true);
	}

	// ask asks for the unit, if there is one, in the slot, and goes to the next of both.
	__device__ void ask() {
		if (left > 0) {
			Place u(place);
			int group = group_of(u.packed);
			copy_unit(slot + (1 + product.groups) * lane_bytes + threadIdx.x % 32 * 12, words + u.chunk * 32, slot + lane_bytes, scales + group * 4, bits_of_unit(u.packed), policy);
			bool four = shift_of(u.packed) == 0;
			if (!has_one_group(u.packed)) {  // two or four
				more_scales(group + 1, 1);
				if (four) more_scales(group + 2, 2), more_scales(group + 3, 3);
			}
			*(u32*)__cvta_shared_to_generic(slot) = u.packed;
			if (--left > 0) {
				place = __ldg(next++);
			} else if (--tiles > 0) {
				left = units, words += words_step, scales += scales_step;
				place = __ldg(first);
				next = first + 1;
			} else {
				open();
			}
		}
		commit();
		slot = after(slot);
	}
	__device__ u32 after(u32 s) const { return s == ring + (slots - 1) * product.slot ? ring : s + product.slot; }

	// next_unit waits for the next unit, and returns where it is.
	__device__ u32 next_unit() const {
		arrived<slots - 1>();
		return slot;
	}
};

// A StepFeed is a Feed of one row by digits (step.cuh).
template <int warps, int slots>
struct StepFeed {
	static constexpr int flight = 2;
	static constexpr bool ahead = flight < slots;

	const Product& product;
	u32 slot[slots];             // where in shared memory they are, at this lane, the next one first
	u32 words_at;                // of a slot: where the lane's words are
	u32 half;                    // selects what is the lane's of two groups
	const char *words, *scales;  // of the tile, at this lane
	uint4 step;                  // of the lane's number
	int number, tiles;           // of the step in a tile, and tiles to go
	u32 what, two, of;           // the step
	u32 coming[2];               // what those on their way are, and the lane's first units
	int matrix;
	Range round;
	unsigned long long policy;

	// The first step is asked for at once.
	__device__ StepFeed(const Product& product, u32 ring, Range run) : product(product), number(0), matrix(0), policy(once()) {
#pragma unroll
		for (int s = 0; s < slots; s++) slot[s] = ring + s * product.slot;
		words_at = step_words(product.groups) + threadIdx.x % 32 * 12;
		half = threadIdx.x & 2 ? 0x7610 : 0x5410;
		round = {run.from, min(run.from + span_of(product), run.to)};
		if (!enter()) open();
		look(), ask(), look();
	}

	// enter goes on to the matrix, if there are tiles of it in the round.
	__device__ bool enter() {
		const Matrix& m = product.m[matrix];
		Range r = in(m, round);
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
		tiles = r.size();
		if (tiles <= 0) return false;
		step = __ldg((const uint4*)m.places + warp * m.count + min(lane, m.count - 1));
		words = (const char*)m.words + (int64)r.from * (m.chunks * chunk_bytes) + lane * 16;
		scales = (const char*)m.scales + (int64)r.from * (m.groups * 16) + lane / 8 * 4;
		return true;
	}

	// open goes on to the next matrix of which there are tiles, or to the end.
	__device__ void open() {
		do {
			if (++matrix == product.count) {
				int end = run_of(product).to;
				matrix = 0, tiles = 0;
				if (round.to == end) return;
				round = {round.to, min(round.to + span_of(product), end)};
			}
		} while (!enter());
	}

	__device__ static u32& word(u32 at) { return *(u32*)__cvta_shared_to_generic(at); }

	// more asks for scales, and the unit, of the lane's group of the third and fourth.
	__device__ void more(u32 at, u32 two) const {
		const Matrix& m = product.m[seldom(matrix)];
		int group = min((two & 0xffff) / 16 + 2 + threadIdx.x % 4 / 2, m.groups - 1);
		copy4(&word(at + lane_bytes), m.units + group, true);
		copy4(&word(at + 2 * lane_bytes), (const u32*)(scales + group * 16), true);
	}

	// look finds what the next step is, long before it is asked for: lanes' answers wait behind all that is asked for.
	__device__ void look() { what = __shfl_sync(~0u, step.x, number), two = __shfl_sync(~0u, step.y, number), of = __shfl_sync(~0u, step.z, number); }

	// ask asks for the step, if there is one, in the slot, and goes to the next of both, at which one has to look.
	__device__ void ask() {
		u32 at = slot[0], now = 0;
		if (tiles > 0) {
			u32 to = at + words_at;
			const char* from = words + (what >> first_chunk) * (u32)chunk_bytes;
			copy_step(to, from, at, scales + (__byte_perm(0, two, half) >> 16), what, policy);
			now = __byte_perm(what, of, half);
			if (what & unusual) {
				if (step_width(what) > 4) copy_wide(to, from, step_width(what), policy);
				if (what & four_groups) more(at, two);
			}
			number++;
			if (what & last_step) {
				number = 0;
				const Matrix& m = product.m[seldom(matrix)];
				if (--tiles > 0) words += m.chunks * chunk_bytes, scales += m.groups * 16;
				else open();
			}
		}
		commit();
		coming[0] = coming[1], coming[1] = now;
#pragma unroll
		for (int s = 0; s < slots - 1; s++) slot[s] = slot[s + 1];
		slot[slots - 1] = at;
	}

	// next_unit waits for the next unit, and returns where it is. ahead tells that another is asked for before it is
	// multiplied, not behind.
	__device__ u32 next_unit() {
		arrived<flight - 1>();
		if (ahead) ask();
		return slot[0];
	}
};

// put stores eight elements of a row from i on where they are in stored order.
__device__ inline void put(half* to, const Product& p, const Ahead& a, const Eight<half>& v, int i) {
	if (!p.places) {
		*(uint4*)(to + i) = v.words[0];
		return;
	}
	Eight<half> places;
	places.words[0] = i < blockDim.x * 8 ? a.places : __ldg((const uint4*)(p.places + i));
#pragma unroll
	for (int j = 0; j < 8; j++) to[__half_as_ushort(places.v[j])] = v.v[j];
}

// load copies a row of x. What other blocks have written is read from the L2 cache.
__device__ inline void load(half* to, const half* x, const Product& p, const Ahead& a) {
	for (int first = threadIdx.x * 8; first < p.in; first += blockDim.x * 8 * kept) {
		Eight<half> v[kept];
#pragma unroll
		for (int k = 0; k < kept; k++)
			if (int i = first + k * blockDim.x * 8; i < p.in) v[k].words[0] = __ldcg((const uint4*)(x + i));
#pragma unroll
		for (int k = 0; k < kept; k++)
			if (int i = first + k * blockDim.x * 8; i < p.in) put(to, p, a, v[k], i);
	}
}

struct Put {
	half* to;
	const Product& p;
	const Ahead& a;
	Centre mean;
	float inverse;
	__device__ void operator()(const float (&v)[8], int i) {
		float w[8], b[8] = {};
		if (i >= blockDim.x * 8) load8(w, p.scale, i, p.in);
		if (p.shift) load8(b, p.shift, i, p.in);
		Eight<half> y;
		for (int j = 0; j < 8; j++) y.v[j] = __float2half_rn(mean(v[j]) * inverse * ((i < blockDim.x * 8 ? a.scale[j] : w[j]) + p.offset) + b[j]);
		put(to, p, a, y, i);
	}
};

// normalize is norm.cu's for a row, to shared memory. It stores the row's power (link.cuh)
// where that is wanted.
__device__ inline void normalize(half* to, const float* x, const Product& p, const Ahead& a, float* row_power) {
	Row row(x, p.in);
	Centre mean = {0, 0};
	if (p.norm == layer) {
		mean.first = __ldcg(x);
		Sum sum = {mean, 0};
		row.each(sum);
		mean.rest = __fdividef(block_sum(sum.of), p.in);
	}
	Squares squares = {mean, 0};
	row.each(squares);
	float square = __fdividef(block_sum(squares.of), p.in) + p.eps;
	if (row_power && threadIdx.x == 0) *row_power = power(square);
	Put put = {to, p, a, mean, rsqrtf(square)};
	row.each(put);
}

// copy_rows asks for rows of x that are in stored order.
__device__ inline void copy_rows(half* to, const Product& p, int rows) {
	for (int r = 0; r < rows; r++, to += stride(p.in)) {
		const half* x = (const half*)p.x + r * p.ldx;
		for (int i = threadIdx.x * 8; i < p.in; i += blockDim.x * 8) copy16(to + i, x + i, true);
		if (threadIdx.x < row_padding) to[p.in + threadIdx.x] = __float2half(0);
	}
	commit();
}

// stage brings the rows of x to shared memory, in stored order.
__device__ inline void stage(half* to, const Product& p, const Ahead& a, int rows) {
	if (!p.places) {
		copy_rows(to, p, rows);
		return;
	}
	for (int r = 0; r < rows; r++, to += stride(p.in)) {
		if (p.norm == no_norm) load(to, (const half*)p.x + r * p.ldx, p, a);
		else normalize(to, (const float*)p.x + r * p.ldx, p, a, p.link.powers && blockIdx.x == 0 ? p.link.powers + r : nullptr);
		if (threadIdx.x < row_padding) to[p.in + threadIdx.x] = __float2half(0);
	}
}

// unit_of returns number i of the units of the matrices' groups, zeros being behind those of each.
__device__ inline u32 unit_of(const Product& p, int i) {
	if (i >= p.units) return 0;
	int k = 0;
	for (int padded; k < p.count - 1 && i >= (padded = padded_groups(p.m[k].groups)); k++) i -= padded;
	return i < p.m[k].groups ? __ldg(p.m[k].units + i) : 0;
}

// keep_units stores the units of the matrices' groups, of which the thread has asked for the first.
__device__ inline void keep_units(u32* to, const Product& p, u32 first) {
	if (threadIdx.x < p.units) to[threadIdx.x] = first;
#pragma unroll 1
	for (int i = threadIdx.x + blockDim.x; i < p.units; i += blockDim.x) to[i] = unit_of(p, i);
}

// total adds the warps' sums of a column and row.
template <int warps>
__device__ inline float total(const float* parts, int step) {
	float sums[4] = {};  // that do not wait for each other
#pragma unroll
	for (int k = 0; k < warps; k++) sums[k % 4] += parts[k * step];
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A Late is what a thread needs for the first of its results beside the sums, where it is a
// gate's or is added: where its column goes, what is added to, and what is left.
struct Late {
	int to;
	float y;
	Linked linked;

	__device__ Late() : to(0), y(0) {}
	__device__ Late(const Product& p, int row, int column, bool links) : to(0), y(0) {
		const Matrix& m = p.m[0];
		if (p.then == store || column >= m.out) return;
		if (p.to) to = __half_as_ushort(p.to[column]);
		if (p.then == add) y = __ldcg((const float*)m.y + row * m.ldy + column);
		if (links && p.link.left) linked = Linked(p.link, row, column);
	}
};

// leave_column leaves a column's product for those who attend.
__device__ inline void leave_column(const Leaving& l, int matrix, int column, half v, int readers) {
	unsigned* to = l.column(matrix, column);
	leave(to, v);
	int more = matrix == 0 ? readers : l.sets, step = matrix == 0 ? l.queries : l.stride();
	for (int r = 1; r < more; r++) leave(to + r * step, v);
}

// first_of returns it for a thread's first result.
template <int most_rows, bool links>
__device__ inline Late first_of(const Product& p, Range round) {
	int rows = most_rows > 1 ? p.rows : 1, t = threadIdx.x / tile_columns;
	if (t >= round.size() * rows) return Late();
	return Late(p, t % rows, (round.from + t / rows) * tile_columns + threadIdx.x % tile_columns, links);
}

// finish does with a round of tiles what is to be done; late is there. Where there are readers, it
// is left for those.
template <int warps, int most_rows, bool links>
__device__ inline void finish(const Product& p, const float* parts, Range round, int rows, Late late, const float* factors, int readers) {
	constexpr int step = tile_columns * most_rows, sums = warps * step;
	for (int i = threadIdx.x; i < round.size() * tile_columns * rows; i += blockDim.x) {
		int column = i % tile_columns, t = i / tile_columns, row = 0;
		if (rows > 1) row = t % rows, t /= rows;
		const float* mine = parts + t * sums + row * tile_columns + column;
		float sum = total<warps>(mine, step);
		int k = 0, tile = round.from + t;
		while (k < p.count - 1 && p.then != gate && tile >= p.m[k + 1].base) k++;
		const Matrix& m = p.m[k];
		column += (tile - m.base) * tile_columns;
		bool there = column < m.out;
		if (there) {
			if (links) sum *= factors[row];
			if (m.bias) sum += m.bias[column];
			if (p.then == gate) {
				float other = total<warps>(mine + round.size() * sums, step);
				if (links) other *= factors[row];
				if (p.m[1].bias) other += p.m[1].bias[column];
				sum = activate(p.act, sum) * other;
			}
			if (readers > 0) {
				leave_column(p.leaving, k, column, __float2half_rn(sum), readers);
				continue;
			}
			if (i >= blockDim.x && p.then != store) late = Late(p, row, column, links);
			int64 at = row * m.ldy + (p.to ? late.to : column);
			if (p.then == add) {
				((float*)m.y)[at] = sum += late.y;
			} else if (p.wide) {
				((float*)m.y)[at] = sum;
			} else {
				((half*)m.y)[at] = __float2half_rn(sum);
			}
		}
		if (links && p.link.left) link(p.link, late.linked, tile, row, there, sum);
	}
}

// touch brings what a kernel is told to the cache that it is read through: each read of a line that is not there
// takes as long as one of memory.
template <class P>
__device__ inline void touch(const P& p) {
	constexpr int lines = (sizeof(P) + 63) / 64;
	u32 v = ((const u32*)&p)[min((int)threadIdx.x % 32, lines - 1) * 16];
	asm volatile("{.reg .pred p; setp.eq.u32 p, %0, 0x9e3779b9; @p nanosleep.u32 1;}" ::"r"(v) : "memory");
}

// Kept is what a thread has in shared memory to store a column of one row's products, beside the sums. What a kernel is told is far away
// when nobody has read it for a while, and here nothing else is done meanwhile.
struct Kept {
	static constexpr int leaves = 1, wide = 2, gated = 4, linked = 8, act = 16;

	void* at;          // where it goes, or is left; or null: there is no such column
	half* left;        // of the stream (link.cuh), or null
	float* squares;    // of the stream that is left, of the tile in front
	float plus;        // what is added
	union {
		struct { float weight, power; };
		struct { int more, step; };  // how often it is left, and how far apart
	};
	int how;           // what is done, and the activation
	float other;       // what is added to the other one of a gate's two
};

static_assert(sizeof(Kept) == 48, "as cuda/packed.go has it");

// A Result is what is known of that when words are on their way: as it is in memory, as arithmetic would wait for it.
struct Result {
	void* at;           // the row that it goes to, or where it is left; or null: there is no such column
	int to;             // of that row; or how far apart it is left
	float bias, other;  // the latter of a gate's second matrix
	float y;            // what it is added to
	float weight, power;
	int place;          // of the stream that is left; or whether it is of queries
	int how = 0;        // as in Kept

	__device__ Result() : at(nullptr), to(0), bias(0), other(0), y(0), weight(0), power(1), place(0) {}

	// Of a column of a tile of all, what no kernel writes is asked for, and the rest is worked out.
	template <bool links>
	__device__ void find(const Product& p, int tile, int column) {
		int k = 0;
		bool wide = p.then == add || p.wide, linked = links && p.link.left;
		how = kept_as(p.leaves * Kept::leaves | wide * Kept::wide | (p.then == gate) * Kept::gated | linked * Kept::linked | p.act * Kept::act);
		while (k < p.count - 1 && p.then != gate && tile >= p.m[k + 1].base) k++;
		const Matrix& m = p.m[k];
		column += (tile - m.base) * tile_columns;
		at = nullptr;
		if (column >= m.out) return;
		if (m.bias) bias = m.bias[column];
		if (p.then == gate && p.m[1].bias) other = p.m[1].bias[column];
		if (p.leaves) {
			at = p.leaving.column(k, column), place = kept_as(k == 0), to = kept_as(k == 0 ? p.leaving.queries : p.leaving.stride());
			return;
		}
		at = m.y, to = column;
		if (p.to) to = __half_as_ushort(p.to[column]);
		if (links && p.link.left) place = __half_as_ushort(p.link.places[column]), weight = p.link.scale[column];
	}

	// come asks for what kernels write, behind the wait for them.
	template <bool links>
	__device__ void come(const Product& p) {
		if (p.then != add || !at) return;
		y = read_square((const float*)at + to);
		if (links && p.link.left && p.link.powers) power = read_square(p.link.powers);
	}

	// kept returns what is kept of it in shared memory. Of what is left for those who attend, `readers` are of queries.
	__device__ Kept kept(const Product& p, int tile, int readers) const {
		bool wide = how & Kept::wide, linked = how & Kept::linked;
		Kept k;
		k.at = at, k.left = nullptr, k.squares = nullptr, k.plus = bias + y, k.power = power, k.other = other, k.how = how;
		if (how & Kept::leaves) {
			k.more = place ? readers : p.leaving.sets, k.step = to;
		} else {
			k.weight = weight + p.link.offset;
			if (at) {
				k.at = (char*)at + (int64)to * (wide ? 4 : 2);
				if (linked) k.left = p.link.left + place;
			}
		}
		if (linked) k.squares = p.link.left_squares + tile;
		return k;
	}
};

template <bool links>
__device__ inline Kept result_of(const Product& p, int tile, int column, int readers) {
	Result r;
	r.find<links>(p, tile, column), r.come<links>(p);
	return r.kept(p, tile, readers);
}

// finish_row does with a round of tiles of one row what is to be done, by a warp for each.
template <int warps, bool links>
__device__ inline void finish_row(const Product& p, const float* parts, Range round, const Kept& k, const float* factor) {
	constexpr int sums = warps * tile_columns;
	int t = threadIdx.x / 32, lane = threadIdx.x % 32;
	const float* mine = parts + t * sums + lane;
	float sum = total<warps>(mine, tile_columns), by = links ? *factor : 1;
	int how = k.how;
	sum = fmaf(sum, by, k.plus);
	if (how & Kept::gated) sum = activate(how / Kept::act, sum) * fmaf(total<warps>(mine + round.size() * sums, tile_columns), by, k.other);
	if (k.at) {
		half v = __float2half_rn(sum);
		if (how & Kept::leaves) {
			leave((unsigned*)k.at, v);
			for (int r = 1; r < k.more; r++) leave((unsigned*)k.at + r * k.step, v);
		} else if (how & Kept::wide) {
			*(float*)k.at = sum;
		} else {
			*(half*)k.at = v;
		}
	}
	if (links && how & Kept::linked) {
		if (k.left) *k.left = __float2half_rn(fminf(fmaxf(sum * k.weight * k.power, -65504), 65504));
		float square = warp_sum(k.at ? sum * sum : 0);
		if (lane == 0) {
			k.squares[1] = square;
			if (round.from + t == 0) k.squares[0] = k.power;
		}
	}
}

// keep_lane is keep_digits (digits.cuh), of a lane that knows where what it keeps goes, and what its lowest digits are.
__device__ inline void keep_lane(float* to, const float (&sums)[2][4], float digit) {
	bool second = threadIdx.x & 2, odd = threadIdx.x & 1;
	float v[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		float a = sums[0][2 * i] * digit, b = sums[1][2 * i] * digit;
		v[i] = (second ? b : a) + __shfl_xor_sync(~0u, second ? a : b, 2);
	}
	*to = (odd ? v[1] : v[0]) + __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
}

// How a row comes: it is put in order; or warps bring what they need, in order.
enum Way { placed, parted };

// qmatmul_row is the product of one row by digits.
template <int warps, int slots, Way way>
__device__ inline void qmatmul_row(const Product& p) {
	constexpr bool links = way == parted;
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float norm;  // its factor
	bool leaves = p.leaves;  // the next kernel takes what is left, and starts when this one has waited
	if (!leaves) let_next();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	float* parts = (float*)(base + warps * slots * p.slot);
	Kept* results = (Kept*)(parts + p.round * warps * tile_columns);
	u32* staged = (u32*)(results + p.round * tile_columns);

	Range run = run_of(p);
	StepFeed<warps, slots> feed(p, first_byte + warp * slots * p.slot + lane * 4, run);
	u32 select = lane / 4 % 2 ? 0x3232 : 0x1010;
	Exponent e;
	float lowest;  // of digits
	Digits row(staged, p.in);
	u32 row_at;  // in shared memory
	Range round = {run.from, min(run.from + span_of(p), run.to)};
	bool stores = warp < round.size();
	int pos = 0;
	if constexpr (way == parted) {
		Result result;
		Part part(p, (char*)staged);
		if (warp >= warps - 4) touch(p);  // one of each scheduler's
		if (stores) result.find<links>(p, round.from + warp, lane);
		if (threadIdx.x < row_padding) ((u32*)part.zeros)[threadIdx.x] = 0;
		row = part.digits();
		row_at = kept_as((u32)__cvta_generic_to_shared(row.row));
		wait_for_previous();
		let_next();
		part.ask();
		Factor f;
		bool last = warp == warps - 1;
		if (last) f.ask(p.link);
		if (leaves && stores) pos = look_at(p.leaving.pos);
		if (stores) result.come<links>(p);
		__syncthreads();  // all have asked for x, behind which words may wait
		feed.ask(), feed.look();
		lowest = part.make();
		if (stores) results[threadIdx.x] = result.kept(p, round.from + warp, leaves ? attending(pos, p.leaving.window, p.leaving.most) : 0);
		if (last) {
			float v = f.get(p.link);
			if (lane == 0) norm = v;
		}
	} else {
		Ahead ahead(p);
		wait_for_previous();
		let_next();
		if (leaves && stores) pos = look_at(p.leaving.pos);
		lowest = stage_digits(staged, p, ahead, [&] { feed.ask(), feed.look(); });
		__syncthreads();
		if (stores) results[threadIdx.x] = result_of<links>(p, round.from + warp, lane, leaves ? attending(pos, p.leaving.window, p.leaving.most) : 0);
		row_at = kept_as((u32)__cvta_generic_to_shared(row.row));
	}
	row.row = (const char*)__cvta_shared_to_generic(row_at);
	Turn turn;
	float digit = lane % 2 ? lowest * (128 * 128) : lowest;
	float* keep = parts + warp * tile_columns + lane / 4 + lane % 4 / 2 * 16 + lane % 2 * 8;
	int of_each = p.then == gate ? 2 : 1;  // matrices
	for (;;) {
		float* to = keep;
		int tiles = seldom(round.size() * of_each);
		for (int t = 0; t < tiles; t++, to += warps * tile_columns) {
			float sums[2][4] = {};
			u32 what;
			do {
				what = feed.coming[0];
				const u32* slot = (const u32*)(base + (feed.next_unit() - first_byte));
				multiply_unit_digits(step_width(what), what & four_groups ? 0 : 1, sums, (const uint4*)((const char*)slot + feed.words_at), row, step_row(what),
					StepCodes{slot, select}, StepUnits{high_twice(what), slot}, e, turn);
				if (!feed.ahead) feed.ask();
				feed.look();
			} while (!(what & last_step));
			keep_lane(to, sums, digit);
		}
		__syncthreads();
		if (warp < round.size()) finish_row<warps, links>(p, parts, round, results[threadIdx.x], &norm);
		if (round.to == run.to) break;
		__syncthreads();
		round = {round.to, min(round.to + span_of(p), run.to)};
		if (warp < round.size()) results[threadIdx.x] = result_of<links>(p, round.from + warp, lane, leaves ? attending(pos, p.leaving.window, p.leaving.most) : 0);
	}
	arrived<0>();
}

// qmatmul is the product of some rows by fp16.
template <int warps, int slots, int most_rows>
__device__ inline void qmatmul(const Product& p) {
	constexpr bool links = most_rows > 1;
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float factors[most_rows];
	bool leaves = most_rows == 1 && p.leaving.words;  // the next kernel takes what is left, and starts when this one has waited
	if (!leaves) let_next();
	constexpr int sums_of = tile_columns * most_rows;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	float* parts = (float*)(base + warps * slots * p.slot);
	u32* units = (u32*)(parts + p.round * warps * sums_of);
	half* staged = (half*)(units + p.units);

	Feed<warps, slots> feed(p, first_byte + warp * slots * p.slot + lane * 4);
	u32 select = lane / 4 % 2 ? 0x3232 : 0x1010;
	Exponent e;
	Range run = run_of(p);
	int pos = 0;
	Ahead ahead(p);
	u32 unit = unit_of(p, threadIdx.x);
	wait_for_previous();
	let_next();
	keep_units(units, p, unit);
	if (leaves) pos = look_at(p.leaving.pos);
	stage(staged, p, ahead, p.rows);
	if (most_rows > 1) {
		for (int row = warp; row < p.rows; row += warps) {
			float f = factor<4>(p.link, row);
			if (lane == 0) factors[row] = f;
		}
	}
	if (!p.places) arrived<0>();
	__syncthreads();
	const char* x = (const char*)(staged + min(lane / 4, p.rows - 1) * stride(p.in) + lane % 4 * 8);
	int span = span_of(p), readers = leaves ? attending(pos, p.leaving.window, p.leaving.most) : 0;
	for (Range round = {run.from, run.from}; round.to < run.to;) {
		round = {round.to, min(round.to + span, run.to)};
		Late late = first_of<most_rows, links>(p, round);
		float* mine = parts + warp * sums_of;
		const u32* of = units;
		for (int k = 0; k < p.count; k++) {
			const Matrix& m = p.m[k];
			int tiles = in(m, round).size(), n = units_of<warps>(m).size();
			for (int t = 0; t < tiles; t++, mine += warps * sums_of) {
				float sums[2][4] = {};
				for (int j = 0; j < n; j++) {
					const u32* slot = (const u32*)(base + (feed.next_unit() - first_byte));
					u32 u = *slot;
					const uint4* words = (const uint4*)(slot + (1 + p.groups) * lane_words + lane * 3);
					LaneCodes codes = {slot + lane_words, select};
					multiply_unit<most_rows>(bits_of_unit(u), has_one_group(u), sums, words, (const uint4*)(x + row_of(u)), codes, of + group_of(u), shift_of(u), e);
					feed.ask();
				}
				keep<most_rows>(mine, sums);
			}
			of += padded_groups(m.groups);
		}
		__syncthreads();
		finish<warps, most_rows, links>(p, parts, round, p.rows, late, factors, readers);
		if (round.to < run.to) __syncthreads();
	}
	arrived<0>();
}

// qmatmul_digits is qmatmul of some rows of x, in stored order, by digits (digit_rows.cuh).
template <int warps, int slots, class X>
__device__ inline void qmatmul_digits(const Product& p) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float factors[X::rows];
	let_next();
	constexpr int sums_of = tile_columns * X::rows;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	float* parts = (float*)(base + warps * slots * p.slot);
	u32* units = (u32*)(parts + p.round * warps * sums_of);

	static_assert(slots == 2, "one unit is asked for in front of x, which waits behind it, and one behind x");
	Feed<warps, slots> feed(p, first_byte + warp * slots * p.slot + lane * 4, 1);
	u32 select = lane / 4 % 2 ? 0x3232 : 0x1010;
	Exponent e;
	Turn turn;
	X x(p, (char*)(units + p.units));
	Range run = run_of(p);
	keep_units(units, p, unit_of(p, threadIdx.x));
	__syncthreads();
	wait_for_previous();
	x.ask(p, [&] { feed.ask(); });
	for (int row = warp; row < p.rows; row += warps) {
		float f = factor<4>(p.link, row);
		if (lane == 0) factors[row] = f;
	}
	x.begin();
	int span = span_of(p);
	for (Range round = {run.from, run.from}; round.to < run.to;) {
		round = {round.to, min(round.to + span, run.to)};
		Late late = first_of<X::rows, true>(p, round);
		float* to = parts + warp * sums_of;
		const u32* of = units;
		for (int k = 0; k < p.count; k++) {
			const Matrix& m = p.m[k];
			int tiles = in(m, round).size(), n = units_of<warps>(m).size();
			for (int t = 0; t < tiles; t++, to += warps * sums_of) {
				float sums[4] = {};
				x.begin_tile(p, k);
				for (int j = 0; j < n; j++) {
					x.begin_unit();
					arrived<slots - 1>();
					const u32* slot = (const u32*)(base + (feed.slot - first_byte));
					u32 u = *slot;
					LaneCodes codes = {slot + lane_words, select};
					multiply_rows(bits_of_unit(u), shift_of(u), sums, (const uint4*)(slot + (1 + p.groups) * lane_words + lane * 3), x, x.column_of(u), codes, of + group_of(u), e, turn);
					feed.ask();
				}
				x.keep(to, sums);
			}
			of += padded_groups(m.groups);
		}
		__syncthreads();
		finish<warps, X::rows, true>(p, parts, round, p.rows, late, factors, 0);
		if (round.to < run.to) __syncthreads();
	}
	arrived<0>();
}

// Beside a block there is room for as many registers as so many warps more would have: of
// qmatmul_one, for a block of attend_left.cu.
constexpr int warps_beside = 4;

#define QMATMUL_ROW(name, slots, way)                                                      \
	extern "C" __global__ void __launch_bounds__(32 * many_warps + 32 * warps_beside, 1)    \
	name(const __grid_constant__ Product product) {                                        \
		qmatmul_row<many_warps, slots, way>(product);                                      \
	}

QMATMUL_ROW(qmatmul_one, 3, parted)
QMATMUL_ROW(qmatmul_one_wide, 2, parted)
QMATMUL_ROW(qmatmul_placed, 3, placed)
QMATMUL_ROW(qmatmul_placed_wide, 2, placed)  // where shared memory has no room for three slots

#define QMATMUL(name, warps, slots, most_rows)                        \
	extern "C" __global__ void __launch_bounds__(32 * warps, 1)       \
	name(const __grid_constant__ Product product) {                   \
		qmatmul<warps, slots, most_rows>(product);                    \
	}

QMATMUL(qmatmul_halves, many_warps, 2, 1)  // where shared memory has no room for a row of digits
QMATMUL(qmatmul_more, many_warps, 2, most)
QMATMUL(qmatmul_few, few_warps, 1, most)

#define QMATMUL_DIGITS(name, X)                                       \
	extern "C" __global__ void __launch_bounds__(32 * many_warps, 1) \
	name(const __grid_constant__ Product product) {                  \
		qmatmul_digits<many_warps, 2, X>(product);                   \
	}

QMATMUL_DIGITS(qmatmul_two, TwoRows)
QMATMUL_DIGITS(qmatmul_four, FourRows)
