// What both kernels of attend_back_mma.cu are given, and tiles of it in shared memory.
#pragma once

#include "attend.cuh"
#include "mma.cuh"
#include "split_tf32.cuh"

constexpr int warps = 4, threads = 32 * warps;
constexpr int side = 64;  // rows, or positions, of a block: 16 a warp
constexpr int tile = 32;  // positions, or rows, at a time

// Task is what the kernels are given.
struct Task {
	const half *q, *k, *v;  // [rows, heads·dim] and [rows, kv_heads·dim]
	const float* dy;        // [rows, heads·dim]
	float *dq, *dk, *dv;
	float* stats;           // [rows, heads, 2]: log Σ exp(score), and D
	int span, heads, kv_heads, dim, window;
	int64 ldq, ldk, ldv, lddy, lddq, lddk, lddv;
	float scale, softcap;

	// move points the task at one sequence and heads.
	__device__ void move(int sequence, int head, int kv_head) {
		int64 row = (int64)sequence * span;
		q += row * ldq + head * dim, dy += row * lddy + head * dim, dq += row * lddq + head * dim;
		k += row * ldk + kv_head * dim, dk += row * lddk + kv_head * dim;
		v += row * ldv + kv_head * dim, dv += row * lddv + kv_head * dim;
		stats += (row * heads + head) * 2;
	}
	// aligned reports whether rows can be copied 16 bytes at a time.
	__device__ bool aligned() const {
		int64 places = (int64)q | (int64)k | (int64)v | (int64)dy | 2 * (ldq | ldk | ldv | 2 * lddy | dim);
		return places % 16 == 0;
	}
	// score returns what a product of q and k becomes.
	__device__ float score(float s, int row, int key) const {
		bool seen = row < span && key <= row && (window <= 0 || row - key < window);
		return seen ? capped(s * scale, softcap) : no_score;
	}
	// gradient returns dS of a score, before the scale, given its weight.
	__device__ float gradient(float weight, float s, float dp, float d) const {
		if (weight == 0) return 0;
		float r = softcap == 0 ? 0 : s / softcap;
		return weight * (dp - d) * ((1 - r) * (1 + r));
	}
};

__device__ inline float weight_of(float s, float log_sum) { return s <= no_score ? 0 : expf(s - log_sum); }

// Halves and Floats are tiles in shared memory, of n rows and up to most dimensions,
// zeros past the end.
template <typename T, int n, int most>
struct Tile {
	static constexpr int width = most + 8, vector = 16 / sizeof(T);
	T x[n][width];
	// fill begins to copy; aligned rows arrive later.
	__device__ void fill(const T* from, int64 ld, int first, int end, int dim, bool aligned) {
		int step = aligned ? vector : 1;
		for (int i = threadIdx.x * step; i < n * most; i += threads * step) {
			int r = i / most, c = i % most;
			bool there = first + r < end && c < dim;
			if (aligned) copy16(&x[r][c], there ? from + (first + r) * ld + c : from, there);
			else x[r][c] = there ? from[(first + r) * ld + c] : T(0);
		}
	}
};
template <int n, int most>
using Floats = Tile<float, n, most>;

template <int n, int most>
struct Halves : Tile<half, n, most> {
	// left reads rows first to first+15 of columns c to c+15 as the left operand of mma.
	__device__ void left(u32 (&a)[4], int first, int c) const {
		int lane = threadIdx.x % 32;
		ldmatrix(a, &this->x[first + lane % 16][c + lane / 16 * 8]);
	}
	// right reads rows first to first+15 of columns c to c+15: two right operands of eight
	// columns.
	__device__ void right(u32 (&b)[4], int first, int c) const {
		int lane = threadIdx.x % 32;
		ldmatrix(b, &this->x[first + lane / 16 * 8 + lane % 8][c + lane / 8 % 2 * 8]);
	}
	// across reads rows first to first+7 of columns c to c+31: of four times eight columns the
	// pairs (2q, g), (2q+1, g).
	__device__ void across(u32 (&b)[4], int first, int c) const {
		int lane = threadIdx.x % 32;
		ldmatrix_trans(b, &this->x[first + lane % 8][c + lane / 8 * 8]);
	}
};

__device__ inline float2 both(u32 pair) { return __half22float2(*(const half2*)&pair); }

// multiply_across is d += a·b for rows first to first+7 of b.
template <int n, int most>
__device__ inline void multiply_across(float (&d)[most / 8][4], const Split<4>& a, const Halves<n, most>& b, int first) {
#pragma unroll
	for (int c = 0; c < most / 8; c += 4) {
		u32 pairs[4];
		b.across(pairs, first, c * 8);
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float2 x = both(pairs[i]);
			multiply(d[c + i], a, x.x, x.y);
		}
	}
}
