// Norm, router and choice of experts for a few rows in one (device.Choose).
//
// A warp a row of the router, whose first part it asks for before it waits for the
// kernel before this one. Every block norms all rows, which lie in shared memory then,
// and the block that comes last chooses.
//
// Names end in the router's type and the experts of a lane.
#include "arrive.cuh"
#include "half.cuh"
#include "norm.cuh"
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

// Input is what is normed.
struct Input {
	const float *x, *scale, *shift;  // [rows, k], rows ld apart, [k], [k] or null
	half* y;                         // [rows, k]
	int64 ld, ldy;
	int k, centred;
	float eps, offset;
};

// padded is the distance of rows in shared memory.
__device__ inline int padded(int k) { return (k + 7) / 8 * 8; }

// Factors are a norm's for a thread's first columns.
struct Factors {
	float scale[8], shift[8];

	__device__ void read(const Input& in, int c) {
#pragma unroll
		for (int j = 0; j < 8; j++) shift[j] = 0;
		load8(scale, in.scale, c, in.k);
		if (in.shift) load8(shift, in.shift, c, in.k);
	}
};

// norm leaves a row in shared memory, and the first block leaves it in y, too.
__device__ inline void norm(const Input& in, int row, half* to, Factors f) {
	const float* x = in.x + row * in.ld;
	Centre mean = {0, 0};
	if (in.centred) mean = row_centre(x, in.k);
	float inverse = 1 / sqrtf(row_variance(x, mean, in.k) + in.eps);
	for (int c = threadIdx.x * 8; c < in.k; c += blockDim.x * 8) {
		float v[8];
		load8(v, x, c, in.k);
		if (c >= blockDim.x * 8) f.read(in, c);
		for (int j = 0; j < 8; j++) v[j] = mean(v[j]) * inverse * (f.scale[j] + in.offset) + f.shift[j];
		store8(to, v, c, padded(in.k));
		if (blockIdx.x == 0) store8(in.y + row * in.ldy, v, c, in.k);
	}
}

// fetch8 asks for elements i to i+7 of n, zeros past the end.
template <class W>
__device__ inline void fetch8(Eight<W>& e, const W* p, int i, int n) {
	if (whole(p, i, n)) {
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

// multiply computes this warp's logit for all rows.
template <class W>
__device__ void multiply(const Router<W>& to, const Input& in, int rows, int experts, half* staged) {
	int j = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32, k = in.k;
	bool gate = j == experts && to.gate, there = j < experts || gate;
	const W* row = gate ? to.gate : to.w + (int64)j * k;
	Eight<W> first[ahead];
#pragma unroll
	for (int c = 0; c < ahead; c++)
		if (there && (c * 32 + lane) * 8 < k) fetch8(first[c], row, (c * 32 + lane) * 8, k);
	Factors f;
	f.read(in, threadIdx.x * 8);
	after_previous();
	for (int r = 0; r < rows; r++) norm(in, r, staged + r * padded(k), f);
	__syncthreads();
	if (!there) return;
	const float* bias = gate ? to.gate_bias : to.bias ? to.bias + j : nullptr;
	for (int r = 0; r < rows; r++) {
		const half* x = staged + r * padded(k);
		float sum = 0;
#pragma unroll
		for (int c = 0; c < ahead; c++)
			if ((c * 32 + lane) * 8 < k) sum = dot(first[c], x + (c * 32 + lane) * 8, sum);
		for (int i = (ahead * 32 + lane) * 8; i < k; i += 32 * 8) {
			Eight<W> more;
			fetch8(more, row, i, k);
			sum = dot(more, x + i, sum);
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
		Input in = {x, scale, shift, y, ldx, ldy, k, centred, eps, offset};                               \
		multiply(to, in, rows, count, (half*)shared);                                                     \
		if (!arrive(counter, gridDim.x)) return;                                                          \
		Given g = {logits, correction, gate ? gate_logits : nullptr, weights, rows, count, chosen, columns, ld, ldg}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter};              \
		few<per>(g, r, order, experts, first, places, (float*)shared);                                    \
	}

CHOOSE(choose_f16_4, half, 4)
CHOOSE(choose_f16_16, half, 16)
CHOOSE(choose_bf16_4, bf16, 4)
CHOOSE(choose_bf16_16, bf16, 16)
CHOOSE(choose_f32_4, float, 4)
CHOOSE(choose_f32_16, float, 16)
