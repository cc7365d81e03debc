// How a warp attends to 16 positions at a time, for eight heads or sixteen that share
// keys and values, with tensor cores, straight from memory to registers: products
// are Kᵀ·q and Vᵀ·w, so that keys and values are their left sides, and dimensions
// are taken in the order in which lanes load them, 16 bytes at a time.
//
// Sums are relative to a score that no other exceeds by more than leeway: weights are
// 2^leeway at most, which fp16 holds as well as 1.
#pragma once

#include "attend.cuh"
#include "mma.cuh"
#include "quad.cuh"

constexpr int at_once = 16;  // positions that a warp takes at a time
constexpr float leeway = 8;

// Span is the positions that a row sees, in chunks of what a warp takes.
struct Span : Seen {
	using Seen::Seen;
	__device__ int chunk() const { return start / at_once; }  // the first one
	__device__ int chunks_end() const { return (end + at_once - 1) / at_once; }
	__device__ int units(int warps) const { return max(1, (chunks_end() - chunk() + warps - 1) / warps); }
};

// transposed is a matrix of 8 x 8 halves, a pair a lane as mma has them, transposed.
__device__ inline u32 transposed(u32 x) {
	u32 y;
	asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
	return y;
}

__device__ inline u32 lows(u32 a, u32 b) { return __byte_perm(a, b, 0x5410); }
__device__ inline u32 highs(u32 a, u32 b) { return __byte_perm(a, b, 0x7632); }

// eight reads eight elements of a row of dim from `at` on, zeros past its end. Where
// heads are `full`, all of them are there and rows are at 16 bytes.
template <bool full>
__device__ inline uint4 eight(const half* row, int at, int dim) {
	if (full) return *(const uint4*)(row + at);
	Eight<half> e;
	if (whole(row, at, dim)) return *(const uint4*)(row + at);
#pragma unroll
	for (int j = 0; j < 8; j++) e.v[j] = at + j < dim ? row[at + j] : __float2half(0);
	return e.words[0];
}

// State is what a warp has found for eight heads and N times as many: of heads 2q and
// 2q+1, with g = lane/4 and q = lane%4, out[4j+w] has dimensions 64j + 8g + 2w, and the
// next one behind; top and sum are a lane's own positions'.
template <int D, int N>
struct State {
	float out[N][D / 16][4] = {}, top[N][2], sum[N][2] = {};
	__device__ State() {
#pragma unroll
		for (int n = 0; n < N; n++) top[n][0] = top[n][1] = no_score;
	}

	// raise makes the sums relative to the largest scores so far.
	__device__ void raise(const float (&s)[N][4]) {
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float most = fmaxf(top[n][e], fmaxf(s[n][e], s[n][e + 2]));
#pragma unroll
				for (int step = 4; step < 32; step *= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
				float shrink = exp2f(top[n][e] - most);
				sum[n][e] *= shrink, top[n][e] = most;
#pragma unroll
				for (int j = 0; j < D / 16; j++) out[n][j][e] *= shrink, out[n][j][e + 2] *= shrink;
			}
	}

	// add adds the values of 16 positions, of which the scores are those of g and g + 8.
	__device__ void add(float (&s)[N][4], const uint4 (&v)[D / 64][4]) {
		bool grows = false;
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) grows |= s[n][e] > top[n][e % 2] + leeway;
		if (__any_sync(~0u, grows)) raise(s);
		u32 b[N][2];
#pragma unroll
		for (int n = 0; n < N; n++) {
#pragma unroll
			for (int e = 0; e < 4; e++) s[n][e] = exp2f(s[n][e] - top[n][e % 2]), sum[n][e % 2] += s[n][e];
			b[n][0] = transposed(pack(s[n][0], s[n][1])), b[n][1] = transposed(pack(s[n][2], s[n][3]));
		}
#pragma unroll
		for (int j = 0; j < D / 64; j++) {
			const u32 *v0 = &v[j][0].x, *v1 = &v[j][1].x, *v2 = &v[j][2].x, *v3 = &v[j][3].x;
#pragma unroll
			for (int w = 0; w < 4; w++) {
				u32 a[4] = {lows(v0[w], v1[w]), highs(v0[w], v1[w]), lows(v2[w], v3[w]), highs(v2[w], v3[w])};
#pragma unroll
				for (int n = 0; n < N; n++) mma(out[n][4 * j + w], a, b[n]);
			}
		}
	}

	// put stores what the warp has found for `count` heads, its sums where m.of says, of heads from a column on.
	template <class Shared>
	__device__ void put(Shared& m, int count, int warp = threadIdx.x / 32, int column = 0) {
		int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 2; e++) {
				float all = sum[n][e];
#pragma unroll
				for (int step = 4; step < 32; step *= 2) all += __shfl_xor_sync(~0u, all, step);
				int head = 8 * n + 2 * q + e;
				if (head >= count) continue;
				if (g == 0 && column == 0) m.top[head][warp] = top[n][e], m.sum[head][warp] = all;
#pragma unroll
				for (int j = 0; j < D / 16; j++)
					*(float2*)(m.of(warp, head, count) + column + j / 4 * 64 + g * 8 + j % 4 * 2) = make_float2(out[n][j][e], out[n][j][e + 2]);
			}
	}
};

// Walk reads 16 positions of a sequence at a time, the first of which is a multiple of
// that. `last` is the last of them that is seen, counted from the first: those behind
// it are read as it.
template <int D, bool full>
struct Walk {
	const half *k, *v;  // of the head
	int cols, dim;
	uint4 keys[D / 32][2], values[D / 64][4];  // of positions g and g + 8; of 2q, 2q + 1, and those 8 further

	__device__ void read_keys(int64 at, int last) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
		const half *one = k + at + min(g, last) * cols, *two = k + at + min(g + 8, last) * cols;
#pragma unroll
		for (int j = 0; j < D / 32; j++) keys[j][0] = eight<full>(one, 32 * j + 8 * q, dim), keys[j][1] = eight<full>(two, 32 * j + 8 * q, dim);
	}
	__device__ void read_values(int64 at, int last) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			const half* row = v + at + min(2 * q + i % 2 + i / 2 * 8, last) * cols;
#pragma unroll
			for (int j = 0; j < D / 64; j++) values[j][i] = eight<full>(row, 64 * j + 8 * g, dim);
		}
	}
	// put_keys and put_values put rows that are in shared memory, so far apart, in the place of the last of the positions that are seen and of as many
	// in front of it: the last one comes first.
	__device__ void put_keys(const half* rows, int last, int count = 1, int apart = 0) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			const half* row = rows + max(last - (g + 8 * i), 0) * apart;
			if (g + 8 * i > last - count)
#pragma unroll
				for (int j = 0; j < D / 32; j++) keys[j][i] = *(const uint4*)(row + 32 * j + 8 * q);
		}
	}
	__device__ void put_values(const half* rows, int last, int count = 1, int apart = 0) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < 4; i++) {
			int p = 2 * q + i % 2 + i / 2 * 8;
			const half* row = rows + max(last - p, 0) * apart;
			if (p > last - count)
#pragma unroll
				for (int j = 0; j < D / 64; j++) values[j][i] = *(const uint4*)(row + 64 * j + 8 * g);
		}
	}
	// multiply adds the products of the keys with queries, rows of which are in shared
	// memory, from a column on.
	template <int N, int stride>
	__device__ void multiply(float (&s)[N][4], const half (&queries)[8 * N][stride], int column = 0) {
		int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4;
		float more[N][4] = {};  // half of the products, so that half as many wait for each other
#pragma unroll
		for (int j = 0; j < D / 32; j++) {
			u32 low[4] = {keys[j][0].x, keys[j][1].x, keys[j][0].y, keys[j][1].y}, high[4] = {keys[j][0].z, keys[j][1].z, keys[j][0].w, keys[j][1].w};
#pragma unroll
			for (int n = 0; n < N; n++) {
				uint4 x = *(const uint4*)&queries[8 * n + g][column + 32 * j + 8 * q];
				u32 first[2] = {x.x, x.y}, second[2] = {x.z, x.w};
				mma(s[n], low, first);
				mma(more[n], high, second);
			}
		}
#pragma unroll
		for (int n = 0; n < N; n++)
#pragma unroll
			for (int e = 0; e < 4; e++) s[n][e] += more[n][e];
	}
};
