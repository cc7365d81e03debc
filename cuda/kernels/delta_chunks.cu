// Linear attention (delta.cu) of many rows: chunks of 32 at a time, as products of matrices (Gated Delta Networks, arXiv 2412.06464, section 3.3;
// Mamba-2, arXiv 2405.21060, section 6). With Γ[i] = g[1]·...·g[i] of a chunk's rows, D[i][j] = Γ[i]/Γ[j] for j ≤ i, and the state S in front of it, [values, keys],
//
//	A[i][j] = β[i]·D[i][j]·(k[i]·k[j]) for j < i,  T = (1 + A)⁻¹·β,  P[i][j] = D[i][j]·(q[i]·k[j])
//	U = T·(V - Γ·K·Sᵀ),  Y = Γ·Q·Sᵀ + P·U,  S = Γ[32]·S + Σ D[32][j]·u[j]·k[j]ᵀ
//
// Of Mamba-2 U is Δ·V. Products of D are made one by one, as rows would have them, so that nothing is divided. What does not need the state,
// T, P, and K and Q as sums of two numbers in bfloat16 (split_bf16.cuh), delta_chunks_prepare makes of all chunks; then delta_chunks goes from chunk to chunk. Two warps
// share 16 columns of a head, whose state they have in registers, [16 columns, keys], each half of the keys' dimensions: so each product leaves what the next one's left side is,
// and sums along keys are added up by way of shared memory. Either has U of all rows, and what is read of half of them.
//
// Rows behind a run's last are zeros, of which neither state nor results have anything.
//
// H200, 2026-11-28, 2048 rows of 16 heads of keys and 32 of values, all of 128 dimensions: 29 µs, and then 100 (docs/performance.md).
#include "chunks_prepare.cuh"

constexpr int threads = 128, columns_of_block = 32;
constexpr int value_stride = 36;  // floats from row to row of values in shared memory, so that lanes read different banks
constexpr int values_bytes = 4 * rows_of_chunk * value_stride, sums_bytes = threads * (4 + 2) * 16;
constexpr int shared_of_64 = 3 * side_of_64 + 2 * (record_of_rule + values_bytes) + sums_bytes;  // if plain, less
constexpr int shared_of_128 = 3 * side_of_128 + 2 * (record_of_rule + values_bytes) + sums_bytes;

// Stage is a chunk of a head in shared memory, but for q, and Memory what a block has there: of two chunks, q of one, and sums that warps leave to each other.
template <int dims, bool plain>
struct Stage {
	Side<dims> k;
	Record<plain> record;
	float values[rows_of_chunk][value_stride];
};

template <int dims, bool plain>
struct Memory {
	Stage<dims, plain> stages[2];
	Side<dims> q;
	float4 of_k[threads / 32][4][32], of_q[threads / 32][2][32];
};

static_assert(sizeof(Memory<64, false>) == shared_of_64 && sizeof(Memory<128, false>) == shared_of_128, "as the host has it");

// copy_all has pieces of 16 bytes copied.
template <class T>
__device__ inline void copy_all(T& to, const T* from) {
	constexpr int all = sizeof(T) / 16, rest = all % threads;
	uint4* own = (uint4*)&to + threadIdx.x;
	const uint4* there = (const uint4*)from + threadIdx.x;
#pragma unroll
	for (int i = 0; i < all / threads; i++) copy16(own + i * threads, there + i * threads, true);
	if (rest > 0 && threadIdx.x < rest) copy16(own + all / threads * threads, there + all / threads * threads, true);
}

// Places are what a lane reads by ldmatrix, in bytes from the beginning of a side, or of a square: of 16 rows' 16 columns those of its warp's half of the
// dimensions, as right sides and transposed; and of 16 rows of a square, of which there are 16 columns each.
template <int dims>
struct Places {
	u32 right[dims / 32], across[dims / 32], square[2];
	__device__ Places(Side<dims>& side, Square& of) {
		int lane = threadIdx.x % 32, second = threadIdx.x / 32 % 2, row = lane / 16 * 8 + lane % 8;
#pragma unroll
		for (int t = 0; t < dims / 32; t++) {
			int eight = dims / 16 * second + 2 * t;
			right[t] = (char*)side.at(0, row, eight + lane / 8 % 2) - (char*)&side, across[t] = (char*)side.at(0, lane % 16, eight + lane / 16) - (char*)&side;
			keep(right[t]), keep(across[t]);
		}
#pragma unroll
		for (int t = 0; t < 2; t++) square[t] = (char*)of.at(0, row, 2 * t + lane / 8 % 2) - (char*)&of, keep(square[t]);
	}
	__device__ static void keep(u32& x) { asm volatile("" : "+r"(x)); }  // in a register, not worked out for each chunk anew
};

// matrices and matrices_across are ldmatrix and ldmatrix_trans from an address of shared memory.
__device__ inline void matrices(u32 (&r)[4], u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}
__device__ inline void matrices_across(u32 (&r)[4], u32 at) {
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// Walk is what a block has of its head.
template <int dims, bool plain>
struct Walk {
	Memory<dims, plain>& memory;
	const Image<dims>* images;     // of the run's first chunk, the head's
	const Record<plain>* records;  // likewise
	const float* values;           // of the block's first column, of the run's first row
	Shape s;
	Chunks c;
	int64 ldc;
	int width;  // columns of the block

	// ask has all of a chunk but q copied.
	__device__ void ask(int chunk) const {
		Stage<dims, plain>& to = memory.stages[chunk % 2];
		copy_all(to.k, &images[(int64)chunk * s.key_heads].k);
		copy_all(to.record, records + (int64)chunk * s.value_heads);
		constexpr int pieces = columns_of_block / 4, step = threads / pieces;
		int row = threadIdx.x / pieces, at = threadIdx.x % pieces * 4, rows = at < width ? c.rows(s, chunk) : 0;
		const float* from = values + (int64)(c.row(chunk) + row) * ldc + at;
#pragma unroll
		for (int i = 0; i < rows_of_chunk; i += step) copy16(&to.values[row + i][at], row + i < rows ? from + i * ldc : values, row + i < rows);
		commit();
	}
	__device__ void ask_q(int chunk) const {
		copy_all(memory.q, &images[(int64)chunk * s.key_heads].q);
		commit();
	}
};

// Columns is half of the keys' dimensions of 16 columns of a head's state: a lane has of each eight dimensions two, of two columns.
template <int dims>
struct Columns {
	static constexpr int eights = dims / 16, row_bytes = 2 * dims, part_bytes = sizeof(Side<dims>) / 2;
	float s[eights][4];
	int second, first, width;  // whether it is the second half; the lane's first column, the other being eight behind it, and how many there are

	// over calls f with each two numbers, and where they are in a state.
	template <class F>
	__device__ void over(int key_dim, F f) {
#pragma unroll
		for (int n = 0; n < eights; n++)
#pragma unroll
			for (int i = 0; i < 2; i++) {
				int dim = 8 * (second * eights + n);
				f(s[n][2 * i], s[n][2 * i + 1], (first + 8 * i) * key_dim + dim + threadIdx.x % 4 * 2, first + 8 * i < width && dim < key_dim);
			}
	}
	__device__ void read(const float* state, int key_dim, bool begins) {
		over(key_dim, [&](float& x, float& y, int at, bool there) {
			float2 w = there && !begins ? *(const float2*)(state + at) : make_float2(0, 0);
			x = w.x, y = w.y;
		});
	}
	__device__ void write(float* state, int key_dim) {
		over(key_dim, [&](float& x, float& y, int at, bool there) {
			if (there) *(float2*)(state + at) = make_float2(x, y);
		});
	}

	// along adds to results [16 columns, 32 rows] the state times q, and, the four behind, times k, but if plain.
	template <bool plain>
	__device__ void along(float (&d)[8][4], u32 q, u32 k, const Places<dims>& p) const {
#pragma unroll
		for (int t = 0; t < eights / 2; t++) {
			Left a(s[2 * t], s[2 * t + 1]);
			u32 high[plain ? 2 : 4][4], low[plain ? 2 : 4][4];
#pragma unroll
			for (int i = 0; i < (plain ? 2 : 4); i++) {
				u32 at = (i < 2 ? q : k) + p.right[t] + i % 2 * 16 * row_bytes;
				matrices(high[i], at), matrices(low[i], at + part_bytes);
			}
			multiply<plain ? 4 : 8>(d, 0, a, high, low);
		}
	}

	// add makes the state by·S + u·k.
	__device__ void add(float by, const float (&u)[4][4], u32 k, const Places<dims>& p) {
#pragma unroll
		for (int n = 0; n < eights; n++)
#pragma unroll
			for (int i = 0; i < 4; i++) s[n][i] *= by;
#pragma unroll
		for (int t = 0; t < rows_of_chunk / 16; t++) {
			Left a(u[2 * t], u[2 * t + 1]);
			u32 high[eights / 2][4], low[eights / 2][4];
#pragma unroll
			for (int i = 0; i < eights / 2; i++) {
				u32 at = k + p.across[i] + t * 16 * row_bytes;
				matrices_across(high[i], at), matrices_across(low[i], at + part_bytes);
			}
			multiply<eights>(s, 0, a, high, low);
		}
	}
};

// Sums is what both warps that share columns have of the sums along keys.
struct Sums {
	float4 (*of_k)[32], (*of_q)[32], (*other_k)[32], (*other_q)[32];
	int lane, second;
	template <class M>
	__device__ Sums(M& m) : lane(threadIdx.x % 32), second(threadIdx.x / 32 % 2) {
		int own = threadIdx.x / 32, other = own ^ 1;
		of_k = m.of_k[own], of_q = m.of_q[own], other_k = m.of_k[other], other_q = m.of_q[other];
	}

	// leave has the other warp know: of q the rows that are the other one's, of k, behind them, all rows, but if plain.
	template <bool plain>
	__device__ void leave(const float (&d)[8][4]) const {
#pragma unroll
		for (int n = 0; n < 2; n++) of_q[n][lane] = second ? four(d[n]) : four(d[2 + n]);
		if constexpr (!plain) {
#pragma unroll
			for (int n = 0; n < 4; n++) of_k[n][lane] = four(d[4 + n]);
		}
	}

	// find adds what the other one has left; q's are the warp's own 16 rows.
	template <bool plain>
	__device__ void find(float (&k)[4][4], float (&q)[2][4], const float (&d)[8][4]) const {
#pragma unroll
		for (int n = 0; n < 2; n++) add(q[n], second ? four(d[2 + n]) : four(d[n]), other_q[n][lane]);
		if constexpr (!plain) {
#pragma unroll
			for (int n = 0; n < 4; n++) add(k[n], four(d[4 + n]), other_k[n][lane]);
		}
	}
	__device__ static float4 four(const float (&x)[4]) { return make_float4(x[0], x[1], x[2], x[3]); }
	__device__ static void add(float (&to)[4], float4 x, float4 y) { to[0] = x.x + y.x, to[1] = x.y + y.y, to[2] = x.z + y.z, to[3] = x.w + y.w; }
};

constexpr int square_rows_16 = 16 * 2 * rows_of_chunk;  // bytes

// square reads two right sides [16, 8] of a square at an address, of its first or last 16 rows, and of 16 of its columns.
__device__ inline void square(u32 (&high)[4], u32 (&low)[4], u32 at, int rows, u32 columns) {
	at += columns + rows * square_rows_16;
	matrices(high, at), matrices(low, at + square_bytes);
}

// solve makes x·mᵀ, x [16 columns, 32 rows], m with nothing above its diagonal.
__device__ inline void solve(float (&d)[4][4], const float (&x)[4][4], u32 m, const u32 (&columns)[2]) {
	Left a(x[0], x[1]), b(x[2], x[3]);
	u32 high[2][4], low[2][4], high_of_last[1][4], low_of_last[1][4];
	square(high[0], low[0], m, 0, columns[0]), square(high[1], low[1], m, 1, columns[0]), square(high_of_last[0], low_of_last[0], m, 1, columns[1]);
	multiply<4>(d, 0, a, high, low);
	multiply<2>(d, 2, b, high_of_last, low_of_last);
}

// add_read adds x·mᵀ of the first or second 16 rows.
__device__ inline void add_read(float (&d)[2][4], const float (&x)[4][4], u32 m, const u32 (&columns)[2], int second) {
	u32 high[1][4], low[1][4];
	square(high[0], low[0], m, second, columns[0]);
	multiply<2>(d, 0, Left(x[0], x[1]), high, low);
	if (!second) return;
	square(high[0], low[0], m, 1, columns[1]);
	multiply<2>(d, 0, Left(x[2], x[3]), high, low);
}

// times multiplies a result [16 columns, 8·n rows] by a number for each row, of which a lane has two in eight.
template <int n>
__device__ inline void times(float (&d)[n][4], const float* rows) {
	const float2* two = (const float2*)rows + threadIdx.x % 4;
#pragma unroll
	for (int i = 0; i < n; i++) {
		float2 by = two[4 * i];
		d[i][0] *= by.x, d[i][1] *= by.y, d[i][2] *= by.x, d[i][3] *= by.y;
	}
}

// over_rows calls f with each of the lane's numbers of a result [16 columns, 8·n rows], its row and its column, 0 or 8.
template <int n, class F>
__device__ inline void over_rows(F f) {
	int row = threadIdx.x % 4 * 2;
#pragma unroll
	for (int i = 0; i < n; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) f(i, j, 8 * i + row + j % 2, j / 2 * 8);
}

template <int dims, bool plain>
__device__ void go(float* y, const float* columns, const Image<dims>* images, const Record<plain>* records, const float* skips, float* state, half* left, Inputs x,
	const int* pos, const int* seq, int sequences, Shape s, Chunks c, int64 ldy, int64 ldc) {
	extern __shared__ uint4 memory[];
	after_previous();
	int head = blockIdx.y, run = blockIdx.z, from = blockIdx.x * columns_of_block, first = run * s.span, sequence = seq[first];
	if (sequence < 0 || sequence >= sequences) return;  // delta_convolve has said so
	bool begins = pos[first] == 0;
	state += ((int64)sequence * s.value_heads + head) * s.value_dim * s.key_dim;
	Walk<dims, plain> w = {*(Memory<dims, plain>*)memory, images + (int64)run * c.count * s.key_heads + head / (s.value_heads / s.key_heads), records + (int64)run * c.count * s.value_heads + head,
		columns + first * ldc + 2 * s.keys() + head * s.value_dim + from, s, c, ldc, s.value_dim - from};
	w.ask(0), w.ask_q(0);
	Columns<dims> own;
	int column = threadIdx.x / 64 * 16 + threadIdx.x % 32 / 4;
	own.second = threadIdx.x / 32 % 2, own.first = from + column, own.width = s.value_dim;
	own.read(state, s.key_dim, begins && c.first == 0);
	float skip = plain ? skips[head] : 0;
	Sums sums(w.memory);
	Places<dims> places(w.memory.q, w.memory.stages[0].record.reads);
	auto address = [](const void* p) { return (u32)__cvta_generic_to_shared(p); };
	float* to = y + (int64)(first + c.row(0) + 16 * own.second + threadIdx.x % 4 * 2) * ldy + head * s.value_dim + own.first;
	for (int i = 0; i < c.count; i++, to += rows_of_chunk * ldy) {
		arrived<0>();
		__syncthreads();
		if (i + 1 < c.count) w.ask(i + 1);
		Stage<dims, plain>& m = w.memory.stages[i % 2];
		float along[8][4] = {}, r[4][4], read[2][4], u[4][4] = {};
		own.template along<plain>(along, address(&w.memory.q), address(&m.k), places);
		sums.leave<plain>(along);
		__syncthreads();
		if (i + 1 < c.count) w.ask_q(i + 1);
		sums.find<plain>(r, read, along);
		if (!plain) times(r, m.record.front);
		over_rows<4>([&](int n, int j, int row, int at) {
			float v = m.values[row][column + at];
			if (plain) u[n][j] = v;
			else r[n][j] = v - r[n][j];
		});
		if constexpr (!plain) solve(u, r, address(&m.record.solves), places.square);
		times(read, m.record.front + 16 * own.second);
		add_read(read, u, address(&m.record.reads), places.square, own.second);
		int rows = c.rows(s, i) - 16 * own.second;
		over_rows<2>([&](int n, int j, int row, int at) {
			float beside = plain ? skip * (own.second ? u[2 + n][j] : u[n][j]) : 0;
			if (row < rows && own.first + at < s.value_dim) to[(8 * n + j % 2) * ldy + at] = read[n][j] + beside;
		});
		times(u, m.record.behind);
		own.add(m.record.front[rows_of_chunk - 1], u, address(&m.k), places);
	}
	own.write(state, s.key_dim);
	if (left) keep(s, x, left + (int64)sequence * (s.kernel - 1) * s.columns(), begins, run, threads);
}

// Names are of the dimensions of keys that a head has at most. chunks, from the one numbered first on, are those of each run.
#define CHUNKS(dims, rule, plain)                                                                                                                  \
	extern "C" __global__ void __launch_bounds__(preparing_threads) delta_chunks_prepare_##rule##_##dims(                                                   \
		unsigned char* images, unsigned char* records, const float* columns, const float* gates,                                                   \
		int key_heads, int value_heads, int key_dim, int value_dim, int span, int first, int chunks, int64 ldc) {                                  \
		prepare<dims, plain>((Image<dims>*)images, (Record<plain>*)records, columns, (const float2*)gates,                                         \
			Shape{key_heads, value_heads, key_dim, value_dim, 0, span}, Chunks{first, chunks}, ldc);                                               \
	}                                                                                                                                              \
	extern "C" __global__ void __launch_bounds__(threads, 2) delta_chunks_##rule##_##dims(                                                         \
		float* y, const float* columns, const unsigned char* images, const unsigned char* records, const float* skips, float* state,               \
		half* left, const half* q, const half* k, const half* v, const int* pos, const int* seq, int sequences,                                    \
		int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span, int first, int chunks,                                   \
		int64 ldy, int64 ldc, int64 ldq, int64 ldk, int64 ldv) {                                                                                   \
		go<dims, plain>(y, columns, (const Image<dims>*)images, (const Record<plain>*)records, skips, state, left, Inputs{q, k, v, ldq, ldk, ldv}, \
			pos, seq, sequences, Shape{key_heads, value_heads, key_dim, value_dim, kernel, span}, Chunks{first, chunks}, ldy, ldc);                \
	}

CHUNKS(64, rule, false)
CHUNKS(128, rule, false)
CHUNKS(64, plain, true)
CHUNKS(128, plain, true)
