// What a block of attention of single rows, or of runs of a few (attend_row.cuh), has in shared memory, and which positions are its own.
#pragma once

#include "decode.cuh"

constexpr int padding = 4;  // of a row of sums

static_assert(padding % 4 == 0, "sums are read by four");

// Exchange is where warps that share positions leave their products, of two rounds in turn.
template <int warps, int N, int shared>
struct Exchange {
	float4 products[2][warps][N][32];

	// add adds what the others have found to a warp's.
	__device__ void add(float (&s)[N][4], int round) {
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32, first = warp / shared * shared;
		auto& of = products[round % 2];
#pragma unroll
		for (int n = 0; n < N; n++) of[warp][n][lane] = make_float4(s[n][0], s[n][1], s[n][2], s[n][3]);
		asm volatile("bar.sync %0, %1;" ::"r"(1 + warp / shared), "r"(32 * shared) : "memory");
#pragma unroll
		for (int n = 0; n < N; n++) {
			float4 all = make_float4(0, 0, 0, 0);
#pragma unroll
			for (int w = 0; w < shared; w++) {
				float4 p = of[first + w][n][lane];
				all.x += p.x, all.y += p.y, all.z += p.z, all.w += p.w;
			}
			s[n][0] = all.x, s[n][1] = all.y, s[n][2] = all.z, s[n][3] = all.w;
		}
	}
};
template <int warps, int N>
struct Exchange<warps, N, 1> {
	__device__ void add(float (&)[N][4], int) {}
};

// Shared is the shared memory of a block: queries, the new key and value, or those of up to `most` positions, the last one first, and, for
// every head, what its warps have found, and then the block. `sharing` warps may take the same positions: each has some of the columns
// of keys and of values, and as many registers as for heads of so many.
template <int all, int D, int N, int sharing = 1, int most = 1>
struct Shared : Exchange<all, N, sharing> {
	static constexpr int warps = all, dim = D, eights = N, units = warps / sharing, columns = D / sharing, apart = most == 1 ? 0 : D;
	static constexpr bool asks_ahead = columns <= 128;  // there are registers for the next keys and values
	static constexpr bool runs = most > 1;
	half q[8 * N][D + 8], k[most * D], v[most * D];
	float2 turns[most * D / 2];
	float top[8 * N][warps], sum[8 * N][warps];
	alignas(16) int last;
	alignas(16) float sums[4];  // [units, heads, D + padding]: as many heads as there are

	__device__ float* of(int unit, int head, int heads) { return sums + (unit * heads + head) * (D + padding); }

	// unit is which of those that take positions of their own the warp is of, column the first one that it has.
	__device__ static int unit() { return threadIdx.x / 32 / sharing; }
	__device__ static int column() { return threadIdx.x / 32 % sharing * columns; }

	// columns_from returns the warp's columns of a head.
	__device__ static const half* columns_from(const half* head) {
		if constexpr (sharing > 1) head += column();  // added, a zero makes other code
		return head;
	}
};

// Place is a block's among those of a row: its set of heads, and which part of the
// positions it may have. Up to `alone` rounds of a block's warps are for the first one
// alone; else as many have parts as find a round.
struct Place {
	int row, set, part, parts, alone;

	__device__ int working(const Span& span, int warps) const {
		int chunks = span.chunks_end() - span.chunk();
		return chunks <= alone * warps ? 1 : min(parts, (chunks + warps - 1) / warps);
	}
};

// seen_by is what rows of a run see together, the last of which is at pos.
__device__ inline Span seen_by(int pos, int window, int rows) { return Span(pos, rows > 1 && window > 0 ? window + rows - 1 : window); }

// Share is what a block has to do: the chunks of positions from..to-1 of a row, or of rows of which it is the last, if it is
// one of the `parts` blocks that work.
struct Share {
	int pos, seq, parts, from, to;
	bool newest;  // the row's own position is among them
	__device__ Share(const Attend& a, int part, int parts, int pos, int seq, int rows = 1) : pos(pos), seq(seq), parts(parts) {
		Span span = seen_by(pos, a.window, rows);
		int first = span.chunk(), all = span.chunks_end() - first;
		from = first + (unsigned)(all * part) / (unsigned)parts, to = first + (unsigned)(all * (part + 1)) / (unsigned)parts;
		newest = a.k && part == parts - 1;
	}
	// brings reports whether some of the last `fresh` positions are among them.
	__device__ bool brings(const Attend& a, int fresh) const { return a.k && to * at_once > pos + 1 - fresh; }
};

// Sight is what a row sees, and what its products with keys are multiplied by; of a run, those of a lane's slots.
template <int N, bool runs>
struct Sight {
	Span span;
	float by;
	__device__ Sight(const Attend& a, const Share& share, const Heads&) : span(share.pos, a.window), by(a.how.factor(share.pos) * (a.how.cap == 0 ? log2e : 1)) {}
	__device__ bool sees(int, int, int p) const { return p >= span.start && p < span.end; }
	__device__ float factor(int, int) const { return by; }
};
template <int N>
struct Sight<N, true> {
	int start[N][2], end[N][2];
	float by[N][2];
	__device__ Sight(const Attend& a, const Share& share, const Heads& h) {
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				int pos = share.pos - min(h.back(8 * n + threadIdx.x % 4 * 2 + e), h.rows - 1);
				Seen seen(pos, a.window);
				start[n][e] = seen.start, end[n][e] = seen.end, by[n][e] = a.how.factor(pos) * (a.how.cap == 0 ? log2e : 1);
			}
	}
	__device__ bool sees(int n, int e, int p) const { return p >= start[n][e] && p < end[n][e]; }
	__device__ float factor(int n, int e) const { return by[n][e]; }
};

// Begun is what a thread knows when its block has begun: where its warp's first keys are,
// and the new one.
struct Begun {
	int64 first, newest;
};
