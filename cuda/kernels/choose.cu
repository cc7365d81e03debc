// Norm, router and choice of experts for a few rows in one (device.Choose).
//
// A warp a row of the router, whose first part it asks for before it waits for the
// kernel before this one. Every block norms all rows, which lie in shared memory then,
// and the block that comes last chooses; or nobody does, where mixture.cu comes next.
//
// Names end in the router's type and the experts of a lane.
#include "arrive.cuh"
#include "half.cuh"
#include "norm_row.cuh"
#include "route.cuh"

constexpr int warps = 8;  // of a block
constexpr int ahead = 8;  // pieces of 256 columns that are asked for before the wait

// Router is what makes logits; of a gate there is one row, or it is null.
template <class W>
struct Router {
	const W *w, *gate;               // [experts, k], [1, k]
	const float *bias, *gate_bias;   // or null
	float *logits, *gate_logits;     // [rows, experts], rows ld elements apart, [rows, 1]
	int64 ld, ldg;
};

// padded is the distance of rows in shared memory.
__device__ inline int padded(int k) { return (k + 7) / 8 * 8; }

// fetch8 asks for elements i to i+7 of n, zeros past the end.
template <bool aligned, class W>
__device__ inline void fetch8(Eight<W>& e, const W* p, int i, int n) {
	if (aligned || whole(p, i, n)) {
#pragma unroll
		for (int j = 0; j < sizeof(W) / 2; j++) e.words[j] = ((const uint4*)(p + i))[j];
	} else {
#pragma unroll
		for (int j = 0; j < 8; j++)
			if (i + j < n)
				e.v[j] = p[i + j];
			else
				narrow(e.v[j], 0);
	}
}

template <class W>
__device__ inline float dot(const Eight<W>& w, const half* x, float sum) {
	Eight<half> b;
	b.words[0] = *(const uint4*)x;
#pragma unroll
	for (int e = 0; e < 8; e++) sum += widen(w.v[e]) * widen(b.v[e]);
	return sum;
}

// Rows are what is normed, and where that goes.
struct Rows {
	Input first;
	half* y;  // [rows, in], ldy apart, or null
	int rows;
	int64 ld, ldy;
};

// norm_all leaves the rows in shared memory, and in y.
template <bool aligned>
__device__ inline void norm_all(const Rows& x, half* staged, const Factors& f) {
	Input in = x.first;
	for (int r = 0; r < x.rows; r++, in.x += x.ld) normalize<aligned>(staged + r * padded(in.in), in, f);
	__syncthreads();
	if (!x.y || blockIdx.x > 0) return;
	for (int r = 0; r < x.rows; r++)
		for (int c = threadIdx.x; c < in.in; c += blockDim.x) x.y[r * x.ldy + c] = staged[r * padded(in.in) + c];
}

// multiply computes this warp's logit for all rows. If the row is alone, it is aligned
// (norm_row.cuh), and the next kernel may read what is in front of this one without waiting.
template <bool alone, class W>
__device__ void multiply(const Router<W>& to, const Rows& x, int experts, half* staged) {
	int j = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32, k = x.first.in;
	bool gate = j == experts && to.gate, there = j < experts || gate;
	const W* row = gate ? to.gate : to.w + (int64)j * k;
	Eight<W> first[ahead];
#pragma unroll
	for (int c = 0; c < ahead; c++)
		if (there && (c * 32 + lane) * 8 < k) fetch8<alone>(first[c], row, (c * 32 + lane) * 8, k);
	Factors f;
	f.read<alone>(x.first, threadIdx.x * 8);
	if constexpr (alone) {
		wait_for_previous();
		let_next();
	} else {
		after_previous();
	}
	norm_all<alone>(x, staged, f);
	if (!there) return;
	const float* bias = gate ? to.gate_bias : to.bias ? to.bias + j : nullptr;
	for (int r = 0; r < x.rows; r++) {
		const half* from = staged + r * padded(k);
		float sum = 0;
#pragma unroll
		for (int c = 0; c < ahead; c++)
			if ((c * 32 + lane) * 8 < k) sum = dot(first[c], from + (c * 32 + lane) * 8, sum);
#pragma unroll 1
		for (int i = (ahead * 32 + lane) * 8; i < k; i += 32 * 8) {
			Eight<W> more;
			fetch8<alone>(more, row, i, k);
			sum = dot(more, from + i, sum);
		}
		sum = warp_sum(sum) + (bias ? *bias : 0);
		if (lane == 0) (gate ? to.gate_logits[r * to.ldg] : to.logits[r * to.ld + j]) = sum;
	}
}

#define CHOOSE(name, W, per)                                                                              \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                        \
		int* order, int* experts, int* first, int* places, float* weights, float* logits,                 \
		float* gate_logits, half* y, const float* x, const float* scale, const float* shift, const W* w,  \
		const float* bias, const W* gate, const float* gate_bias, const float* correction, int* counter,  \
		int rows, int count, int chosen, int columns, int k, int64 ld, int64 ldg, int64 ldx, int64 ldy,   \
		int centred, float eps, float offset, int score, int groups, int top_groups, int group_max,       \
		int renorm, float renorm_eps, float factor, float jitter) {                                       \
		extern __shared__ uint4 shared[];                                                                 \
		Router<W> to = {w, gate, bias, gate_bias, logits, gate_logits, ld, ldg};                          \
		Rows in = {{x, scale, shift, k, centred, eps, offset}, y, rows, ldx, ldy};                        \
		multiply<false>(to, in, count, (half*)shared);                                                    \
		if (!arrive(counter, gridDim.x)) return;                                                          \
		Given g = {logits, correction, gate ? gate_logits : nullptr, weights, rows, count, chosen, columns, ld, ldg}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter};              \
		few<per>(g, r, order, experts, first, places, (float*)shared);                                    \
	}

// The logits of one row, for mixture.cu.
#define LOGITS(name, W)                                                                                  \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                       \
		float* logits, float* gate_logits, const float* x, const float* scale, const float* shift,       \
		const W* w, const float* bias, const W* gate, const float* gate_bias, int count, int k,          \
		int centred, float eps, float offset) {                                                          \
		extern __shared__ uint4 shared[];                                                                \
		Router<W> to = {w, gate, bias, gate_bias, logits, gate_logits, 0, 0};                            \
		multiply<true>(to, {{x, scale, shift, k, centred, eps, offset}, nullptr, 1, 0, 0}, count, (half*)shared); \
	}

LOGITS(choose_logits_f16, half)
LOGITS(choose_logits_bf16, bf16)
LOGITS(choose_logits_f32, float)

CHOOSE(choose_f16_4, half, 4)
CHOOSE(choose_f16_16, half, 16)
CHOOSE(choose_bf16_4, bf16, 4)
CHOOSE(choose_bf16_16, bf16, 16)
CHOOSE(choose_f32_4, float, 4)
CHOOSE(choose_f32_16, float, 16)
