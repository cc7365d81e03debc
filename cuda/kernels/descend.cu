// Coordinate descent on the rows of a block of groups, up to 256 (coding.cuh): a code
// becomes the best one given what is left, and the change of its weight reaches the rows
// after it, each by x[j] -= h[i, j]·x[i]: within a group rounded after every operation in
// the order of the CPU, beyond it fused. The errors that are left become operands
// (planes.cuh), rows times the powers of two near the roots of h's diagonal. h is
// symmetric to the bit.
//
// A block of threads has 32 columns. 32 rows at a time, one warp quantizes them in turn,
// a thread a column, in registers. What a row waits for is arithmetic alone: meanwhile the
// other warps pass on what the rows before have changed to those behind the next ones,
// store them, and fetch what comes next. Then all pass the changes on to the next 32 rows.
#include "coding.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "scaled.cuh"

constexpr int most_rows = 256, columns = 32, threads = 256;
constexpr int room_bytes = 104864;
constexpr int part = 32, warps = threads / 32, helpers = warps - 1, most_parts = most_rows / part;

// Block is one of a list; quantize_descend.go has the same struct.
struct Block {
	const Step* steps;   // its groups
	float* parts;        // [count][rows, n], of rows of ld: what is left is their sum
	const float* most;   // [1]: the largest magnitude of the matrix, by which that is lifted, or null
	int64 next;          // floats from one part to the next
	int groups, count, rows, n, ld, unused;
};

// added returns what is left of four columns of a row. Parts are asked for some at a time.
__device__ inline float4 added(const Block& b, int row, int column, float lowered) {
	constexpr int batch = 8;
	const float* from = b.parts + (int64)row * b.ld + column;
	float4 sum = {};
	for (int first = 0; first < b.count; first += batch) {
		float4 v[batch];
#pragma unroll
		for (int p = 0; p < batch; p++)
			if (first + p < b.count) v[p] = *(const float4*)(from + (first + p) * b.next);
#pragma unroll
		for (int p = 0; p < batch; p++)
			if (first + p < b.count) sum.x += v[p].x, sum.y += v[p].y, sum.z += v[p].z, sum.w += v[p].w;
	}
	return make_float4(sum.x * lowered, sum.y * lowered, sum.z * lowered, sum.w * lowered);
}

struct Room {
	float x[most_rows][columns];               // what is left, then changes
	float close[2][2 * part][part];            // h of 32 rows with themselves and the next 32
	float beyond[2][most_rows - 2 * part][part];  // and with those behind
	unsigned char codes[4][part][columns];
	float scales[most_parts][columns];         // of groups
	float reciprocal[part], lift[2][part];
	Step steps[most_parts];
	int group[most_parts];                     // of every 32 rows

	__device__ const Step& step(int p) const { return steps[group[p]]; }
	__device__ Grid grid(int p) const { return Grid(scales[group[p]][threadIdx.x % 32], steps[group[p]].bits); }
};
static_assert(sizeof(Room) == room_bytes, "room_bytes");

// begin brings the groups of a block.
__device__ void begin(Room& room, const Block& b) {
	constexpr int words = sizeof(Step) / 4;
	for (int i = threadIdx.x; i < b.groups * words; i += threads) ((int*)room.steps)[i] = ((const int*)b.steps)[i];
	__syncthreads();
	for (int g = threadIdx.x / 32; g < b.groups; g += warps) {
		const Step& s = room.steps[g];
		room.scales[g][threadIdx.x % 32] = scale_of(s.scales[blockIdx.x * columns + threadIdx.x % 32], *s.largest);
		for (int p = s.before / part + threadIdx.x % 32; p < (s.before + s.rows) / part; p += 32) room.group[p] = g;
	}
	__syncthreads();
}

// fetch begins to copy what 32 rows, from part p on, need: h with themselves and the next 32
// rows, and their codes. By count threads.
__device__ void fetch(Room& room, const Block& b, const float* h, int k, int p, int thread, int count) {
	const Step& s = room.step(p);
	int first = s.row - s.before, from = p * part, rows = min(2 * part, b.rows - from), column = blockIdx.x * columns;
	for (int t = thread; t < rows * (part / 4); t += count) {
		int j = t / (part / 4), i = t % (part / 4) * 4;
		copy16(&room.close[p % 2][j][i], h + (int64)(first + from + j) * k + first + from + i, true);
	}
	for (int t = thread; t < part * columns / 16; t += count) {
		int i = t / (columns / 16), c = t % (columns / 16) * 16;
		copy16(&room.codes[p % 4][i][c], s.codes + (int64)(from - s.before + i) * s.n + column + c, true);
	}
}

// fetch_beyond begins to copy h of the rows of part p with those behind the next part.
__device__ void fetch_beyond(Room& room, const Block& b, const float* h, int k, int p, int thread, int count) {
	const Step& s = room.step(p);
	int first = s.row - s.before, from = p * part;
	for (int t = thread; t < (b.rows - from - 2 * part) * (part / 4); t += count) {
		int j = t / (part / 4), i = t % (part / 4) * 4;
		copy16(&room.beyond[p % 2][j][i], h + (int64)(first + from + 2 * part + j) * k + first + from + i, true);
	}
}

// turn quantizes 32 rows, by one warp, and leaves codes and changes.
__device__ void turn(Room& room, int p) {
	int lane = threadIdx.x, from = p * part;
	const float(*h)[part] = room.close[p % 2];
	const Grid grid = room.grid(p);
	float diagonal = h[lane][lane];
	room.reciprocal[lane] = __frcp_rn(diagonal);
	room.lift[p % 2][lane] = root_of(diagonal);
	float x[part], q[part];  // q: the weight as it is, then the code
#pragma unroll
	for (int i = 0; i < part; i++) {
		x[i] = room.x[from + i][lane];
		q[i] = grid.value(room.codes[p % 4][i][lane] - grid.zero);
	}
	__syncwarp();
#pragma unroll
	for (int i = 0; i < part; i++) {
		float old = q[i];
		q[i] = grid.nearest(__fadd_rn(old, __fmul_rn(x[i], room.reciprocal[i])));
		x[i] = __fsub_rn(grid.value(q[i]), old);
#pragma unroll
		for (int j = (i + 1) / 4 * 4; j < part; j += 4) {
			float4 f = *(const float4*)&h[i][j];
			if (j > i) x[j] = __fsub_rn(x[j], __fmul_rn(f.x, x[i]));
			if (j + 1 > i) x[j + 1] = __fsub_rn(x[j + 1], __fmul_rn(f.y, x[i]));
			if (j + 2 > i) x[j + 2] = __fsub_rn(x[j + 2], __fmul_rn(f.z, x[i]));
			if (j + 3 > i) x[j + 3] = __fsub_rn(x[j + 3], __fmul_rn(f.w, x[i]));
		}
	}
#pragma unroll
	for (int i = 0; i < part; i++) {
		room.x[from + i][lane] = x[i];
		room.codes[p % 4][i][lane] = (unsigned char)(q[i] + grid.zero);
	}
}

// Rows of a warp of several that store what 32 rows have become.
constexpr int stored = (part + helpers - 1) / helpers;

// load reads the weights of a warp's rows.
__device__ void load(float (&w)[stored], const Room& room, int p, int warp) {
	const Step& s = room.step(p);
	const float* at = s.w + (int64)(p * part - s.before) * s.n + blockIdx.x * columns + threadIdx.x % 32;
#pragma unroll
	for (int e = 0; e < stored; e++) {
		int i = warp + e * helpers;
		if (i < part) w[e] = at[(int64)i * s.n];
	}
}

__device__ void store(const Room& room, const float (&w)[stored], int p, int warp) {
	const Step& s = room.step(p);
	const Grid grid = room.grid(p);
	float lift = lift_of(s.most);
	int lane = threadIdx.x % 32, column = blockIdx.x * columns + lane;
	int local = p * part - s.before, chunk = column / 8 % 8;
	int64 at = ((int64)((s.row + local) / tile_rows) * s.tiles + column / tile_cols) * tile_halves + column % 8;
#pragma unroll
	for (int e = 0; e < stored; e++) {
		int i = warp + e * helpers;
		if (i >= part) break;
		unsigned char code = room.codes[p % 4][i][lane];
		s.codes[(int64)(local + i) * s.n + column] = code;
		Pair v((w[e] - grid.value(code - grid.zero)) * room.lift[p % 2][i] * lift);
		int64 to = at + i * tile_cols + (chunk ^ i % 8) * 8;
		s.planes[to] = v.high;
		s.planes[s.plane + to] = v.low;
	}
}

// Changes are those of 32 rows in a column.
struct Changes {
	float x[part];

	__device__ Changes(const Room& room, int p) {
#pragma unroll
		for (int i = 0; i < part; i++) x[i] = room.x[p * part + i][threadIdx.x % 32];
	}

	// reach has them reach four rows, by h.
	template <bool within>
	__device__ void reach(float (*to)[columns], const float (*h)[part]) const {
		int lane = threadIdx.x % 32;
		float y[4];
#pragma unroll
		for (int e = 0; e < 4; e++) y[e] = to[e][lane];
#pragma unroll
		for (int i = 0; i < part; i += 4)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				float4 f = *(const float4*)&h[e][i];
				if (within) {
					y[e] = __fsub_rn(y[e], __fmul_rn(f.x, x[i]));
					y[e] = __fsub_rn(y[e], __fmul_rn(f.y, x[i + 1]));
					y[e] = __fsub_rn(y[e], __fmul_rn(f.z, x[i + 2]));
					y[e] = __fsub_rn(y[e], __fmul_rn(f.w, x[i + 3]));
				} else {
					y[e] = fmaf(f.x, -x[i], y[e]);
					y[e] = fmaf(f.y, -x[i + 1], y[e]);
					y[e] = fmaf(f.z, -x[i + 2], y[e]);
					y[e] = fmaf(f.w, -x[i + 3], y[e]);
				}
			}
#pragma unroll
		for (int e = 0; e < 4; e++) to[e][lane] = y[e];
	}
};

// pass has the changes of part p reach rows of the block from lo to hi, which h begins
// with, four at a time.
__device__ void pass(Room& room, const float (*h)[part], int p, int lo, int hi, int warp, int all) {
	const Step& s = room.step(p);
	int end = s.before + s.rows;
	if (lo + 4 * warp >= hi) return;
	const Changes changes(room, p);
#pragma unroll 1
	for (int to = lo + 4 * warp; to < hi; to += 4 * all)
		if (to < end)
			changes.reach<true>(room.x + to, h + to - lo);
		else
			changes.reach<false>(room.x + to, h + to - lo);
}

// sum adds the parts of what is left at rows of a block: four columns a thread, four rows a
// warp, of so many warps.
__device__ void sum(Room& room, const Block& b, int lo, int hi, int warp, int all) {
	constexpr int quads = columns / 4, rows = 32 / quads;
	int lane = threadIdx.x % 32, column = lane % quads * 4;
	float lowered = 1 / lift_of(b.most);  // a power of two
	for (int i = lo + warp * rows + lane / quads; i < hi; i += rows * all)
		*(float4*)&room.x[i][column] = added(b, i, blockIdx.x * columns + column, lowered);
}

// descend_sum adds the parts of blocks, in the place of the first ones, where there are so
// many that it is quicker so: four columns a thread.
extern "C" __global__ void __launch_bounds__(threads) descend_sum(const void* list) {
	after_previous();
	const Block b = ((const Block*)list)[blockIdx.y];
	int at = blockIdx.x * threads + threadIdx.x, i = at / (b.n / 4), column = at % (b.n / 4) * 4;
	if (i < b.rows) *(float4*)(b.parts + (int64)i * b.ld + column) = added(b, i, column, 1 / lift_of(b.most));
}

extern "C" __global__ void __launch_bounds__(threads, 2) descend(const void* list, const float* h, int k) {
	extern __shared__ uint4 memory[];
	Room& room = *(Room*)memory;
	after_previous();
	const Block b = ((const Block*)list)[blockIdx.y];
	if (blockIdx.x * columns >= b.n) return;
	begin(room, b);
	fetch(room, b, h, k, 0, threadIdx.x, threads);
	commit();
	int warp = threadIdx.x / 32, helper = warp - 1, parts = b.rows / part;
	sum(room, b, 0, part, warp, warps);
	arrived<0>();
	__syncthreads();
	float w[stored];
	for (int p = 0; p < parts; p++) {
		if (warp == 0) {
			turn(room, p);
		} else {
			if (p + 1 < parts) fetch(room, b, h, k, p + 1, threadIdx.x - 32, threads - 32);
			if (p + 2 < parts) fetch_beyond(room, b, h, k, p, threadIdx.x - 32, threads - 32);
			commit();
			if (p == 0) {
				sum(room, b, part, b.rows, helper, helpers);
			} else {
				load(w, room, p - 1, helper);
				pass(room, room.beyond[(p - 1) % 2], p - 1, (p + 1) * part, b.rows, helper, helpers);
				store(room, w, p - 1, helper);
			}
			arrived<0>();
		}
		__syncthreads();
		if (p + 1 == parts) break;
		pass(room, room.close[p % 2] + part, p, (p + 1) * part, (p + 2) * part, warp, warps);
		__syncthreads();
	}
	if (warp == 0) return;
	load(w, room, parts - 1, helper);
	store(room, w, parts - 1, helper);
}
