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
#include "delta.cuh"
#include "split_bf16.cuh"

constexpr int rows_of_chunk = 32;
constexpr int prepare_threads = 128, heads_of_block = 8;  // heads of values that a block prepares
constexpr int threads = 128, columns_of_block = 32;       // of delta_chunks
constexpr int value_stride = 36;                          // floats from row to row of values in shared memory, so that lanes read different banks

// What is prepared of a chunk: for each head of keys k and q, high parts and low ones; for each head of values T, of the delta rule alone, and P,
// high parts and low ones, and then Γ[i], and D[32][j], with Δ[j] if plain.
constexpr int square_bytes = 2 * rows_of_chunk * rows_of_chunk;
constexpr int side_of_64 = 2 * rows_of_chunk * 2 * 64, side_of_128 = 2 * rows_of_chunk * 2 * 128;
constexpr int image_of_64 = 2 * side_of_64, image_of_128 = 2 * side_of_128;
constexpr int record_of_plain = 2 * square_bytes + 8 * rows_of_chunk, record_of_rule = 4 * square_bytes + 8 * rows_of_chunk;
constexpr int values_bytes = 4 * rows_of_chunk * value_stride, sums_bytes = threads * (4 + 2) * 16;
constexpr int shared_of_64 = 3 * side_of_64 + 2 * (record_of_rule + values_bytes) + sums_bytes;  // if plain, less
constexpr int shared_of_128 = 3 * side_of_128 + 2 * (record_of_rule + values_bytes) + sums_bytes;

// Side is k or q of a chunk, high and low parts. Rows' pieces of eight numbers lie in an order in which eight rows' are in different banks.
template <int dims>
struct Side {
	half part[2][rows_of_chunk * dims];
	__device__ half* at(int p, int row, int eight) { return part[p] + row * dims + (eight ^ row % 8) * 8; }
};

template <int dims>
struct Image {
	Side<dims> k, q;
};

// Square is a matrix of a chunk, high and low parts, in such an order.
struct Square {
	half part[2][rows_of_chunk * rows_of_chunk];
	__device__ half* at(int p, int row, int eight) { return part[p] + row * rows_of_chunk + (eight ^ row / 2 % 4) * 8; }
};

template <bool plain>
struct Record;

template <>
struct Record<true> {
	Square reads;  // P
	float front[rows_of_chunk], behind[rows_of_chunk];
	__device__ Square& solves() { return reads; }  // nobody calls it
};

template <>
struct Record<false> {
	Square solved, reads;  // T, P
	float front[rows_of_chunk], behind[rows_of_chunk];
	__device__ Square& solves() { return solved; }
};

static_assert(sizeof(Image<64>) == image_of_64 && sizeof(Image<128>) == image_of_128, "as the host has it");
static_assert(sizeof(Record<true>) == record_of_plain && sizeof(Record<false>) == record_of_rule, "as the host has it");

// right reads two right sides [16, 8], of 16 rows of a matrix that has results' columns as its rows, and 16 of its columns.
template <class M>
__device__ inline void right(u32 (&to)[4], M& m, int part, int row, int sixteen) {
	int lane = threadIdx.x % 32;
	ldmatrix(to, m.at(part, row + lane / 16 * 8 + lane % 8, 2 * sixteen + lane / 8 % 2));
}

// left_side reads a left side of 16 rows.
template <class M>
__device__ inline void left_side(Left& to, M& m, int row, int sixteen) {
	int lane = threadIdx.x % 32;
	ldmatrix(to.high, m.at(0, row + lane % 16, 2 * sixteen + lane / 16));
	ldmatrix(to.low, m.at(1, row + lane % 16, 2 * sixteen + lane / 16));
}

// Chunks are some of those that each run has.
struct Chunks {
	int first, count;
	__device__ int row(int i) const { return (first + i) * rows_of_chunk; }
	__device__ int rows(const Shape& s, int i) const { return min(rows_of_chunk, s.span - row(i)); }
};

// Preparing is what a block of delta_chunks_prepare has in shared memory: the image, or, behind products with it, a matrix of each warp; and k·k and q·k.
template <int dims>
struct Preparing {
	static constexpr int stride = rows_of_chunk + 4;
	union {
		Image<dims> image;
		__align__(16) float lower[prepare_threads / 32][rows_of_chunk][stride];  // A, transposed
	};
	float products[2][rows_of_chunk][rows_of_chunk + 1];

	// fill splits k and q of some rows, and leaves them in memory, too, if there is to.
	__device__ void fill(const float* k, const float* q, int64 ld, int rows, int key_dim, Image<dims>* to) {
		constexpr int eights = dims / 8, each = rows_of_chunk * eights, at_once = 4;
#pragma unroll
		for (int first = threadIdx.x; first < 2 * each; first += at_once * prepare_threads) {
			float4 x[at_once][2];
#pragma unroll
			for (int j = 0; j < at_once; j++) {
				int i = first + j * prepare_threads, row = i % each / eights, eight = i % eights;
				bool there = row < rows && 8 * eight < key_dim;
				const float4* from = (const float4*)((i / each ? q : k) + row * ld + 8 * eight);
				x[j][0] = there ? from[0] : make_float4(0, 0, 0, 0), x[j][1] = there ? from[1] : make_float4(0, 0, 0, 0);
			}
#pragma unroll
			for (int j = 0; j < at_once; j++) {
				int i = first + j * prepare_threads, of_q = i / each, row = i % each / eights, eight = i % eights;
				Pair p[4] = {{x[j][0].x, x[j][0].y}, {x[j][0].z, x[j][0].w}, {x[j][1].x, x[j][1].y}, {x[j][1].z, x[j][1].w}};
				uint4 high = make_uint4(p[0].high, p[1].high, p[2].high, p[3].high), low = make_uint4(p[0].low, p[1].low, p[2].low, p[3].low);
				Side<dims>& own = of_q ? image.q : image.k;
				*(uint4*)own.at(0, row, eight) = high, *(uint4*)own.at(1, row, eight) = low;
				if (!to) continue;
				Side<dims>& there = of_q ? to->q : to->k;
				*(uint4*)there.at(0, row, eight) = high, *(uint4*)there.at(1, row, eight) = low;
			}
		}
		__syncthreads();
	}

	// multiply makes k·k, but if plain, and q·k: a warp 16 rows of one.
	template <bool plain>
	__device__ void multiply_all() {
		int of_q = threadIdx.x / 64, row = threadIdx.x / 32 % 2 * 16, g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
		float d[4][4] = {};
		if (of_q || !plain) {
#pragma unroll 2
			for (int t = 0; t < dims / 16; t++) {
				Left a;
				left_side(a, of_q ? image.q : image.k, row, t);
				u32 high[2][4], low[2][4];
#pragma unroll
				for (int i = 0; i < 2; i++) right(high[i], image.k, 0, 16 * i, t), right(low[i], image.k, 1, 16 * i, t);
				multiply<4>(d, 0, a, high, low);
			}
		}
#pragma unroll
		for (int n = 0; n < 4; n++)
#pragma unroll
			for (int i = 0; i < 4; i++) products[of_q][row + g + i / 2 * 8][8 * n + 2 * q + i % 2] = d[n][i];
		__syncthreads();
	}
};

// leave stores two rows of a lane's column.
__device__ inline void leave(Square& to, int row, float upper, float lower) {
	int lane = threadIdx.x % 32, odd = lane % 2;
	float other = __shfl_xor_sync(~0u, odd ? upper : lower, 1);
	Pair p(odd ? other : upper, odd ? lower : other);
	row += odd;
	*((u32*)to.at(0, row, lane / 8) + lane / 2 % 4) = p.high, *((u32*)to.at(1, row, lane / 8) + lane / 2 % 4) = p.low;
}

// reads leaves P, a lane a column, and Γ and D's last row. A lane has its row's g and β, or Δ.
template <bool plain>
__device__ inline void leave_reads(Record<plain>& to, const float (&products)[rows_of_chunk][rows_of_chunk + 1], float2 gates) {
	int lane = threadIdx.x % 32;
	float d = 0, all = 1, front = 1, p[2], by = plain ? gates.y : 1;
#pragma unroll 8
	for (int i = 0; i < rows_of_chunk; i++) {
		float g = __shfl_sync(~0u, gates.x, i);
		all *= g, d = lane == i ? 1 : d * g;
		if (lane == i) front = all;
		p[i % 2] = lane <= i ? by * d * products[i][lane] : 0;
		if (i % 2) leave(to.reads, i - 1, p[0], p[1]);
	}
	to.front[lane] = front, to.behind[lane] = by * d;
}

// leave_solves leaves T: each lane solves (1 + A)·x = e for its column.
__device__ inline void leave_solves(Square& to, float (&lower)[rows_of_chunk][rows_of_chunk + 4], const float (&products)[rows_of_chunk][rows_of_chunk + 1], float2 gates) {
	int lane = threadIdx.x % 32;
	float d = 0, a[4], x[rows_of_chunk];
#pragma unroll
	for (int i = 0; i < rows_of_chunk; i++) {
		float g = __shfl_sync(~0u, gates.x, i), beta = __shfl_sync(~0u, gates.y, i);
		d = lane == i ? 1 : d * g;
		a[i % 4] = lane < i ? beta * d * products[i][lane] : 0;
		if (i % 4 == 3) *(float4*)&lower[lane][i - 3] = make_float4(a[0], a[1], a[2], a[3]);
		x[i] = lane == i;
	}
	__syncwarp();
#pragma unroll
	for (int j = 0; j < rows_of_chunk - 1; j++)
#pragma unroll
		for (int i = (j + 1) / 4 * 4; i < rows_of_chunk; i += 4) {
			float4 w = *(const float4*)&lower[j][i];
#pragma unroll
			for (int k = 0; k < 4; k++)
				if (i + k > j) x[i + k] -= (&w.x)[k] * x[j];
		}
#pragma unroll
	for (int i = 0; i < rows_of_chunk; i += 2) leave(to, i, x[i] * gates.y, x[i + 1] * gates.y);
	__syncwarp();
}

// A block makes what is prepared of a chunk of a run, for a head of keys and some of the heads of values that share it.
template <int dims, bool plain>
__device__ void prepare(Image<dims>* images, Record<plain>* records, const float* columns, const float2* gates, Shape s, Chunks c, int64 ldc) {
	__shared__ Preparing<dims> m;
	after_previous();
	int shared_by = s.value_heads / s.key_heads, pieces = (shared_by + heads_of_block - 1) / heads_of_block;
	int key = blockIdx.x / pieces, piece = blockIdx.x % pieces, chunk = blockIdx.y, run = blockIdx.z, number = run * c.count + chunk;
	int rows = c.rows(s, chunk), first = run * s.span + c.row(chunk), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	if (rows <= 0) return;
	const float* q = columns + first * ldc + key * s.key_dim;
	m.fill(q + s.keys(), q, ldc, rows, s.key_dim, piece ? nullptr : images + (int64)number * s.key_heads + key);
	m.template multiply_all<plain>();
	int heads = min(heads_of_block, shared_by - piece * heads_of_block), from = key * shared_by + piece * heads_of_block;
	for (int i = warp; i < (plain ? heads : 2 * heads); i += prepare_threads / 32) {
		int head = from + i % heads;
		float2 own = lane < rows ? gates[(int64)(first + lane) * s.value_heads + head] : make_float2(1, 0);
		Record<plain>& to = records[(int64)number * s.value_heads + head];
		if (plain || i >= heads) leave_reads<plain>(to, m.products[1], own);
		else leave_solves(to.solves(), m.lower[warp], m.products[0], own);
	}
}

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
		if (!plain) solve(u, r, address(&m.record.solves()), places.square);
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
	extern "C" __global__ void __launch_bounds__(prepare_threads) delta_chunks_prepare_##rule##_##dims(                                                   \
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
