// Linear attention by the gated delta rule (Gated Delta Networks, arXiv 2412.06464, equation 10), or by that of Mamba-2 (arXiv 2405.21060,
// equation 1, with C, B and x for q, k and v), of what delta_convolve.cu has made.
//
// A block has 32 columns of a head of values of a run, whose state, 32 x the head's dimensions of keys, it has in registers, row after row;
// sixteen lanes share two columns. What takes time in a row are loads of shared memory, of which two columns a lane need half as many as
// one, and the latency of sums along k, which twice as many warps hide.
//
// H200, 2026-11-28, 2048 rows of 16 heads of keys and 32 of values, all of 128 dimensions: 520 µs (docs/performance.md).
#include "delta.cuh"

constexpr int threads = 256;
constexpr int columns_of_block = 32, sharing = 16;  // lanes that share some columns
constexpr int columns_of_lane = columns_of_block * sharing / threads;

static_assert(columns_of_lane == 2, "as Rule has it");

// tile_rows is how many rows are on their way to shared memory at a time.
template <int dims>
constexpr int tile_rows = dims > 128 ? 8 : 16;

// copy_word copies beside what the warp does, commit closes a batch of copies, and arrived waits for all but the last one. Turing
// copies at once.
template <int words>
__device__ inline void copy_words(float* to, const float* from) {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)), "l"(from), "n"(4 * words) : "memory");
#else
	for (int i = 0; i < words; i++) to[i] = from[i];
#endif
}

__device__ inline void commit() {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

__device__ inline void arrived() {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group 1;" ::: "memory");
#endif
}

// Tile is some rows of a head in shared memory.
template <int dims>
struct Tile {
	float k[tile_rows<dims>][dims], q[tile_rows<dims>][dims], v[tile_rows<dims>][columns_of_block];
	float2 gates[tile_rows<dims>];
};

// Head is what a block has of its head of values.
struct Head {
	int number, shared, first, run;  // of values, of keys, its first column, its run
	__device__ Head(const Shape& s) : number(blockIdx.y), first(blockIdx.x * columns_of_block), run(blockIdx.z) { shared = number / (s.value_heads / s.key_heads); }
};

// Rule is the state of two columns of a head, dims/16 dimensions of each a lane: dimensions 64·i + 4·part on.
template <int dims>
struct Rule {
	static constexpr int groups = dims / (4 * sharing);
	__align__(16) float s[2][groups][4];
	int part, column;  // the first of the two

	__device__ Rule() : part(threadIdx.x % sharing), column(threadIdx.x / sharing * 2) {}

	__device__ int dim(int i) const { return 4 * sharing * i + 4 * part; }

	// own is the column of the two whose totals the lane gets.
	__device__ int own() const { return column + (part >= sharing / 2); }

	// four returns where dimensions dim(i) to dim(i)+3 of a column are in a state, or null beyond width or key_dim.
	template <class T>
	__device__ T* four(T* state, int c, int i, int key_dim, int width) const {
		return column + c < width && dim(i) < key_dim ? state + (column + c) * key_dim + dim(i) : nullptr;
	}

	// read and write move the state, of columns up to width.
	__device__ void read(const float* state, int key_dim, int width) {
		bool whole = key_dim % 4 == 0;
#pragma unroll
		for (int c = 0; c < 2; c++)
#pragma unroll
			for (int i = 0; i < groups; i++) {
				const float* from = four(state, c, i, key_dim, width);
				*(float4*)s[c][i] = make_float4(0, 0, 0, 0);
				if (from && whole) {
					*(float4*)s[c][i] = *(const float4*)from;
				} else if (from) {
#pragma unroll
					for (int j = 0; j < 4; j++)
						if (dim(i) + j < key_dim) s[c][i][j] = from[j];
				}
			}
	}

	__device__ void write(float* state, int key_dim, int width) const {
		bool whole = key_dim % 4 == 0;
#pragma unroll
		for (int c = 0; c < 2; c++)
#pragma unroll
			for (int i = 0; i < groups; i++) {
				float* to = four(state, c, i, key_dim, width);
				if (to && whole) {
					*(float4*)to = *(const float4*)s[c][i];
				} else if (to) {
#pragma unroll
					for (int j = 0; j < 4; j++)
						if (dim(i) + j < key_dim) to[j] = s[c][i][j];
				}
			}
	}

	// add makes the state g·S + u·kᵀ.
	__device__ void add(float g, float u, float v, const float4 (&k)[groups]) {
#pragma unroll
		for (int i = 0; i < groups; i++)
#pragma unroll
			for (int j = 0; j < 4; j++) s[0][i][j] = g * s[0][i][j] + u * (&k[i].x)[j], s[1][i][j] = g * s[1][i][j] + v * (&k[i].x)[j];
	}

	// along returns what the lane has of the sums of both columns along x.
	__device__ float2 along(const float4 (&x)[groups]) const {
		float sums[2][2] = {};  // of even and odd groups of four, so that fewer wait for each other
#pragma unroll
		for (int c = 0; c < 2; c++)
#pragma unroll
			for (int i = 0; i < groups; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) sums[c][i % 2] += s[c][i][j] * (&x[i].x)[j];
		return make_float2(sums[0][0] + sums[0][1], sums[1][0] + sums[1][1]);
	}
};

// total adds up what lanes have of two sums: a lane of the lower half of those that share columns gets the first one's, of the upper half the second's.
__device__ inline float total(float2 a) {
	bool upper = threadIdx.x % sharing >= sharing / 2;
	float x = (upper ? a.y : a.x) + __shfl_xor_sync(~0u, upper ? a.x : a.y, sharing / 2);
#pragma unroll
	for (int step = sharing / 4; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
	return x;
}

// Of two such pairs.
__device__ inline float2 total(float2 a, float2 b) {
	bool upper = threadIdx.x % sharing >= sharing / 2;
	float x = (upper ? a.y : a.x) + __shfl_xor_sync(~0u, upper ? a.x : a.y, sharing / 2);
	float y = (upper ? b.y : b.x) + __shfl_xor_sync(~0u, upper ? b.x : b.y, sharing / 2);
#pragma unroll
	for (int step = sharing / 4; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step), y += __shfl_xor_sync(~0u, y, step);
	return make_float2(x, y);
}

// Columns is what a lane needs of a row of a tile.
template <int dims>
struct Columns {
	static constexpr int groups = Rule<dims>::groups;
	float4 k[groups], q[groups];
	float v;
	float2 gates;
	__device__ Columns(const Tile<dims>& t, int row, const Rule<dims>& r) {
#pragma unroll
		for (int i = 0; i < groups; i++) k[i] = *(const float4*)&t.k[row][r.dim(i)], q[i] = *(const float4*)&t.q[row][r.dim(i)];
		v = t.v[row][r.own()], gates = t.gates[row];
	}
};

// ask has some rows of a head copied.
template <int dims>
__device__ inline void ask(Tile<dims>& t, const Shape& s, const Head& h, const float* columns, int64 ldc, const float2* gates, int first, int rows) {
	const float *key = columns + first * ldc + h.shared * s.key_dim, *value = columns + first * ldc + 2 * s.keys() + h.number * s.value_dim + h.first;
	int width = min(columns_of_block, s.value_dim - h.first);
	if (dims == s.key_dim && width == columns_of_block && ldc % 4 == 0) {
		constexpr int each = (2 * dims + columns_of_block) / 4;
#pragma unroll 1
		for (int i = threadIdx.x; i < rows * each; i += threads) {
			int r = i / each, at = i % each * 4;
			const float* row = key + r * ldc;
			if (at < dims) copy_words<4>(&t.q[r][at], row + at);
			else if (at < 2 * dims) copy_words<4>(&t.k[r][at - dims], row + s.keys() + at - dims);
			else copy_words<4>(&t.v[r][at - 2 * dims], value + r * ldc + at - 2 * dims);
		}
	} else {
#pragma unroll 1
		for (int r = 0; r < rows; r++) {
#pragma unroll 1
			for (int i = threadIdx.x; i < s.key_dim; i += threads) copy_words<1>(&t.q[r][i], key + r * ldc + i), copy_words<1>(&t.k[r][i], key + r * ldc + s.keys() + i);
			if (threadIdx.x < width) copy_words<1>(&t.v[r][threadIdx.x], value + r * ldc + threadIdx.x);
		}
	}
	if (threadIdx.x < 2 * rows) copy_words<1>((float*)t.gates + threadIdx.x, (const float*)(gates + (int64)(first + threadIdx.x / 2) * s.value_heads + h.number) + threadIdx.x % 2);
	commit();
}

// blank zeroes what copies leave of tiles.
template <int dims>
__device__ inline void blank(Tile<dims> (&t)[2]) {
#pragma unroll 1
	for (int i = threadIdx.x; i < (int)(sizeof(t) / 4); i += threads) ((float*)&t)[i] = 0;
	__syncthreads();
}

// A row of the delta rule adds u = β·(v - g·S·k) along k, one of Mamba-2, which is plain, Δ·v, and skip·v to what is read.
template <int dims, bool plain>
__device__ void rule(float* y, const float* columns, const float2* gates, const float* skips, float* state, half* left, Inputs x,
	const int* pos, const int* seq, int sequences, Shape s, int64 ldy, int64 ldc) {
	__shared__ Tile<dims> tiles[2];
	after_previous();
	Head h(s);
	int first = h.run * s.span, sequence = seq[first], width = min(columns_of_block, s.value_dim - h.first);
	if (sequence < 0 || sequence >= sequences) return;  // delta_convolve has said so
	bool begins = pos[first] == 0;
	state += ((int64)sequence * s.value_heads + h.number) * s.value_dim * s.key_dim + (int64)h.first * s.key_dim;
	if (left) left += (int64)sequence * (s.kernel - 1) * s.columns();
	if (s.key_dim < dims || width < columns_of_block) blank(tiles);
	ask(tiles[0], s, h, columns, ldc, gates, first, min(tile_rows<dims>, s.span));
	Rule<dims> r;
	r.read(state, s.key_dim, begins ? 0 : width);
	float* to = y + (first - 1) * ldy + h.number * s.value_dim + h.first + r.own();  // of the row before
	bool puts = r.own() < width && r.part % (sharing / 2) == 0;
	int lower = threadIdx.x % 32 & ~(sharing - 1);
	float2 result = {};  // of the row before, which is added up with what the next one needs first
	float skip = plain ? skips[h.number] : 0, beside = 0;
	for (int lo = 0, n = 0; lo < s.span; lo += tile_rows<dims>, n ^= 1) {
		if (int next = lo + tile_rows<dims>; next < s.span)
			ask(tiles[n ^ 1], s, h, columns, ldc, gates, first + next, min(tile_rows<dims>, s.span - next));
		else
			commit();
		arrived();
		__syncthreads();
		int rows = min(tile_rows<dims>, s.span - lo);
		Columns<dims> x(tiles[n], 0, r);
#pragma unroll 2
		for (int i = 0; i < rows; i++) {
			Columns<dims> next(tiles[n], min(i + 1, rows - 1), r);
			float own = x.gates.y * x.v, done;
			if constexpr (plain) {
				done = total(result) + beside, beside = skip * x.v;
			} else {
				float2 sums = total(r.along(x.k), result);
				own = x.gates.y * (x.v - x.gates.x * sums.x), done = sums.y;
			}
			if (puts && lo + i > 0) *to = done;
			to += ldy;
			r.add(x.gates.x, __shfl_sync(~0u, own, lower), __shfl_sync(~0u, own, lower + sharing / 2), x.k);
			result = r.along(x.q);
			x = next;
		}
		__syncthreads();
	}
	float done = total(result);
	if (puts) *to = done + beside;
	r.write(state, s.key_dim, width);
	if (left) keep(s, x, left, begins, h.run, threads);
}

// Names are of the dimensions of keys that a head has at most.
#define RULE(name, dims, plain)                                                                                              \
	extern "C" __global__ void __launch_bounds__(threads) name(                                                              \
		float* y, const float* columns, const float* gates, const float* skips, float* state,                                \
		half* left, const half* q, const half* k, const half* v, const int* pos, const int* seq, int sequences,              \
		int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span,                                    \
		int64 ldy, int64 ldc, int64 ldq, int64 ldk, int64 ldv) {                                                             \
		rule<dims, plain>(y, columns, (const float2*)gates, skips, state, left, Inputs{q, k, v, ldq, ldk, ldv}, pos, seq,     \
			sequences, Shape{key_heads, value_heads, key_dim, value_dim, kernel, span}, ldy, ldc);                           \
	}

RULE(delta_rule_64, 64, false)
RULE(delta_rule_128, 128, false)
RULE(delta_rule_256, 256, false)
RULE(delta_plain_64, 64, true)
RULE(delta_plain_128, 128, true)
RULE(delta_plain_256, 256, true)
