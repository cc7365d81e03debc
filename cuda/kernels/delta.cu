// Linear attention by the gated delta rule (Gated Delta Networks, arXiv 2412.06464, equation 10), behind a causal
// convolution of each column and silu.
//
// delta_convolve: a warp a head of a row, or, with heads of 128 dimensions and four positions, of some rows. delta_rule: a block 32
// columns of a head of values of a run, whose state, 32 x the head's dimensions of keys, it has in registers, row after row;
// sixteen lanes share two columns. What takes time in a row are loads of shared memory, of which two columns a lane need half as many as
// one, and the latency of sums along k, which twice as many warps hide.
//
// H200, 2026-11-28, 2048 rows of 16 heads of keys and 32 of values, all of 128 dimensions: 520 µs and 42 (docs/performance.md).
#include "delta.cuh"

constexpr int threads = 256;
constexpr int columns_of_block = 32, sharing = 16;  // lanes that share some columns
constexpr int columns_of_lane = columns_of_block * sharing / threads;
constexpr int rows_of_warp = 16, fast_dim = 128, fast_kernel = 4;  // of delta_convolve_128

static_assert(columns_of_lane == 2, "as Rule has it");

// tile_rows is how many rows are on their way to shared memory at a time.
template <int dims>
constexpr int tile_rows = dims > 128 ? 8 : 16;

// Rates are what g and β are made of. Blocks of delta_convolve behind the first so many have them, a thread a head of a row.
struct Rates {
	float2* gates;       // [rows, heads]
	const float* a;      // [rows, heads], lda
	const float* b;      // likewise, ldb
	const float *decay, *bias;  // [heads]
	int64 lda, ldb;

	__device__ bool made(int first, int rows, int heads) const {
		if (blockIdx.x < first) return false;
		int i = (blockIdx.x - first) * threads + threadIdx.x, row = i / heads, head = i % heads;
		if (row < rows) {
			Gates g(decay[head], a[row * lda + head] + bias[head], b[row * ldb + head]);
			gates[i] = make_float2(g.g, g.beta);
		}
		return true;
	}
};

extern "C" __global__ void __launch_bounds__(threads) delta_convolve(
	float* columns,      // [rows, columns], rows ldc elements apart
	const half* q,       // [rows, keys], ldq
	const half* k,       // likewise, ldk
	const half* v,       // [rows, values], ldv
	const half* left,    // [sequences, (kernel-1)·columns], or null
	const float* conv,   // [columns, kernel]
	const int* pos,      // [rows]
	const int* seq,      // [rows]
	int* fault,
	int rows, int sequences, int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span,
	float* gates, const float* a, const float* b, const float* decay, const float* bias, int before_gates, int64 lda, int64 ldb,  // Rates, and where their blocks begin
	int64 ldc, int64 ldq, int64 ldk, int64 ldv, float scale) {
	after_previous();
	if (Rates{(float2*)gates, a, b, decay, bias, lda, ldb}.made(before_gates, rows, value_heads)) return;
	Shape s = {key_heads, value_heads, key_dim, value_dim, kernel, span};
	Inputs x = {q, k, v, ldq, ldk, ldv};
	int parts = 2 * key_heads + value_heads, lane = threadIdx.x % 32;
	int64 all = ((int64)blockIdx.x * threads + threadIdx.x) / 32;
	int row = all / parts, part = all % parts;
	if (row >= rows) return;
	int first = row / span * span, sequence = seq[first];
	if (sequence < 0 || sequence >= sequences) {
		if (lane == 0) report(fault, position_fault, sequence, sequences);
		return;
	}
	bool begins = pos[first] == 0, of_keys = part < 2 * key_heads;
	if (left) left += (int64)sequence * (kernel - 1) * s.columns();
	int dim = of_keys ? key_dim : value_dim, begin = of_keys ? part * key_dim : 2 * s.keys() + (part - 2 * key_heads) * value_dim;
	float y[most_dim / 32], squares = 0;
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) {
		int c = begin + lane + 32 * i;
		y[i] = 0;
		if (lane + 32 * i >= dim) continue;
		for (int j = 0; j < kernel; j++) {
			int at = row - kernel + 1 + j;
			y[i] += conv[c * kernel + j] * (at < first ? in_front(s, left, begins, first - at, c) : x.at(s, at, c));
		}
		y[i] /= 1 + expf(-y[i]);
		squares += y[i] * y[i];
	}
	float factor = 1;
	if (of_keys) factor = rsqrtf(warp_sum(squares) + 1e-6f) * (part < key_heads ? scale : 1);
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++)
		if (lane + 32 * i < dim) columns[row * ldc + begin + lane + 32 * i] = y[i] * factor;
}

// Row is four columns of a row.
struct Row {
	float v[4];
	__device__ void read(const half* x) {
		uint2 w = *(const uint2*)x;
		float2 a = __half22float2(*(half2*)&w.x), b = __half22float2(*(half2*)&w.y);
		v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y;
	}
	__device__ void none() { v[0] = v[1] = v[2] = v[3] = 0; }
};

// Of heads of 128 dimensions, a convolution of four positions, and rows that begin at eight bytes.
extern "C" __global__ void __launch_bounds__(threads) delta_convolve_128(
	float* columns, const half* q, const half* k, const half* v, const half* left, const float* conv, const int* pos, const int* seq, int* fault,
	int rows, int sequences, int key_heads, int value_heads, int span,
	float* gates, const float* a, const float* b, const float* decay, const float* bias, int before_gates, int64 lda, int64 ldb,  // Rates, and where their blocks begin
	int64 ldc, int64 ldq, int64 ldk, int64 ldv, float scale) {
	after_previous();
	if (Rates{(float2*)gates, a, b, decay, bias, lda, ldb}.made(before_gates, rows, value_heads)) return;
	int parts = 2 * key_heads + value_heads, lane = threadIdx.x % 32;
	int all = (blockIdx.x * threads + threadIdx.x) / 32, pieces = (span + rows_of_warp - 1) / rows_of_warp;
	int part = all % parts, run = all / parts / pieces, from = all / parts % pieces * rows_of_warp, first = run * span;
	if (first >= rows) return;
	int sequence = seq[first];
	if (sequence < 0 || sequence >= sequences) {
		if (lane == 0) report(fault, position_fault, sequence, sequences);
		return;
	}
	const half* x;
	int64 ld;
	int head = part;
	if (part < key_heads) x = q, ld = ldq;
	else if (part < 2 * key_heads) x = k, ld = ldk, head -= key_heads;
	else x = v, ld = ldv, head -= 2 * key_heads;
	x += (int64)first * ld + head * fast_dim + lane * 4;
	int column = part * fast_dim + lane * 4, width = parts * fast_dim;
	float4 w[4];
#pragma unroll
	for (int i = 0; i < 4; i++) w[i] = ((const float4*)conv)[column + i];
	bool begins = pos[first] == 0;
	const half* before = left + (int64)sequence * (fast_kernel - 1) * width + column;
	Row r[fast_kernel];
#pragma unroll
	for (int j = 1; j < fast_kernel; j++) {
		int at = from - fast_kernel + j;
		if (at >= 0) r[j].read(x + at * ld);
		else if (begins) r[j].none();
		else r[j].read(before + (int64)(fast_kernel - 1 + at) * width);
	}
	bool of_keys = part < 2 * key_heads;
	float* to = columns + (int64)first * ldc + column;
#pragma unroll 4
	for (int t = from; t < min(from + rows_of_warp, span); t++) {
#pragma unroll
		for (int j = 0; j < fast_kernel - 1; j++) r[j] = r[j + 1];
		r[fast_kernel - 1].read(x + t * ld);
		float y[4], squares = 0, factor = 1;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float sum = w[i].x * r[0].v[i] + w[i].y * r[1].v[i] + w[i].z * r[2].v[i] + w[i].w * r[3].v[i];
			y[i] = sum / (1 + expf(-sum)), squares += y[i] * y[i];
		}
		if (of_keys) factor = rsqrtf(warp_sum(squares) + 1e-6f) * (part < key_heads ? scale : 1);
		*(float4*)(to + t * ldc) = make_float4(y[0] * factor, y[1] * factor, y[2] * factor, y[3] * factor);
	}
}

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
	float s[2][groups][4];
	int part, column;  // the first of the two

	__device__ Rule() : part(threadIdx.x % sharing), column(threadIdx.x / sharing * 2) {}

	__device__ int dim(int i) const { return 4 * sharing * i + 4 * part; }

	// own is the column of the two whose totals the lane gets.
	__device__ int own() const { return column + (part >= sharing / 2); }

	// read and write move the state, of columns up to width.
	__device__ void read(const float* state, int key_dim, int width) {
#pragma unroll
		for (int c = 0; c < 2; c++)
#pragma unroll
			for (int i = 0; i < groups; i++)
#pragma unroll
				for (int j = 0; j < 4; j++) s[c][i][j] = column + c < width && dim(i) + j < key_dim ? state[(column + c) * key_dim + dim(i) + j] : 0;
	}

	__device__ void write(float* state, int key_dim, int width) const {
#pragma unroll
		for (int c = 0; c < 2; c++)
#pragma unroll
			for (int i = 0; i < groups; i++)
#pragma unroll
				for (int j = 0; j < 4; j++)
					if (column + c < width && dim(i) + j < key_dim) state[(column + c) * key_dim + dim(i) + j] = s[c][i][j];
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

// total adds up what lanes have of two sums, twice: a lane of the lower half of those that share columns gets the first one's, of the upper
// half the second's.
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

// keep leaves a run's last inputs to what goes on behind it: each thread some columns.
__device__ inline void keep(const Shape& s, const Inputs& x, half* left, bool begins, int run) {
	int end = (run + 1) * s.span, kept = s.kernel - 1, columns = s.columns();
	int first = (blockIdx.y * gridDim.x + blockIdx.x) * threads + threadIdx.x;
#pragma unroll 1
	for (int c = first; c < columns; c += gridDim.x * gridDim.y * threads) {
		float last[most_kernel - 1];
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++) {
			int at = end - kept + i, before = run * s.span - at;
			if (i < kept) last[i] = before > 0 ? in_front(s, left, begins, before, c) : x.at(s, at, c);
		}
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++)
			if (i < kept) left[(int64)i * columns + c] = __float2half_rn(last[i]);
	}
}

template <int dims>
__device__ void rule(float* y, const float* columns, const float2* gates, float* state, half* left, Inputs x,
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
			float2 sums = total(r.along(x.k), result);
			if (puts && lo + i > 0) *to = sums.y;
			to += ldy;
			float own = x.gates.y * (x.v - x.gates.x * sums.x);
			r.add(x.gates.x, __shfl_sync(~0u, own, lower), __shfl_sync(~0u, own, lower + sharing / 2), x.k);
			result = r.along(x.q);
			x = next;
		}
		__syncthreads();
	}
	result.x = total(result, result).x;
	if (puts) *to = result.x;
	r.write(state, s.key_dim, width);
	if (left) keep(s, x, left, begins, h.run);
}

// Names are of the dimensions of keys that a head has at most.
#define DELTA_RULE(dims)                                                                                                     \
	extern "C" __global__ void __launch_bounds__(threads) delta_rule_##dims(                                                 \
		float* y, const float* columns, const float* gates, float* state,                                                    \
		half* left, const half* q, const half* k, const half* v, const int* pos, const int* seq, int sequences,              \
		int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span,                                    \
		int64 ldy, int64 ldc, int64 ldq, int64 ldk, int64 ldv) {                                                             \
		rule<dims>(y, columns, (const float2*)gates, state, left, Inputs{q, k, v, ldq, ldk, ldv}, pos, seq, sequences,          \
			Shape{key_heads, value_heads, key_dim, value_dim, kernel, span}, ldy, ldc);                                      \
	}

DELTA_RULE(64)
DELTA_RULE(128)
DELTA_RULE(256)

// Heads of x, normalized by their root mean square, times silu(gate): a warp a head of a row.
extern "C" __global__ void __launch_bounds__(threads) delta_norm_gate(
	half* y,            // [rows, heads·dim], rows ldy elements apart
	const float* x,     // likewise, ldx
	const half* gate,   // likewise, ldg
	const float* w,     // [dim]
	int rows, int heads, int dim, int64 ldy, int64 ldx, int64 ldg, float eps, float offset) {
	after_previous();
	int lane = threadIdx.x % 32;
	int64 all = ((int64)blockIdx.x * threads + threadIdx.x) / 32;
	int row = all / heads, head = all % heads;
	if (row >= rows) return;
	y += row * ldy + head * dim, x += row * ldx + head * dim, gate += row * ldg + head * dim;
	float v[most_dim / 32], squares = 0;
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) v[i] = lane + 32 * i < dim ? x[lane + 32 * i] : 0, squares += v[i] * v[i];
	float inverse = 1 / sqrtf(warp_sum(squares) / dim + eps);
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) {
		int c = lane + 32 * i;
		if (c >= dim) continue;
		float z = __half2float(gate[c]);
		y[c] = __float2half_rn(v[i] * inverse * (w[c] + offset) * (z / (1 + expf(-z))));
	}
}
