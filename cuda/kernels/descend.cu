// Coordinate descent on the rows of a block of groups, up to 256 (coding.cuh): a code
// becomes the best one given what is left, and the change of its weight reaches the rows
// after it, each by x[j] -= h[i, j]·x[i]: within a group rounded after every operation in
// the order of the CPU, beyond it fused. The errors that are left become operands
// (planes.cuh), rows times the powers of two near the roots of h's diagonal. h is
// symmetric to the bit.
//
// A block of threads has 32 columns. 32 rows at a time, one warp quantizes them in turn,
// a thread a column, in registers, while the others fetch what the next 32 rows need;
// then all pass on what they have changed. What a row waits for is arithmetic alone.
#include "coding.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "scaled.cuh"

constexpr int most_rows = 256, columns = 32, threads = 256;
constexpr int room_bytes = 96512;
constexpr int part = 32, warps = threads / 32;

// Block is one of a list; quantize_descend.go has the same struct.
struct Block {
	const Step* steps;   // its groups
	const float* parts;  // [count][rows, n]: what is left is their sum
	int64 next;          // floats from one part to the next
	int groups, count, rows, n;
};

struct Room {
	float x[most_rows][columns];  // what is left, then changes
	float even[most_rows][part], odd[most_rows - part][part];
	unsigned char codes[2][part][columns];
	float reciprocal[part], lift[part];

	// h returns row j of the block of what is fetched for the rows from the given one on.
	__device__ float* h(int from, int j) { return from / part % 2 ? odd[j - part] : even[j]; }
};
static_assert(sizeof(Room) == room_bytes, "room_bytes");

// fetch begins to copy h[j, from+i] for the rows j of the block from the given one on,
// i under 32, and the codes of 32 rows, by count threads.
__device__ void fetch(Room& room, const Block& b, const Step& s, const float* h, int k, int from, int thread, int count) {
	int first = s.row - s.before, column = blockIdx.x * columns;
	for (int t = thread; t < (b.rows - from) * (part / 4); t += count) {
		int j = from + t / (part / 4), i = t % (part / 4) * 4;
		copy16(room.h(from, j) + i, h + (int64)(first + j) * k + first + from + i, true);
	}
	for (int t = thread; t < part * columns / 16; t += count) {
		int i = t / (columns / 16), c = t % (columns / 16) * 16;
		copy16(&room.codes[from / part % 2][i][c], s.codes + (int64)(from - s.before + i) * s.n + column + c, true);
	}
	commit();
}

// turn quantizes 32 rows, by one warp, and leaves codes and changes. Nothing that it
// waits for is in memory beyond the room.
__device__ void turn(Room& room, const Grid& grid, int from) {
	int lane = threadIdx.x;
	float diagonal = room.h(from, from + lane)[lane];
	room.reciprocal[lane] = __frcp_rn(diagonal);
	room.lift[lane] = root_of(diagonal);
	__syncwarp();
	float x[part], code[part];
#pragma unroll
	for (int i = 0; i < part; i++) {
		x[i] = room.x[from + i][lane];
		code[i] = room.codes[from / part % 2][i][lane] - grid.zero;
	}
	const float* h = room.h(from, from);
#pragma unroll
	for (int i = 0; i < part; i++) {
		float old = grid.value(code[i]);
		code[i] = grid.nearest(__fadd_rn(old, __fmul_rn(x[i], room.reciprocal[i])));
		x[i] = __fsub_rn(grid.value(code[i]), old);
#pragma unroll
		for (int j = 0; j < part; j++)
			if (j > i) x[j] = __fsub_rn(x[j], __fmul_rn(h[i * part + j], x[i]));
	}
#pragma unroll
	for (int i = 0; i < part; i++) {
		room.x[from + i][lane] = x[i];
		room.codes[from / part % 2][i][lane] = (unsigned char)(code[i] + grid.zero);
	}
}

// Four warps store what 32 rows have become, eight rows each.
constexpr int storing = 4, stored = part / storing;

// load reads the weights of a warp's rows.
__device__ void load(float (&w)[stored], const Step& s, int from) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - (warps - storing);
	const float* at = s.w + (int64)(from - s.before + warp * stored) * s.n + blockIdx.x * columns + lane;
#pragma unroll
	for (int i = 0; i < stored; i++) w[i] = at[(int64)i * s.n];
}

__device__ void store(const Room& room, const float (&w)[stored], const Step& s, const Grid& grid, float lift, int from) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32 - (warps - storing), column = blockIdx.x * columns + lane;
	int local = from - s.before, chunk = column / 8 % 8;
	int64 at = ((int64)((s.row + local) / tile_rows) * s.tiles + column / tile_cols) * tile_halves + column % 8;
#pragma unroll
	for (int e = 0; e < stored; e++) {
		int i = warp * stored + e;
		unsigned char code = room.codes[from / part % 2][i][lane];
		s.codes[(int64)(local + i) * s.n + column] = code;
		Pair p((w[e] - grid.value(code - grid.zero)) * room.lift[i] * lift);
		int64 to = at + i * tile_cols + (chunk ^ i % 8) * 8;
		s.planes[to] = p.high;
		s.planes[s.plane + to] = p.low;
	}
}

// pass has the changes of 32 rows reach the rows from lo to hi, which are of their group
// or behind it: a warp has four rows of every 32.
template <bool within>
__device__ void pass(Room& room, int from, int lo, int hi) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	constexpr int each = part / warps;
	if (lo >= hi) return;
	float x[part];
#pragma unroll
	for (int i = 0; i < part; i++) x[i] = room.x[from + i][lane];
#pragma unroll 1
	for (int to = lo; to < hi; to += part) {
		float y[each];
#pragma unroll
		for (int e = 0; e < each; e++) y[e] = room.x[to + warp + e * warps][lane];
#pragma unroll
		for (int i = 0; i < part; i += 4)
#pragma unroll
			for (int e = 0; e < each; e++) {
				float4 f = *(const float4*)(room.h(from, to + warp + e * warps) + i);
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
		for (int e = 0; e < each; e++) room.x[to + warp + e * warps][lane] = y[e];
	}
}

// sum adds the parts of what is left at the rows of a block.
__device__ void sum(Room& room, const Block& b) {
	constexpr int batch = 8;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	for (int i = warp; i < b.rows; i += batch * warps) {
		const float* from = b.parts + (int64)i * b.n + blockIdx.x * columns + lane;
		float x[batch] = {};
#pragma unroll 4
		for (int p = 0; p < b.count; p++)
#pragma unroll
			for (int e = 0; e < batch; e++)
				if (i + e * warps < b.rows) x[e] += from[p * b.next + (int64)(e * warps) * b.n];
#pragma unroll
		for (int e = 0; e < batch; e++)
			if (i + e * warps < b.rows) room.x[i + e * warps][lane] = x[e];
	}
}

extern "C" __global__ void __launch_bounds__(threads, 2) descend(const void* list, const float* h, int k) {
	extern __shared__ uint4 memory[];
	Room& room = *(Room*)memory;
	after_previous();
	const Block b = ((const Block*)list)[blockIdx.y];
	int warp = threadIdx.x / 32;
	if (blockIdx.x * columns >= b.n) return;
	fetch(room, b, b.steps[0], h, k, 0, threadIdx.x, threads);
	sum(room, b);
	for (int g = 0; g < b.groups; g++) {
		const Step& s = b.steps[g];
		const Grid grid(scale_of(s.scales[blockIdx.x * columns + threadIdx.x % 32], *s.largest), s.bits);
		float lift = lift_of(s.most);
		int begin = s.before, end = begin + s.rows;
		for (int from = begin; from < end; from += part) {
			float w[stored];
			arrived<0>();
			__syncthreads();
			if (warp == 0)
				turn(room, grid, from);
			else if (from + part < b.rows)
				fetch(room, b, from + part < end ? s : b.steps[g + 1], h, k, from + part, threadIdx.x - 32, threads - 32);
			if (warp >= warps - storing) load(w, s, from);
			__syncthreads();
			if (warp >= warps - storing) store(room, w, s, grid, lift, from);
			pass<true>(room, from, from + part, end);
			pass<false>(room, from, end, b.rows);
		}
	}
}
