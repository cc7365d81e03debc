// Dense products by heads of few rows, each head by a matrix of its own: of x, whose heads have `in` columns and `beside` more, the
// first are multiplied, and the others are copied in front of what the matrix gives (latent attention, DeepSeek-V2,
// arXiv 2405.04434, section 2.1.2).
//
// A block has some of a head's outputs. A lane keeps eight words of 16 bytes of the matrix, which it asks for in front of the wait; some lanes,
// a power of two, share an output.
#include "half.cuh"
#include "order.cuh"

constexpr int warps = 4;       // of a block
constexpr int most = 8;        // rows of x of a block
constexpr int words = 8;       // of a lane
constexpr int most_in = 1024;  // columns

// dot8 returns the product of eight elements and eight others.
__device__ inline float dot8(uint4 a, const half* x) {
	Eight<half> v, u;
	v.words[0] = a, u.words[0] = *(const uint4*)x;
	float sum = 0;
#pragma unroll
	for (int e = 0; e < 8; e++) sum += widen(v.v[e]) * widen(u.v[e]);
	return sum;
}

template <int parts>  // words of an output that a lane has
__device__ void gemv_heads(
	half* y,        // [rows, heads·(beside + out)], rows ldy elements apart
	const half* x,  // [rows, heads·(in + beside)], ldx
	const half* w,  // [·, in], the matrix of head h from row first + h·step on
	int rows, int out, int in, int beside, int first, int step, int lanes, int64 ldy, int64 ldx) {
	constexpr int passes = words / parts;
	__shared__ __align__(16) half staged[most][most_in];
	int lane = threadIdx.x % 32, own = lane % lanes, at_once = 32 / lanes;
	int j = (blockIdx.x * warps + threadIdx.x / 32) * passes * at_once + lane / lanes;  // the first output
	w += (int64)(first + blockIdx.y * step) * in;
	uint4 v[passes][parts];
#pragma unroll
	for (int p = 0; p < passes; p++)
#pragma unroll
		for (int i = 0; i < parts; i++) {
			int c = (i * lanes + own) * 8;
			v[p][i] = j + p * at_once < out && c < in ? *(const uint4*)(w + (int64)(j + p * at_once) * in + c) : make_uint4(0, 0, 0, 0);
		}
	after_previous();
	int row = blockIdx.z * most;
	rows = min(rows - row, most);
	x += row * ldx + blockIdx.y * (in + beside), y += row * ldy + blockIdx.y * (beside + out);
	for (int r = 0; r < rows; r++) {
		for (int c = threadIdx.x * 8; c < in; c += warps * 32 * 8) *(uint4*)(staged[r] + c) = *(const uint4*)(x + r * ldx + c);
		if (blockIdx.x > 0) continue;
		for (int c = threadIdx.x; c < beside; c += warps * 32) y[r * ldy + c] = x[r * ldx + in + c];
	}
	__syncthreads();
#pragma unroll 1
	for (int r = 0; r < rows; r++) {
		float sums[passes] = {};
#pragma unroll
		for (int p = 0; p < passes; p++)
#pragma unroll
			for (int i = 0; i < parts; i++) {
				int c = (i * lanes + own) * 8;
				if (c < in) sums[p] += dot8(v[p][i], staged[r] + c);
			}
		for (int far = lanes / 2; far > 0; far /= 2)
#pragma unroll
			for (int p = 0; p < passes; p++) sums[p] += __shfl_xor_sync(~0u, sums[p], far);
		if (own > 0) continue;
#pragma unroll
		for (int p = 0; p < passes; p++)
			if (j + p * at_once < out) y[r * ldy + beside + j + p * at_once] = __float2half_rn(sums[p]);
	}
}

#define GEMV_HEADS(name, parts)                                                                                                                       \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(half* y, const half* x, const half* w, int rows, int out, int in, int beside, int first, \
	                                                              int step, int lanes, int64 ldy, int64 ldx) {                                         \
		gemv_heads<parts>(y, x, w, rows, out, in, beside, first, step, lanes, ldy, ldx);                                                               \
	}

GEMV_HEADS(gemv_heads_1, 1)
GEMV_HEADS(gemv_heads_2, 2)
GEMV_HEADS(gemv_heads_4, 4)
