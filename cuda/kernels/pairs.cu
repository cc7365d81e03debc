// Changes codes of two rows at a time, in windows of 256 rows of H·(W-V): row after row
// to the better of the codes beside its own, with that of the row that it helps most, if
// the loss falls. In the CPU's roundings (internal/device/cpu/pairs.go).
//
// A warp has a column, a lane every 32nd row. The window of h, which is symmetric to the
// bit, is in shared memory as far as it is not above the diagonal, where there is room for
// that, or comes from the first cache. Which of 32 rows may change is found for all at once,
// and again after each change. Few rows change: codes and operands (planes.cuh) are stored
// where they do.
#include "coding.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "scaled.cuh"

constexpr int window_rows = 256, columns = 8, columns_held = 16;
constexpr int warps_held = 8;  // of a block, at least
static_assert(warps_held <= columns_held, "as threads");
constexpr int each = window_rows / 32;
constexpr int held_bytes = 163840;  // of half a window, and of what is left of columns
constexpr int most_sums = 16, half_floats = 36 * 32 * 32;
constexpr float least_share = 1.0f / 1024;
constexpr int most_together = 4, most_changes = (most_together - 1) * window_rows;  // windows that share products, and changes in those before the last

// none is what a row reads of itself: it gains nothing by that.
__device__ inline float none() { return __int_as_float(0x7fffffff); }

// Window is one of a list; quantize_pairs.go has the same struct.
struct Window {
	const float* parts;           // [count][rows, n], of rows of ld: r is their sum
	const float* lifted;          // [1]: the largest magnitude by which that is lifted
	const float* w;               // [k, n], as all that follows
	unsigned char* codes;
	const unsigned char* scales;  // [groups, n]
	const half* largest;          // [groups]
	const int* groups;            // [k/32]: the group of 32 rows, times 16, and its bits
	const float* reach;           // [k]
	half* planes;                 // of errors
	const float* most;            // [1]: by which they are lifted
	float2* changes;              // [n][most_changes]: rows, as bits, and by what their values have changed since parts were made
	int* counts;                  // [n]: so many
	int64 next, plane;            // from one part, and plane, to the next
	int tiles;                    // of planes, in a row
	int count, row, rows, n, ld;
	int since, keeps;             // there are changes; those of this window are wanted, too
};

// Levels is what the weights of a group of a column are measured in.
struct Levels {
	float scale, zero;
	__device__ float value(float q) const { return __half2float(__float2half_rn(__fmul_rn(q, scale))); }
};

// Row is what a lane knows of one of its rows.
struct Row {
	float twice;             // what is left, times two
	float up, down;          // by what the codes beside its own would change its value; 0 if there is none
	float up_cost, down_cost;  // that times the diagonal of h
	float code, diagonal, reach;

	// settle finds the codes beside its own.
	__device__ void settle(Levels grid) {
		float now = grid.value(code);
		up = code < grid.zero - 1 ? __fsub_rn(grid.value(code + 1), now) : 0;
		down = code > -grid.zero ? __fsub_rn(grid.value(code - 1), now) : 0;
		up_cost = __fmul_rn(up, diagonal), down_cost = __fmul_rn(down, diagonal);
	}
};

// gain returns what the loss falls by where a value changes by d, which costs d·h[i, i].
__device__ inline float gain(float d, float cost, float twice) { return __fmul_rn(d, __fsub_rn(twice, cost)); }

// Whole is a window of h where it is.
struct Whole {
	const float* h;  // [rows, ...], of rows of k
	int k, all;

	// read reads row 32·of + i.
	__device__ void read(float (&f)[each], int of, int i) const {
		const float* row = h + (int64)(32 * of + i) * k + threadIdx.x % 32;
#pragma unroll
		for (int e = 0; e < each; e++) f[e] = 32 * e < all && (e != of || i != threadIdx.x % 32) ? row[32 * e] : none();
	}
};

// Folded is a window of h in shared memory, squares of 32 x 32 that are not above the
// diagonal, row after row, column j of row i in place j ^ i: what 32 rows of a column, or 32
// columns of a row, are in are 32 banks.
struct Folded {
	const float* h;

	__device__ static int place(int i, int j) { return (i / 32 * (i / 32 + 1) / 2 + j / 32) * 1024 + i % 32 * 32 + (i ^ j) % 32; }
	__device__ void read(float (&f)[each], int of, int i) const {
		int lane = threadIdx.x % 32, turned = i ^ lane, row = i * 32 + turned, column = lane * 32 + turned;
#pragma unroll
		for (int e = 0; e < each; e++) f[e] = h[(e > of ? column : row) + (e > of ? e * (e + 1) / 2 + of : of * (of + 1) / 2 + e) * 1024];
	}
};
static_assert(half_floats == each * (each + 1) / 2 * 1024 && held_bytes == 4 * (half_floats + columns_held * window_rows), "held_bytes");

// Column is a warp's work.
template <class Moments>
struct Column {
	Row rows[each];
	Levels grid[each];
	int group[each];  // times 16, and its bits
	Moments h;       // of the window
	int lane, all;
	unsigned changed;
	float largest;   // change of a code

	// What no kernel in front has made comes first. Rows past the last are some others, whose
	// codes have none beside them.
	__device__ Column(const Window& s, const float* whole, int k, Moments moments) : h(moments), lane(threadIdx.x % 32), all(s.rows), changed(0), largest(0) {
#pragma unroll
		for (int e = 0; e < each; e++) {
			int row = s.row + min(32 * e, all - 32) + lane;
			rows[e].diagonal = whole[(int64)row * (k + 1)];
			group[e] = s.groups[row / 32];
		}
	}

	// follow has what has changed in other windows since products were made reach this one.
	__device__ void follow(const Window& s, int column, const float* whole, int k) {
		constexpr int some = 4;
		const float2* list = s.changes + (int64)column * most_changes;
		int n = s.counts[column];
#pragma unroll 1
		for (int i = 0; i < n; i += some) {
			float f[some][each], d[some];
#pragma unroll
			for (int j = 0; j < some; j++) {
				float2 c = list[min(i + j, n - 1)];
				const float* row = whole + (int64)__float_as_int(c.x) * k + s.row + lane;
				d[j] = i + j < n ? 2 * c.y : 0;
#pragma unroll
				for (int e = 0; e < each; e++) f[j][e] = row[min(32 * e, all - 32)];
			}
#pragma unroll
			for (int j = 0; j < some; j++)
#pragma unroll
				for (int e = 0; e < each; e++) rows[e].twice = __fsub_rn(rows[e].twice, __fmul_rn(f[j][e], d[j]));
		}
	}

	// begin brings the rest; of what is left, the rows are side by side.
	__device__ void begin(const Window& s, int column, const float* left, const float* whole, int k) {
#pragma unroll
		for (int e = 0; e < each; e++) {
			int row = s.row + min(32 * e, all - 32) + lane;
			rows[e].twice = 2 * left[row - s.row];
			rows[e].reach = s.reach[row];
			rows[e].code = s.codes[(int64)row * s.n + column];
			grid[e] = {scale_of(s.scales[(int64)(group[e] / 16) * s.n + column], s.largest[group[e] / 16]), (float)(1 << (group[e] % 16 - 1))};
		}
		if (s.since) follow(s, column, whole, k);
#pragma unroll
		for (int e = 0; e < each; e++) {
			rows[e].code -= grid[e].zero;
			rows[e].settle(grid[e]);
			if (32 * e >= all) rows[e].up = rows[e].down = 0;
			largest = fmaxf(largest, fmaxf(rows[e].up, -rows[e].down));
		}
		for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
	}

	// change changes row 32·e + owner, of which f is the row of h, and what is left with it.
	__device__ void change(const float (&f)[each], int e, int owner, float d) {
		Row r = pick(e);
		Levels g = grid[0];
#pragma unroll
		for (int a = 1; a < each; a++)
			if (a == e) g = grid[a];
		r.code += d == r.up ? 1 : -1;
		r.settle(g);
		bool own = lane == owner;
		if (own) changed |= 1u << e;
#pragma unroll
		for (int a = 0; a < each; a++) {
			bool here = own && a == e;
			rows[a].twice = __fsub_rn(rows[a].twice, __fmul_rn(here ? rows[a].diagonal : f[a], 2 * d));
			if (here) rows[a].code = r.code, rows[a].up = r.up, rows[a].down = r.down, rows[a].up_cost = r.up_cost, rows[a].down_cost = r.down_cost;
		}
	}

	// gains finds the most that a lane's other rows gain by a change of a row by d.
	__device__ float gains(const float (&f)[each], float d) const {
		float most[each];
#pragma unroll
		for (int e = 0; e < each; e++) {
			float twice = __fsub_rn(rows[e].twice, __fmul_rn(f[e], 2 * d));
			most[e] = fmaxf(gain(rows[e].up, rows[e].up_cost, twice), gain(rows[e].down, rows[e].down_cost, twice));
		}
#pragma unroll
		for (int step = each / 2; step > 0; step /= 2)
#pragma unroll
			for (int e = 0; e < step; e++) most[e] = fmaxf(most[e], most[e + step]);
		return most[0];
	}

	// partner returns the row that gains most by a change of a row by d, and more than
	// least, all lanes the same; -1 if there is none.
	__device__ int partner(const float (&f)[each], float d, float least) const {
		int at = -1;
#pragma unroll
		for (int e = 0; e < each; e++) {
			float twice = __fsub_rn(rows[e].twice, __fmul_rn(f[e], 2 * d));
			float most = fmaxf(gain(rows[e].up, rows[e].up_cost, twice), gain(rows[e].down, rows[e].down_cost, twice));
			if (most > least) least = most, at = 32 * e + lane;
		}
		if (!__any_sync(~0u, at >= 0)) return -1;
		unsigned mine = at >= 0 ? __float_as_uint(least) : 0, most = mine;  // positive floats are in order
#if __CUDA_ARCH__ >= 800
		most = __reduce_max_sync(~0u, mine);
		return __reduce_min_sync(~0u, at >= 0 && mine == most ? at : window_rows);
#else
		for (int step = 16; step > 0; step /= 2) most = max(most, __shfl_xor_sync(~0u, most, step));
		int first = at >= 0 && mine == most ? at : window_rows;
		for (int step = 16; step > 0; step /= 2) first = min(first, __shfl_xor_sync(~0u, first, step));
		return first;
#endif
	}

	// pick returns row e of a lane.
	__device__ Row pick(int e) const {
		Row r = rows[0];
#pragma unroll
		for (int a = 1; a < each; a++)
			if (a == e) r = rows[a];
		return r;
	}

	// better returns by what the better neighbour of a row changes its value, and what that
	// gains.
	__device__ static float2 better(const Row& r) {
		float up = gain(r.up, r.up_cost, r.twice), down = gain(r.down, r.down_cost, r.twice);
		return up >= down ? make_float2(r.up, up) : make_float2(r.down, down);
	}

	// A Chance is the change of a row's code that may pay.
	struct Chance {
		float d;      // by which its value changes; 0 if that is out of the question
		float need;   // what a partner has to gain
		float least;  // and no less than 0
	};

	__device__ Chance chance(const Row& r) const {
		float2 b = better(r);
		float need = __fsub_rn(__fmul_rn(__fmul_rn(__fmul_rn(b.x, b.x), r.diagonal), least_share), b.y);
		bool far = need > __fmul_rn(__fmul_rn(2 * fabsf(b.x), r.reach), largest);
		return {far ? 0 : b.x, need, need <= 0 ? 0 : need};
	}

	// A Try is a change of a row that one lane has.
	struct Try {
		float f[each], d, least;
		bool alone;  // it pays by itself

		__device__ Try(const Column& c, const Chance& from, int e, int owner)
			: d(__shfl_sync(~0u, from.d, owner)), least(__shfl_sync(~0u, from.least, owner)), alone(__shfl_sync(~0u, from.need, owner) < 0) {
			c.h.read(f, e, owner);
		}
		__device__ bool pays(const Column& c) const { return alone | c.gains(f, d) > least; }
	};

	// go goes through the rows, of which few change: two are tried at a time.
	__device__ void go() {
#pragma unroll 1
		for (int e = 0; 32 * e < all; e++) {
			Chance c = chance(pick(e));
			unsigned rows = __ballot_sync(~0u, c.d != 0);
#pragma unroll 1
			while (rows) {
				unsigned rest = rows & (rows - 1);
				int first = __ffs(rows) - 1, second = rest ? __ffs(rest) - 1 : first;
				Try a(*this, c, e, first), b(*this, c, e, second);
				bool a_pays = a.pays(*this), b_pays = b.pays(*this);
				bool one = __any_sync(~0u, a_pays), two = __any_sync(~0u, b_pays);
				rows = rest & (rest - 1);
				if (!one && !two) continue;
				int owner = one ? first : second;
				visit(e, owner, one ? a.d : b.d, one ? a.least : b.least);
				c = chance(pick(e));
				rows = __ballot_sync(~0u, c.d != 0) & ~1u << owner;  // 0 behind the last
			}
		}
	}

	// visit changes row 32·e + owner by d, and the row that it helps most, if there is one.
	__device__ void visit(int e, int owner, float d, float least) {
		bool first = true;
#pragma unroll 1
		while (true) {
			float f[each];
			h.read(f, e, owner);
			int j = first ? partner(f, d, least) : -1;
			change(f, e, owner, d);
			if (j < 0) return;
			first = false, e = j / 32, owner = j % 32;
			d = __shfl_sync(~0u, better(pick(e)).x, owner);
		}
	}

	// store stores what has changed.
	__device__ void store(const Window& s, int column) const {
		float lift = lift_of(s.most);
		float2* list = s.changes + (int64)column * most_changes;
		int n = s.since ? s.counts[column] : 0;
#pragma unroll
		for (int e = 0; e < each; e++) {
			bool own = changed >> e & 1;
			unsigned all = __ballot_sync(~0u, own);
			if (own) {
				int row = s.row + 32 * e + lane;
				int64 at = (int64)row * s.n + column, to = place_of(row, column, s.tiles);
				float value = grid[e].value(rows[e].code);
				if (s.keeps) list[n + __popc(all & (1u << lane) - 1)] = make_float2(__int_as_float(row), __fsub_rn(value, grid[e].value(s.codes[at] - grid[e].zero)));
				s.codes[at] = (unsigned char)(rows[e].code + grid[e].zero);
				Pair p((s.w[at] - value) * root_of(rows[e].diagonal) * lift);
				s.planes[to] = p.high;
				s.planes[s.plane + to] = p.low;
			}
			n += __popc(all);
		}
		__syncwarp();
		if (s.keeps && lane == 0) s.counts[column] = n;
	}
};

// pairs_reach stores, for every row of h, the largest magnitude of its moments with the
// others of its window. A warp a row.
extern "C" __global__ void pairs_reach(
	float* reach,     // [k]
	const float* h,   // [k, k]
	int k) {
	after_previous();
	int row = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
	if (row >= k) return;
	int first = row / window_rows * window_rows, end = min(k, first + window_rows);
	float most = 0;
	for (int j = first + lane; j < end; j += 32)
		if (j != row) most = fmaxf(most, fabsf(h[(int64)row * k + j]));
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
	if (lane == 0) reach[row] = most;
}

// hold copies a window of h to shared memory.
__device__ void hold(float* to, const float* h, int k, const Window& s) {
	int lane = threadIdx.x % 32;
	for (int i = threadIdx.x / 32; i < s.rows; i += blockDim.x / 32)
		for (int j = lane; j < (i / 32 + 1) * 32; j += 32) {
			float* at = to + Folded::place(i, j);
			if (i == j)
				*at = none();
			else
				copy4((u32*)at, (const u32*)h + (int64)(s.row + i) * k + s.row + j, true);
		}
	commit();
}

// sum adds the parts of what is left of some columns, all rows, as threads of a block, to
// places where the rows of a column are side by side. All parts are asked for at once.
__device__ void sum(float (*to)[window_rows], const Window& s, int column, int count) {
	float lowered = 1 / lift_of(s.lifted);  // a power of two
	for (int at = threadIdx.x; at < s.rows * count; at += blockDim.x) {
		const float* from = s.parts + (int64)(at / count) * s.ld + column + at % count;
		float left = 0, v[most_sums];
#pragma unroll
		for (int p = 0; p < most_sums; p++)
			if (p < s.count) v[p] = from[p * s.next];
#pragma unroll
		for (int p = 0; p < most_sums; p++)
			if (p < s.count) left += v[p];
		to[at % count][at / count] = left * lowered;
	}
}

// pairs_held has a window of h in shared memory, which all warps of a block bring, before the
// kernel in front ends: neither h nor the list is its work. The first warps, as many as a
// block has columns, do the rest.
extern "C" __global__ void __launch_bounds__(32 * columns_held) pairs_held(const void* list, const float* h, int k, int columns) {
	extern __shared__ float memory[];
	let_next();
	const Window s = ((const Window*)list)[blockIdx.y];
	int warp = threadIdx.x / 32, column = blockIdx.x * columns + warp;
	bool some = blockIdx.x * columns < s.n;
	if (some) hold(memory, h, k, s);
	Column<Folded> c(s, h, k, Folded{memory});
	after_previous();
	if (!some) return;
	float(*left)[window_rows] = (float(*)[window_rows])(memory + half_floats);
	sum(left, s, blockIdx.x * columns, min(columns, s.n - blockIdx.x * columns));
	arrived<0>();
	__syncthreads();
	if (warp >= columns || column >= s.n) return;
	c.begin(s, column, left[warp], h, k);
	c.go();
	c.store(s, column);
}

// pairs has a window of h where it is.
extern "C" __global__ void __launch_bounds__(32 * columns) pairs(const void* list, const float* h, int k) {
	__shared__ float left[columns][window_rows];
	after_previous();
	const Window s = ((const Window*)list)[blockIdx.y];
	int first = blockIdx.x * columns, column = first + threadIdx.x / 32;
	if (first >= s.n) return;
	sum(left, s, first, min(columns, s.n - first));
	__syncthreads();
	if (column >= s.n) return;
	Column<Whole> c(s, h, k, Whole{h + (int64)s.row * k + s.row, k, s.rows});
	c.begin(s, column, left[threadIdx.x / 32], h, k);
	c.go();
	c.store(s, column);
}
