// Softmax of scores as products of warp groups leave them (wgmma.cuh): a thread has two
// rows, keys/4 scores of each.
#pragma once

#include "attend.cuh"
#include "quad.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

__device__ inline float power2(float x) {
	float y;
	asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
	return y;
}

// least is below every score and far above no_score: a row that has seen nothing yet
// gives what it does not see a weight of zero, however the product of no_score and a
// factor is rounded.
constexpr float least = -1e20f;

// Softmax is the state of a thread's two rows.
template <int D, int keys>
struct Softmax {
	float top[2] = {least, least}, sum[2] = {0, 0}, factor[2], shrink[2];
	int own[2];  // positions of the rows

	// hide takes away what rows do not see of positions from `from` on.
	__device__ void hide(float (&s)[keys / 2], int from, int window) {
		int lane = threadIdx.x % 4;
#pragma unroll
		for (int i = 0; i < keys / 2; i++) {
			int p = from + i / 4 * 8 + lane * 2 + i % 2, h = i / 2 % 2;
			if (p > own[h] || window > 0 && p <= own[h] - window) s[i] = no_score;
		}
	}
	// turn is for scales below zero: factors have none.
	__device__ void turn(float (&s)[keys / 2]) {
#pragma unroll
		for (int i = 0; i < keys / 2; i++) s[i] = -s[i];
	}
	// cap turns products into capped scores.
	__device__ void cap(float (&s)[keys / 2], float cap, const float (&scale)[2]) {
#pragma unroll
		for (int i = 0; i < keys / 2; i++) s[i] = cap - 2 * cap / (1 + power2(s[i] * scale[i / 2 % 2]));
	}
	// weigh turns scores into weights, and says in shrink what sums before them are to be
	// multiplied by.
	__device__ void weigh(float (&s)[keys / 2]) {
		constexpr int chains = 4;
		float most[2][chains], part[2][chains] = {};
#pragma unroll
		for (int i = 0; i < 2 * chains; i++) most[i % 2][i / 2] = fmaxf(s[i / 2 * 4 + i % 2 * 2], s[i / 2 * 4 + i % 2 * 2 + 1]);
#pragma unroll
		for (int j = chains; j < keys / 8; j++)
#pragma unroll
			for (int h = 0; h < 2; h++) most[h][j % chains] = fmaxf(most[h][j % chains], fmaxf(s[4 * j + 2 * h], s[4 * j + 2 * h + 1]));
		float now[2];
#pragma unroll
		for (int h = 0; h < 2; h++) now[h] = fmaxf(fmaxf(most[h][0], most[h][1]), fmaxf(most[h][2], most[h][3]));
#pragma unroll
		for (int step = 1; step <= 2; step *= 2)
#pragma unroll
			for (int h = 0; h < 2; h++) now[h] = fmaxf(now[h], __shfl_xor_sync(~0u, now[h], step));
#pragma unroll
		for (int h = 0; h < 2; h++) {
			now[h] = fmaxf(top[h], now[h] * factor[h]);
			shrink[h] = power2(top[h] - now[h]), top[h] = now[h];
		}
#pragma unroll
		for (int j = 0; j < keys / 8; j++)
#pragma unroll
			for (int e = 0; e < 4; e++) {
				float& x = s[4 * j + e];
				x = power2(x * factor[e / 2] - now[e / 2]), part[e / 2][j % 2 * 2 + e % 2] += x;
			}
#pragma unroll
		for (int h = 0; h < 2; h++) sum[h] = sum[h] * shrink[h] + (part[h][0] + part[h][1]) + (part[h][2] + part[h][3]);
	}
	__device__ void scale(float (&out)[D / 2]) {
#pragma unroll
		for (int i = 0; i < D / 2; i++) out[i] *= shrink[i / 2 % 2];
	}
};

#endif
