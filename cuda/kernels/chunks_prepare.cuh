// What chunks of rows have that does not need the state (delta_chunks.cu).
#pragma once

#include "chunks.cuh"

constexpr int preparing_threads = 128, heads_of_block = 8;  // heads of values that a block prepares

// Preparing is what a block of delta_chunks_prepare has in shared memory: the image, or, behind products with it, a matrix of each warp; and k·k and q·k.
template <int dims>
struct Preparing {
	static constexpr int stride = rows_of_chunk + 4;
	union {
		Image<dims> image;
		__align__(16) float lower[preparing_threads / 32][rows_of_chunk][stride];  // A, transposed
	};
	float products[2][rows_of_chunk][rows_of_chunk + 1];

	// fill splits k and q of some rows, and leaves them in memory, too, if there is to.
	__device__ void fill(const float* k, const float* q, int64 ld, int rows, int key_dim, Image<dims>* to) {
		constexpr int eights = dims / 8, each = rows_of_chunk * eights, at_once = 4;
#pragma unroll
		for (int first = threadIdx.x; first < 2 * each; first += at_once * preparing_threads) {
			float4 x[at_once][2];
#pragma unroll
			for (int j = 0; j < at_once; j++) {
				int i = first + j * preparing_threads, row = i % each / eights, eight = i % eights;
				bool there = row < rows && 8 * eight < key_dim;
				const float4* from = (const float4*)((i / each ? q : k) + row * ld + 8 * eight);
				x[j][0] = there ? from[0] : make_float4(0, 0, 0, 0), x[j][1] = there ? from[1] : make_float4(0, 0, 0, 0);
			}
#pragma unroll
			for (int j = 0; j < at_once; j++) {
				int i = first + j * preparing_threads, of_q = i / each, row = i % each / eights, eight = i % eights;
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

	// multiply_all makes k·k, but if plain, and q·k: a warp 16 rows of one.
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

// leave_reads leaves P, a lane a column, and Γ and D's last row. A lane has its row's g and β, or Δ.
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
	for (int i = warp; i < (plain ? heads : 2 * heads); i += preparing_threads / 32) {
		int head = from + i % heads;
		float2 own = lane < rows ? gates[(int64)(first + lane) * s.value_heads + head] : make_float2(1, 0);
		Record<plain>& to = records[(int64)number * s.value_heads + head];
		if constexpr (!plain) {
			if (i < heads) {
				leave_solves(to.solves, m.lower[warp], m.products[0], own);
				continue;
			}
		}
		leave_reads<plain>(to, m.products[1], own);
	}
}
