// Coordinate descent on the rows of a block of groups, up to 256 (coding.cuh): a code
// becomes the best one given what is left, and the change of its weight reaches the rows
// after it, each by x[j] -= h[i, j]·x[i]: within a group rounded after every operation in
// the order of the CPU, beyond it fused. The errors that are left become operands
// (planes.cuh), rows times the powers of two near the roots of h's diagonal. h is
// symmetric to the bit.
//
// A block of threads has 32 columns. 32 rows at a time, one warp quantizes them in turn,
// a thread a column, eight in registers at a time: longer code comes slower than a warp can
// work. What a row waits for is arithmetic alone: meanwhile a few warps pass the changes of
// eight rows on to those behind the next eight, and others what the 32 rows before have
// changed to those behind the next ones, store them, and fetch what comes next. Then all pass
// the changes on to the next 32 rows.
#include "coding.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "scaled.cuh"

constexpr int most_rows = 256, columns = 32;
constexpr int threads = 512, many_threads = 320, sum_threads = 256;  // of a block, of one of many, of a sum
constexpr int room_bytes = 104864;
constexpr int part = 32, near = 8, team = 4, most_parts = most_rows / part;

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

// begin brings which groups a block has.
__device__ void begin(Room& room, const Block& b) {
	constexpr int words = sizeof(Step) / 4;
	for (int i = threadIdx.x; i < b.groups * words; i += blockDim.x) ((int*)room.steps)[i] = ((const int*)b.steps)[i];
	__syncthreads();
	for (int g = threadIdx.x / 32; g < b.groups; g += blockDim.x / 32) {
		const Step& s = room.steps[g];
		for (int p = s.before / part + threadIdx.x % 32; p < (s.before + s.rows) / part; p += 32) room.group[p] = g;
	}
	__syncthreads();
}

// scale brings their scales.
__device__ void scale(Room& room, const Block& b) {
	for (int g = threadIdx.x / 32; g < b.groups; g += blockDim.x / 32) {
		const Step& s = room.steps[g];
		room.scales[g][threadIdx.x % 32] = scale_of(s.scales[blockIdx.x * columns + threadIdx.x % 32], *s.largest);
	}
}

// fetch begins to copy h of 32 rows, from part p on, with themselves and the next 32 rows. By
// count threads.
__device__ void fetch(Room& room, const Block& b, const float* h, int k, int p, int thread, int count) {
	const Step& s = room.step(p);
	int first = s.row - s.before, from = p * part, rows = min(2 * part, b.rows - from);
	for (int t = thread; t < rows * (part / 4); t += count) {
		int j = t / (part / 4), i = t % (part / 4) * 4;
		copy16(&room.close[p % 2][j][i], h + (int64)(first + from + j) * k + first + from + i, true);
	}
}

// fetch_codes begins to copy the codes of part p.
__device__ void fetch_codes(Room& room, int p, int thread, int count) {
	const Step& s = room.step(p);
	for (int t = thread; t < part * columns / 16; t += count) {
		int i = t / (columns / 16), c = t % (columns / 16) * 16;
		copy16(&room.codes[p % 4][i][c], s.codes + (int64)(p * part - s.before + i) * s.n + blockIdx.x * columns + c, true);
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

// take has four columns' changes of a row reach another.
template <bool within>
__device__ inline void take(float4& y, float f, float4 x) {
	if (within) {
		y.x = __fsub_rn(y.x, __fmul_rn(f, x.x)), y.y = __fsub_rn(y.y, __fmul_rn(f, x.y));
		y.z = __fsub_rn(y.z, __fmul_rn(f, x.z)), y.w = __fsub_rn(y.w, __fmul_rn(f, x.w));
	} else {
		y.x = fmaf(f, -x.x, y.x), y.y = fmaf(f, -x.y, y.y), y.z = fmaf(f, -x.z, y.z), y.w = fmaf(f, -x.w, y.w);
	}
}

// reach has the changes of count rows, from one on, reach 4·n others, by h of each. A lane
// has n rows of four columns: what it reads serves several times.
template <int n, int count, bool within>
__device__ void reach(Room& room, int from, int to, const float (*h)[part], int of) {
	constexpr int some = 8;
	int lane = threadIdx.x % 32, column = lane % 8 * 4, first = lane / 8 * n;
	float4 y[n];
#pragma unroll
	for (int e = 0; e < n; e++) y[e] = *(const float4*)&room.x[to + first + e][column];
#pragma unroll (n == 1 ? 2 : 1)
	for (int i = 0; i < count; i += some) {
		float4 x[some];
#pragma unroll
		for (int j = 0; j < some; j++) x[j] = *(const float4*)&room.x[from + i + j][column];
#pragma unroll
		for (int e = 0; e < n; e++)
#pragma unroll
			for (int j = 0; j < some; j += 4) {
				float4 f = *(const float4*)&h[first + e][of + i + j];
				take<within>(y[e], f.x, x[j]);
				take<within>(y[e], f.y, x[j + 1]);
				take<within>(y[e], f.z, x[j + 2]);
				take<within>(y[e], f.w, x[j + 3]);
			}
	}
#pragma unroll
	for (int e = 0; e < n; e++) *(float4*)&room.x[to + first + e][column] = y[e];
}

// Turn is what one warp knows of the eight rows before the next ones.
struct Turn {
	float changes[near];

	// reach has the change of a row reach those of eight that are behind row i of them.
	__device__ static void reach(float (&x)[near], const float* h, float change, int i) {
#pragma unroll
		for (int j = 0; j < near; j += 4) {
			if (j + 3 <= i) continue;
			float4 f = *(const float4*)(h + j);
			if (j > i) x[j] = __fsub_rn(x[j], __fmul_rn(f.x, change));
			if (j + 1 > i) x[j + 1] = __fsub_rn(x[j + 1], __fmul_rn(f.y, change));
			if (j + 2 > i) x[j + 2] = __fsub_rn(x[j + 2], __fmul_rn(f.z, change));
			if (j + 3 > i) x[j + 3] = __fsub_rn(x[j + 3], __fmul_rn(f.w, change));
		}
	}

	// go quantizes eight rows of part p, from first on, which changes of all rows before have
	// reached but for those of the eight in front of them.
	__device__ void go(Room& room, const Grid& grid, int p, int first) {
		int lane = threadIdx.x % 32, from = p * part + first;
		const float(*h)[part] = room.close[p % 2];
		float x[near], q[near];  // q: the weight as it is, then the code
#pragma unroll
		for (int i = 0; i < near; i++) {
			x[i] = room.x[from + i][lane];
			q[i] = grid.value(room.codes[p % 4][first + i][lane] - grid.zero);
		}
		if (first > 0)
#pragma unroll
			for (int i = 0; i < near; i++) reach(x, &h[first - near + i][first], changes[i], -1);
#pragma unroll
		for (int i = 0; i < near; i++) {
			float old = q[i];
			q[i] = grid.nearest(__fadd_rn(old, __fmul_rn(x[i], room.reciprocal[first + i])));
			x[i] = __fsub_rn(grid.value(q[i]), old);
			reach(x, &h[first + i][first], x[i], i);
		}
#pragma unroll
		for (int i = 0; i < near; i++) {
			room.x[from + i][lane] = changes[i] = x[i];
			room.codes[p % 4][first + i][lane] = (unsigned char)(q[i] + grid.zero);
		}
	}
};

// turn quantizes 32 rows, by the warps of a team, and leaves codes and changes.
__device__ void turn(Room& room, int p, int warp) {
	int lane = threadIdx.x % 32, from = p * part;
	const float(*h)[part] = room.close[p % 2];
	const Grid grid = room.grid(p);
	Turn rows;
	if (warp == 0) {
		float diagonal = h[lane][lane];
		room.reciprocal[lane] = __frcp_rn(diagonal);
		room.lift[p % 2][lane] = root_of(diagonal);
		__syncwarp();
	}
#pragma unroll 1
	for (int first = 0; first < part; first += near) {
		if (warp == 0) rows.go(room, grid, p, first);
		if (first + near == part) break;
		asm volatile("bar.sync 1, %0;" ::"n"(32 * team) : "memory");
		if (warp == 0) continue;
		for (int to = first + 2 * near + 4 * (warp - 1); to < part; to += 4 * (team - 1)) reach<1, near, true>(room, from + first, from + to, h + to, first);
	}
}

// Stored is the rows of a warp of several that store what 32 rows have become.
template <int helpers>
struct Stored {
	static constexpr int most = (part + helpers - 1) / helpers;
	float w[most];

	// load reads their weights.
	__device__ void load(const Room& room, int p, int warp) {
		const Step& s = room.step(p);
		const float* at = s.w + (int64)(p * part - s.before) * s.n + blockIdx.x * columns + threadIdx.x % 32;
#pragma unroll
		for (int e = 0; e < most; e++) {
			int i = warp + e * helpers;
			if (i < part) w[e] = at[(int64)i * s.n];
		}
	}

	__device__ void store(const Room& room, int p, int warp) const {
		const Step& s = room.step(p);
		const Grid grid = room.grid(p);
		float lift = lift_of(s.most);
		int lane = threadIdx.x % 32, column = blockIdx.x * columns + lane;
		int local = p * part - s.before, chunk = column / 8 % 8;
		int64 at = ((int64)((s.row + local) / tile_rows) * s.tiles + column / tile_cols) * tile_halves + column % 8;
#pragma unroll
		for (int e = 0; e < most; e++) {
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
};

// pass has the changes of part p reach rows of the block from lo to hi, which h begins
// with, 4·n at a time.
template <int n>
__device__ void pass(Room& room, const float (*h)[part], int p, int lo, int hi, int warp, int all) {
	const Step& s = room.step(p);
	int end = s.before + s.rows;
#pragma unroll 1
	for (int to = lo + 4 * n * warp; to < hi; to += 4 * n * all)
		if (to < end)
			reach<n, part, true>(room, p * part, to, h + to - lo, 0);
		else
			reach<n, part, false>(room, p * part, to, h + to - lo, 0);
}

// sum adds the parts of what is left at rows of a block: four columns a thread, four rows a
// warp, of so many warps.
__device__ void sum(Room& room, const Block& b, int lo, int hi, int warp, int all) {
	constexpr int quads = columns / 4, rows = 32 / quads;
	int lane = threadIdx.x % 32, column = lane % quads * 4;
	float lowered = 1 / lift_of(b.most);  // a power of two
#pragma unroll 1
	for (int i = lo + warp * rows + lane / quads; i < hi; i += rows * all)
		*(float4*)&room.x[i][column] = added(b, i, blockIdx.x * columns + column, lowered);
}

// descend_sum adds the parts of blocks, in the place of the first ones, where there are so
// many that it is quicker so: four columns a thread.
extern "C" __global__ void __launch_bounds__(sum_threads) descend_sum(const void* list) {
	after_previous();
	const Block b = ((const Block*)list)[blockIdx.y];
	int at = blockIdx.x * sum_threads + threadIdx.x, i = at / (b.n / 4), column = at % (b.n / 4) * 4;
	if (i < b.rows) *(float4*)(b.parts + (int64)i * b.ld + column) = added(b, i, column, 1 / lift_of(b.most));
}

// A Role is what a warp does while 32 rows take their turn: it is of the team, or helps.
// Where apart, the team is every fourth warp: those of one scheduler, on which nothing then
// keeps the warp that quantizes from its next instruction.
struct Role {
	int member, helper;  // -1: not

	__device__ Role(bool apart) {
		int warp = threadIdx.x / 32;
		bool in = apart ? warp % 4 == 0 : warp < team;
		member = !in ? -1 : apart ? warp / 4 : warp;
		helper = in ? -1 : apart ? warp / 4 * 3 + warp % 4 - 1 : warp - team;
	}
};

template <int threads, bool apart>
__device__ void descend_block(const void* list, const float* h, int k) {
	constexpr int warps = threads / 32, helpers = warps - team, helping = 32 * helpers;
	static_assert(!apart || warps == 4 * team, "every fourth");
	extern __shared__ uint4 memory[];
	Room& room = *(Room*)memory;
	let_next();
	const Block b = ((const Block*)list)[blockIdx.y];
	bool some = blockIdx.x * columns < b.n;
	if (some) {  // neither h nor the lists are the work of the kernels in front
		begin(room, b);
		fetch(room, b, h, k, 0, threadIdx.x, threads);
	}
	after_previous();
	if (!some) return;
	fetch_codes(room, 0, threadIdx.x, threads);
	commit();
	scale(room, b);
	const Role role(apart);
	int warp = threadIdx.x / 32, helper = role.helper, thread = 32 * helper + threadIdx.x % 32, parts = b.rows / part;
	sum(room, b, 0, part, warp, warps);
	arrived<0>();
	__syncthreads();
	Stored<helpers> rows;
	for (int p = 0; p < parts; p++) {
		if (helper < 0) {
			turn(room, p, role.member);
		} else {
			if (p + 1 < parts) fetch(room, b, h, k, p + 1, thread, helping), fetch_codes(room, p + 1, thread, helping);
			if (p + 2 < parts) fetch_beyond(room, b, h, k, p, thread, helping);
			commit();
			if (p == 0) {
				sum(room, b, part, b.rows, helper, helpers);
			} else {
				rows.load(room, p - 1, helper);
				pass<4>(room, room.beyond[(p - 1) % 2], p - 1, (p + 1) * part, b.rows, helper, helpers);
				rows.store(room, p - 1, helper);
			}
			arrived<0>();
		}
		__syncthreads();
		if (p + 1 == parts) break;
		pass<1>(room, room.close[p % 2] + part, p, (p + 1) * part, (p + 2) * part, warp, warps);
		__syncthreads();
	}
	if (helper < 0) return;
	rows.load(room, parts - 1, helper);
	rows.store(room, parts - 1, helper);
}

// descend has a multiprocessor to itself, descend_many half of one.
extern "C" __global__ void __launch_bounds__(threads, 1) descend(const void* list, const float* h, int k) { descend_block<threads, true>(list, h, k); }
extern "C" __global__ void __launch_bounds__(many_threads, 2) descend_many(const void* list, const float* h, int k) { descend_block<many_threads, false>(list, h, k); }
