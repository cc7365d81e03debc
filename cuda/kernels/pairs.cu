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
constexpr int held_bytes = 131584;  // of half a window
constexpr float least_share = 1.0f / 1024;

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
	int64 next, plane;            // from one part, and plane, to the next
	int tiles;                    // of planes, in a row
	int count, row, rows, n, ld;
};

// Levels is what the weights of a group of a column are measured in.
struct Levels {
	float scale, zero;
	__device__ float value(float q) const { return __half2float(__float2half_rn(__fmul_rn(q, scale))); }
};

// Row is what a lane knows of one of its rows.
struct Row {
	float left, diagonal, reach, code, up, down;

	// neighbours finds what the codes beside a row's would change its value by; 0 if there is
	// none.
	__device__ void neighbours(Levels grid) {
		float now = grid.value(code);
		up = code < grid.zero - 1 ? __fsub_rn(grid.value(code + 1), now) : 0;
		down = code > -grid.zero ? __fsub_rn(grid.value(code - 1), now) : 0;
	}
};

// gain returns what the loss falls by where a value changes by d; twice is 2r.
__device__ inline float gain(float d, float twice, float diagonal) { return __fmul_rn(d, __fsub_rn(twice, __fmul_rn(d, diagonal))); }

// Whole is a window of h where it is.
struct Whole {
	const float* h;  // [rows, ...], of rows of k
	int k;

	__device__ float at(int i, int j) const { return h[(int64)i * k + j]; }
};

// Half is a window of h in shared memory, row after row, up to the diagonal. What 32 rows
// of a column, or 32 columns of a row, are in are 32 banks.
struct Half {
	const float* h;

	__device__ float at(int i, int j) const { return h[i >= j ? i * (i + 1) / 2 + j : j * (j + 1) / 2 + i]; }
};
static_assert(held_bytes == 4 * window_rows * (window_rows + 1) / 2, "held_bytes");

// Column is a warp's work.
template <class Moments>
struct Column {
	Row rows[each];
	Levels grid[each];
	Moments h;       // of the window
	int lane, all;
	unsigned changed;
	float largest;   // change of a code

	__device__ Column(const Window& s, Moments moments, int column)
		: h(moments), lane(threadIdx.x % 32), all(s.rows), changed(0), largest(0) {
		float lowered = 1 / lift_of(s.lifted);  // a power of two
#pragma unroll
		for (int e = 0; e < each; e++) {
			rows[e] = {};
			if (32 * e >= all) continue;
			int group = s.groups[s.row / 32 + e] / 16, bits = s.groups[s.row / 32 + e] % 16, i = 32 * e + lane;
			grid[e] = {scale_of(s.scales[(int64)group * s.n + column], s.largest[group]), (float)(1 << (bits - 1))};
			float left = 0;
			for (int p = 0; p < s.count; p++) left += s.parts[p * s.next + (int64)i * s.ld + column];
			rows[e].left = left * lowered;
			rows[e].code = s.codes[(int64)(s.row + i) * s.n + column] - grid[e].zero;
			rows[e].reach = s.reach[s.row + i];
			rows[e].neighbours(grid[e]);
			largest = fmaxf(largest, fmaxf(rows[e].up, -rows[e].down));
		}
		for (int step = 16; step > 0; step /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, step));
	}

	// begin reads the diagonal of h.
	__device__ void begin() {
#pragma unroll
		for (int e = 0; e < each; e++)
			if (32 * e < all) rows[e].diagonal = h.at(32 * e + lane, 32 * e + lane);
	}

	// read reads row i of h.
	__device__ void read(float (&f)[each], int i) const {
#pragma unroll
		for (int e = 0; e < each; e++) f[e] = 32 * e < all ? h.at(i, 32 * e + lane) : 0;
	}

	// change changes a lane's row of which f is the row of h, and what is left with it.
	__device__ void change(const float (&f)[each], int e, int owner, float d) {
#pragma unroll
		for (int a = 0; a < each; a++) {
			if (a == e && lane == owner) {
				rows[a].code += d == rows[a].up ? 1 : -1;
				rows[a].neighbours(grid[a]);
				changed |= 1u << a;
			}
			rows[a].left = __fsub_rn(rows[a].left, __fmul_rn(f[a], d));
		}
	}

	// partner returns the row that gains most by a change of row i by d, and more than
	// least, all lanes the same; -1 if there is none.
	__device__ int partner(const float (&f)[each], int i, float d, float least) const {
		int at = -1;
#pragma unroll
		for (int e = 0; e < each; e++) {
			float x = __fsub_rn(rows[e].left, __fmul_rn(f[e], d)), twice = __fadd_rn(x, x);
			float a = gain(rows[e].up, twice, rows[e].diagonal), b = gain(rows[e].down, twice, rows[e].diagonal);
			if ((a > least || b > least) && 32 * e + lane != i) least = fmaxf(a, b), at = 32 * e + lane;
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

	// settle changes row j, which i has been changed for.
	__device__ void settle(int j) {
		float f[each];
		read(f, j);
		change(f, j / 32, j % 32, __shfl_sync(~0u, better(pick(j / 32)).x, j % 32));
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
		float twice = __fadd_rn(r.left, r.left), up = gain(r.up, twice, r.diagonal), down = gain(r.down, twice, r.diagonal);
		return up >= down ? make_float2(r.up, up) : make_float2(r.down, down);
	}

	// A Chance is the change of a row's code that may pay.
	struct Chance {
		float d;     // by which its value changes; 0 if that is out of the question
		float need;  // what a partner has to gain
	};

	__device__ Chance chance(const Row& r) const {
		float2 b = better(r);
		float need = __fsub_rn(__fmul_rn(__fmul_rn(__fmul_rn(b.x, b.x), r.diagonal), least_share), b.y);
		bool far = need > __fmul_rn(__fmul_rn(2 * fabsf(b.x), r.reach), largest);
		return {far ? 0 : b.x, need};
	}

	// visit changes row 32·e + owner by d if that pays, and reports whether it has.
	__device__ bool visit(int e, int owner, float d, float need) {
		float f[each];
		read(f, 32 * e + owner);
		int j = partner(f, 32 * e + owner, d, need <= 0 ? 0 : need);
		if (j < 0 && !(need < 0)) return false;
		change(f, e, owner, d);
		if (j >= 0) settle(j);
		return true;
	}

	// go goes through the rows.
	__device__ void go() {
#pragma unroll 1
		for (int e = 0; 32 * e < all; e++) {
			Chance c = chance(pick(e));
			unsigned rows = __ballot_sync(~0u, c.d != 0);
#pragma unroll 1
			while (rows) {
				int owner = __ffs(rows) - 1;
				if (visit(e, owner, __shfl_sync(~0u, c.d, owner), __shfl_sync(~0u, c.need, owner))) {
					c = chance(pick(e));
					rows = __ballot_sync(~0u, c.d != 0);
				}
				rows &= ~1u << owner;  // 0 behind the last
			}
		}
	}

	// store stores what has changed.
	__device__ void store(const Window& s, int column) const {
		float lift = lift_of(s.most);
#pragma unroll
		for (int e = 0; e < each; e++) {
			if (!(changed >> e & 1)) continue;
			int row = s.row + 32 * e + lane;
			int64 at = (int64)row * s.n + column, to = place_of(row, column, s.tiles);
			s.codes[at] = (unsigned char)(rows[e].code + grid[e].zero);
			Pair p((s.w[at] - grid[e].value(rows[e].code)) * root_of(rows[e].diagonal) * lift);
			s.planes[to] = p.high;
			s.planes[s.plane + to] = p.low;
		}
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

// hold copies half of a window of h to shared memory.
__device__ void hold(float* to, const float* h, int k, const Window& s) {
	int lane = threadIdx.x % 32;
	for (int i = threadIdx.x / 32; i < s.rows; i += blockDim.x / 32)
		for (int j = lane; j <= i; j += 32) copy4((u32*)to + i * (i + 1) / 2 + j, (const u32*)h + (int64)(s.row + i) * k + s.row + j, true);
	commit();
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
	after_previous();
	if (!some) return;
	bool mine = warp < columns && column < s.n;
	Column<Half> c(s, Half{memory}, mine ? column : 0);
	arrived<0>();
	__syncthreads();
	if (!mine) return;
	c.begin();
	c.go();
	c.store(s, column);
}

extern "C" __global__ void __launch_bounds__(32 * columns) pairs(const void* list, const float* h, int k) {
	after_previous();
	const Window s = ((const Window*)list)[blockIdx.y];
	int column = blockIdx.x * columns + threadIdx.x / 32;
	if (column >= s.n) return;
	Column<Whole> c(s, Whole{h + (int64)s.row * k + s.row, k}, column);
	c.begin();
	c.go();
	c.store(s, column);
}
