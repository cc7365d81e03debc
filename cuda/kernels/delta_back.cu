// Gradients of linear attention by the gated delta rule (delta.cu), of whole sequences.
//
// delta_back: a block some columns of a head of values of a run, whose state and its gradient it has in registers; four lanes share a
// column. It goes forward and leaves the state in front of every mark_rows rows in memory, and then back, some rows at a
// time: forward once more from such a mark, leaving all states, and back. With S' = g·S + u·kᵀ, u = β·(v - g·m), m = S·k and dS the
// gradient of S', to which dy·qᵀ is added first,
//
//	dq = S'ᵀ·dy; du = dS·k; dβ = du·(v - g·m); dv = β·du; dm = -g·dv; dk = dSᵀ·u + Sᵀ·dm
//	dg = dS·S - dv·m; dS = g·dS + dm·kᵀ
//
// That of Mamba-2 (plain) is the same with Δ for β and without m: dv = Δ·du + skip·dy, dΔ = du·v.
//
// What blocks have of gradients along keys, and of g and β, is added up by delta_back_sums, a thread an element.
//
// delta_back_columns: those of what silu has seen, a warp a head of a row. delta_back_inputs: those of q, k and v, a thread an element.
#include "delta.cuh"

constexpr int sharing = 4;      // lanes that share a column
constexpr int mark_rows = 32;   // from one state that is kept to the next
constexpr int tile_rows = 8;    // that are in shared memory at a time
constexpr int threads = 256;    // of the other kernels
constexpr int columns_of_64 = 64, columns_of_128 = 64, columns_of_256 = 64;  // of a block, by dimensions of keys

// Bytes of shared memory, likewise: a tile, and two rows' sums.
constexpr int shared_of_64 = 4 * (tile_rows * (2 * 64 + 2 * columns_of_64 + 4) + 2 * columns_of_64 * sharing / 32 * (2 * 64 + 2));
constexpr int shared_of_128 = 4 * (tile_rows * (2 * 128 + 2 * columns_of_128 + 4) + 2 * columns_of_128 * sharing / 32 * (2 * 128 + 2));
constexpr int shared_of_256 = 4 * (tile_rows * (2 * 256 + 2 * columns_of_256 + 4) + 2 * columns_of_256 * sharing / 32 * (2 * 256 + 2));

// Tile is some rows of a head in shared memory.
template <int dims, int columns>
struct Tile {
	float k[tile_rows][dims], q[tile_rows][dims], v[tile_rows][columns], dy[tile_rows][columns], gates[tile_rows][4];  // g, β, and their slopes by a and b
};

// Sums are what warps have of a row: gradients along dimensions of q and k, and of g and β.
template <int dims, int warps>
struct Sums {
	float along[warps][2][dims], gates[warps][2];
};

template <int dims, int columns>
struct Memory {
	Tile<dims, columns> tile;
	Sums<dims, columns * sharing / 32> sums[2];
};

// Arguments are those of a launch.
struct Arguments {
	float* dcolumns;       // [rows, columns], rows ldc elements apart: dv is written
	float* parts;          // [blocks, span, 2·key_dim + 2]: of q, of k, of a and of b
	float* kept;           // for each block the marks, and as many states as rows from one to the next
	const float* dy;       // [rows, values], lddy
	const float* columns;  // [rows, columns], ldc
	const float *a, *b;    // [rows, heads of values], lda, ldb; b is null if plain
	const float *decay, *bias;
	const float* skips;    // of plain
	float limit;  // of Δ the least, of β the most
	Shape s;
	int run;               // the first
	int64 ldc, lddy, lda, ldb;
};

template <int dims, int columns>
struct Back {
	static constexpr int groups = dims / (4 * sharing), mine = 4 * groups, warps = columns * sharing / 32, all = columns * sharing;
	const Arguments& p;
	Memory<dims, columns>& m;
	int key_head, head, begin, first, part, column, block;
	bool there;
	float decay, bias, skip, taken;  // taken: 0 if plain, 1 if not
	float s[mine], d[mine];  // the state, and the gradient of one

	__device__ Back(const Arguments& p, Memory<dims, columns>& m) : p(p), m(m) {
		head = blockIdx.y, key_head = head / (p.s.value_heads / p.s.key_heads), first = blockIdx.x * columns;
		begin = (p.run + blockIdx.z) * p.s.span, part = threadIdx.x % sharing, column = threadIdx.x / sharing;
		block = (blockIdx.z * gridDim.y + blockIdx.y) * gridDim.x + blockIdx.x, there = first + column < p.s.value_dim;
		decay = p.decay[head], bias = p.bias[head], skip = p.b ? 0 : p.skips[head], taken = p.b ? 1 : 0;
	}

	__device__ int dim(int i) const { return i / 4 * 4 * sharing + 4 * part + i % 4; }
	__device__ float* state(int n) const { return p.kept + ((int64)block * slots() + n) * mine * all; }
	__device__ int marks() const { return (p.s.span + mark_rows - 1) / mark_rows; }
	__device__ int slots() const { return marks() + mark_rows; }

	__device__ void put(int n) const {
		float* to = state(n) + threadIdx.x;
#pragma unroll
		for (int i = 0; i < mine; i++) to[i * all] = s[i];
	}
	__device__ void get(int n) {
		const float* from = state(n) + threadIdx.x;
#pragma unroll
		for (int i = 0; i < mine; i++) s[i] = from[i * all];
	}

	// bring has rows lo to hi of the run in shared memory.
	__device__ void bring(int lo, int hi) {
		__syncthreads();
		int keys = p.s.keys(), width = min(columns, p.s.value_dim - first);
		for (int r = 0; r < hi - lo; r++) {
			const float* row = p.columns + (begin + lo + r) * p.ldc;
			for (int i = threadIdx.x; i < dims; i += all) {
				m.tile.q[r][i] = i < p.s.key_dim ? row[key_head * p.s.key_dim + i] : 0;
				m.tile.k[r][i] = i < p.s.key_dim ? row[keys + key_head * p.s.key_dim + i] : 0;
			}
			for (int i = threadIdx.x; i < columns; i += all) {
				m.tile.v[r][i] = i < width ? row[2 * keys + head * p.s.value_dim + first + i] : 0;
				m.tile.dy[r][i] = i < width ? p.dy[(begin + lo + r) * p.lddy + head * p.s.value_dim + first + i] : 0;
			}
		}
		if (threadIdx.x < hi - lo) {
			int64 row = begin + lo + threadIdx.x;
			float z = p.a[row * p.lda + head] + bias, slope = 1 / (1 + expf(-z)), *to = m.tile.gates[threadIdx.x];
			Gates g = p.b ? Gates(decay, z, p.b[row * p.ldb + head], p.limit) : Gates(decay, z, p.limit, true);
			if (!p.b && !(Gates::softplus(z) > p.limit)) slope = 0;
			to[0] = g.g, to[1] = g.beta, to[2] = -g.g * expf(decay) * slope, to[3] = p.b ? g.beta * (1 - g.beta / p.limit) : slope;
		}
		__syncthreads();
	}

	// total adds up what the lanes of a column have.
	__device__ static float total(float v) {
#pragma unroll
		for (int step = 1; step < sharing; step *= 2) v += __shfl_xor_sync(~0u, v, step);
		return v;
	}

	// forth goes on by a row of the tile.
	__device__ void forth(int r) {
		float sum = 0;
#pragma unroll
		for (int i = 0; i < mine; i++) sum += s[i] * m.tile.k[r][dim(i)];
		float g = m.tile.gates[r][0], u = m.tile.gates[r][1] * (m.tile.v[r][column] - taken * g * total(sum));
#pragma unroll
		for (int i = 0; i < mine; i++) s[i] = g * s[i] + u * m.tile.k[r][dim(i)];
	}

	// gather leaves the warp's sums over its columns of what lanes have for their dimensions: lanes halve what they have, three times.
	__device__ void gather(float (&x)[mine], float* to) const {
#pragma unroll
		for (int half = mine / 2, lanes = 16; lanes >= sharing; half /= 2, lanes /= 2) {
			bool upper = threadIdx.x & lanes;
#pragma unroll
			for (int i = 0; i < mine / 2; i++) {
				if (i >= half) continue;
				float send = upper ? x[i] : x[i + half], stay = upper ? x[i + half] : x[i];
				x[i] = stay + __shfl_xor_sync(~0u, send, lanes);
			}
		}
		int first = (threadIdx.x & 16 ? mine / 2 : 0) + (threadIdx.x & 8 ? mine / 4 : 0) + (threadIdx.x & 4 ? mine / 8 : 0);
#pragma unroll
		for (int i = 0; i < mine / 8; i++) to[dim(first + i)] = x[i];
	}

	// back goes back by a row of the tile; s is the state in front of it. n is the number of the row in the run.
	__device__ void back(int r, int n) {
		Sums<dims, warps>& sums = m.sums[n % 2];
		float g = m.tile.gates[r][0], beta = m.tile.gates[r][1], v = m.tile.v[r][column], dy = m.tile.dy[r][column];
		float sk = 0, dk = 0, ds = 0;
#pragma unroll
		for (int i = 0; i < mine; i++) {
			float k = m.tile.k[r][dim(i)];
			d[i] += dy * m.tile.q[r][dim(i)];
			sk += s[i] * k, dk += d[i] * k, ds += d[i] * s[i];
		}
		sk = total(sk), dk = total(dk);
		float rest = v - taken * g * sk, u = beta * rest, du = beta * dk, dm = -taken * g * du;
		int warp = threadIdx.x / 32;
		float x[mine];
#pragma unroll
		for (int i = 0; i < mine; i++) x[i] = (g * s[i] + u * m.tile.k[r][dim(i)]) * dy;
		gather(x, sums.along[warp][0]);
#pragma unroll
		for (int i = 0; i < mine; i++) x[i] = d[i] * u + s[i] * dm;
		gather(x, sums.along[warp][1]);
		float own = part == 0 ? 1 : 0, dg = warp_sum(ds - own * taken * du * sk), dbeta = warp_sum(own * dk * rest);
		if (threadIdx.x % 32 == 0) sums.gates[warp][0] = dg, sums.gates[warp][1] = dbeta;
#pragma unroll
		for (int i = 0; i < mine; i++) d[i] = g * d[i] + dm * m.tile.k[r][dim(i)];
		int64 row = begin + n;
		if (there && part == 0) p.dcolumns[row * p.ldc + 2 * p.s.keys() + head * p.s.value_dim + first + column] = du + skip * dy;
		float* to = p.parts + ((int64)block * p.s.span + n) * (2 * p.s.key_dim + 2);
		__syncthreads();
		for (int i = threadIdx.x; i < 2 * dims; i += all) {
			int at = i % dims, which = i / dims;
			if (at >= p.s.key_dim) continue;
			float sum = 0;
#pragma unroll
			for (int w = 0; w < warps; w++) sum += sums.along[w][which][at];
			to[which * p.s.key_dim + at] = sum;
		}
		if (threadIdx.x < 2) {  // of a and of b, given those of g and β
			float sum = 0;
#pragma unroll
			for (int w = 0; w < warps; w++) sum += sums.gates[w][threadIdx.x];
			to[2 * p.s.key_dim + threadIdx.x] = sum * m.tile.gates[r][2 + threadIdx.x];
		}
	}

	__device__ void run() {
		int span = p.s.span;
#pragma unroll
		for (int i = 0; i < mine; i++) s[i] = d[i] = 0;
		for (int lo = 0; lo < span; lo += tile_rows) {
			if (lo % mark_rows == 0) put(lo / mark_rows);
			bring(lo, min(lo + tile_rows, span));
			for (int r = 0; r < min(tile_rows, span - lo); r++) forth(r);
		}
		for (int mark = marks() - 1; mark >= 0; mark--) {
			int from = mark * mark_rows, to = min(from + mark_rows, span), last = from;
			get(mark);
			for (int lo = from; lo < to; lo += tile_rows) {
				bring(last = lo, min(lo + tile_rows, to));
				for (int r = 0; r < min(tile_rows, to - lo); r++) {
					put(marks() + lo - from + r);
					forth(r);
				}
			}
			for (int lo = last; lo >= from; lo -= tile_rows) {
				if (lo < last) bring(lo, lo + tile_rows);
				for (int r = min(tile_rows, to - lo) - 1; r >= 0; r--) {
					get(marks() + lo - from + r);
					back(r, lo + r);
				}
			}
		}
	}
};

template <int dims, int columns>
__device__ void delta_back(const Arguments& p) {
	extern __shared__ __align__(16) float memory[];
	after_previous();
	Back<dims, columns>(p, *(Memory<dims, columns>*)memory).run();
}

#define DELTA_BACK(dims)                                                                                                                   \
	static_assert(sizeof(Memory<dims, columns_of_##dims>) == shared_of_##dims, "as cuda/delta_back.go has it");                             \
	extern "C" __global__ void __launch_bounds__(columns_of_##dims * sharing) delta_back_##dims(                                            \
		float* dcolumns, float* parts, float* kept, const float* dy, const float* columns, const float* a, const float* b,                  \
		const float* decay, const float* bias, const float* skips, float limit, int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span,            \
		int run, int64 ldc, int64 lddy, int64 lda, int64 ldb) {                                                                             \
		Arguments p = {dcolumns, parts, kept, dy, columns, a, b, decay, bias, skips, limit, {key_heads, value_heads, key_dim, value_dim, kernel, span},   \
			run, ldc, lddy, lda, ldb};                                                                                                      \
		delta_back<dims, columns_of_##dims>(p);                                                                                             \
	}

DELTA_BACK(64)
DELTA_BACK(128)
DELTA_BACK(256)

// The gradients of queries and keys, of all heads of values that share them, and of a and b, of runs from one on.
extern "C" __global__ void __launch_bounds__(threads) delta_back_sums(
	float* dcolumns,     // [rows, columns], ldc: dq and dk are written
	float* da,           // [rows, heads of values], ldda: added to
	float* db,           // likewise, lddb; null if plain: da has what is of Δ, too
	const float* parts,  // [runs, heads of values, chunks, span, 2·key_dim + 2]
	int rows, int key_heads, int value_heads, int key_dim, int chunks, int span, int run, int64 ldc, int64 ldda, int64 lddb) {
	after_previous();
	int keys = key_heads * key_dim, all = 2 * keys + 2 * value_heads, each = 2 * key_dim + 2;
	int64 i = (int64)blockIdx.x * threads + threadIdx.x;
	int row = i / all, c = i % all;
	if (row >= rows) return;
	bool of_keys = c < 2 * keys;
	int group = value_heads / key_heads, head, at, heads;
	if (of_keys) head = c % keys / key_dim * group, at = c / keys * key_dim + c % key_dim, heads = group;
	else head = (c - 2 * keys) % value_heads, at = 2 * key_dim + (c - 2 * keys) / value_heads, heads = 1;
	const float* from = parts + (((int64)(row / span) * value_heads + head) * chunks * span + row % span) * each + at;
	if (!db && c >= 2 * keys + value_heads) return;
	float sum = 0;
	for (int n = 0; n < heads * chunks; n++) sum += from[(int64)n * span * each];
	if (!db && !of_keys)
		for (int n = 0; n < chunks; n++) sum += from[(int64)n * span * each + 1];
	int64 to = (int64)run * span + row;
	if (of_keys) dcolumns[to * ldc + c] = sum;
	else if (c < 2 * keys + value_heads) da[to * ldda + head] += sum;
	else db[to * lddb + head] += sum;
}

extern "C" __global__ void __launch_bounds__(threads) delta_back_columns(
	float* dcolumns,  // [rows, columns], rows ldc elements apart, of the results, and then of what silu has seen
	const half* q,    // [rows, keys], ldq
	const half* k,    // likewise, ldk
	const half* v,    // [rows, values], ldv
	const float* conv,  // [columns, kernel]
	const float* shift, // [columns], or null
	int rows, int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span,
	int64 ldc, int64 ldq, int64 ldk, int64 ldv, float scale) {  // scale: of queries; 0: heads stay as they are
	after_previous();
	Shape s = {key_heads, value_heads, key_dim, value_dim, kernel, span};
	Inputs x = {q, k, v, ldq, ldk, ldv};
	Part p(s, threads);
	int lane = threadIdx.x % 32, row = p.row, dim = p.dim, begin = p.begin;
	if (row >= rows) return;
	int first = row / span * span;
	float y[most_dim / 32], slope[most_dim / 32], dy[most_dim / 32], squares = 0, along = 0;
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) {
		int c = begin + lane + 32 * i;
		y[i] = dy[i] = slope[i] = 0;
		if (lane + 32 * i >= dim) continue;
		if (shift) y[i] = shift[c];
		for (int j = 0; j < kernel; j++)
			if (int at = row - kernel + 1 + j; at >= first) y[i] += conv[c * kernel + j] * x.at(s, at, c);
		float sigmoid = 1 / (1 + expf(-y[i]));
		slope[i] = sigmoid * (1 + y[i] * (1 - sigmoid)), y[i] *= sigmoid, dy[i] = dcolumns[row * ldc + c];
		squares += y[i] * y[i], along += y[i] * dy[i];
	}
	float factor = 1, less = 0;
	if (p.of_keys && scale != 0) {
		float inv = rsqrtf(warp_sum(squares) + 1e-6f);
		factor = inv * (p.number < key_heads ? scale : 1), less = warp_sum(along) * inv * inv;
	}
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++)
		if (lane + 32 * i < dim) dcolumns[row * ldc + begin + lane + 32 * i] = factor * (dy[i] - less * y[i]) * slope[i];
}

extern "C" __global__ void __launch_bounds__(threads) delta_back_inputs(
	float* dq,              // [rows, keys], lddq: added to
	float* dk,              // likewise, lddk
	float* dv,              // [rows, values], lddv
	const float* dcolumns,  // [rows, columns], ldc, of what silu has seen
	const float* conv,      // [columns, kernel]
	int rows, int keys, int columns, int kernel, int span, int64 lddq, int64 lddk, int64 lddv, int64 ldc) {
	after_previous();
	int64 all = (int64)blockIdx.x * threads + threadIdx.x;
	int row = all / columns, c = all % columns;
	if (row >= rows) return;
	int end = (row / span + 1) * span;
	float sum = 0;
	for (int j = 0; j < kernel; j++)
		if (int behind = row + kernel - 1 - j; behind < end) sum += conv[c * kernel + j] * dcolumns[behind * ldc + c];
	float* to = c < keys ? dq + row * lddq + c : c < 2 * keys ? dk + row * lddk + c - keys : dv + row * lddv + c - 2 * keys;
	*to += sum;
}
