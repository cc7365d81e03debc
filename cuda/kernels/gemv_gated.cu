// Dense products of a few rows of the stream, whose activation is the gate of other columns of it: y = act(x·wᵀ)·by, sums in fp32.
//
// A block has some rows of w, which it asks for before it waits for the kernel in front: nobody writes them. Names end in the type of w.
#include "act.cuh"
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int most = 4;        // rows of x of a block
constexpr int most_rows = 16;  // of all
constexpr int outputs = 2;     // rows of w of a block
constexpr int warps = 8;
constexpr int ahead = 2;       // eights of a thread, of each row of w, that are asked for before the wait

static_assert(most_rows % most == 0, "as cuda/gemv_gated.go launches it");

// part adds a thread's part of the products: eight columns from i on.
template <class W>
__device__ inline void part(float (&sums)[outputs][most], const Eight<W> (&w)[outputs], const float* x, int64 ldx, int rows, int i) {
#pragma unroll
	for (int r = 0; r < most; r++) {
		if (r >= rows) break;
		Eight<float> v;
#pragma unroll
		for (int j = 0; j < 2; j++) v.words[j] = *(const uint4*)(x + r * ldx + i + 4 * j);
#pragma unroll
		for (int o = 0; o < outputs; o++)
#pragma unroll
			for (int e = 0; e < 8; e++) sums[o][r] += widen(w[o].v[e]) * v.v[e];
	}
}

template <class W>
__device__ inline void gated(half* y, const float* x, const W* w, const float* by, int rows, int n, int k, int act, int64 ldy, int64 ldx, int64 ldb) {
	__shared__ float parts[outputs][most][warps];
	int first = blockIdx.x * outputs, row = blockIdx.y * most, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	rows = min(most, rows - row);
	auto ask = [&](Eight<W> (&to)[outputs], int i) {
#pragma unroll
		for (int o = 0; o < outputs; o++)
#pragma unroll
			for (int j = 0; j < sizeof(W) / 2; j++) to[o].words[j] = __ldg((const uint4*)(w + (int64)min(first + o, n - 1) * k + i) + j);
	};
	constexpr int step = 32 * warps * elements;
	int at = threadIdx.x * elements;
	Eight<W> early[ahead][outputs];
#pragma unroll
	for (int c = 0; c < ahead; c++)
		if (at + c * step < k) ask(early[c], at + c * step);
	after_previous();
	x += row * ldx;
	float sums[outputs][most] = {};
#pragma unroll
	for (int c = 0; c < ahead; c++)
		if (at + c * step < k) part(sums, early[c], x, ldx, rows, at + c * step);
#pragma unroll 1
	for (int i = at + ahead * step; i < k; i += step) {
		Eight<W> more[outputs];
		ask(more, i);
		part(sums, more, x, ldx, rows, i);
	}
#pragma unroll
	for (int o = 0; o < outputs; o++)
#pragma unroll
		for (int r = 0; r < most; r++) {
			if (r >= rows) break;
			float sum = warp_sum(sums[o][r]);
			if (lane == 0) parts[o][r][warp] = sum;
		}
	__syncthreads();
	int o = threadIdx.x / most, r = threadIdx.x % most;
	if (o >= outputs || first + o >= n || r >= rows) return;
	float sum = 0;
#pragma unroll
	for (int i = 0; i < warps; i++) sum += parts[o][r][i];
	y[(row + r) * ldy + first + o] = __float2half_rn(activate(act, sum) * by[(row + r) * ldb + first + o]);
}

#define GATED(name, W)                                                                                                                                                     \
	extern "C" __global__ void __launch_bounds__(32 * warps)                                                                                                               \
	name(half* y, const float* x, const W* w, const float* by, int rows, int n, int k, int act, int64 ldy, int64 ldx, int64 ldb) {                                         \
		gated(y, x, w, by, rows, n, k, act, ldy, ldx, ldb);                                                                                                                \
	}

GATED(gemv_gated_f16, half)
GATED(gemv_gated_bf16, bf16)
GATED(gemv_gated_f32, float)
