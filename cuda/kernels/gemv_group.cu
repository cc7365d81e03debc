// Products with dense matrices of experts: y[i] = x[rows[i]]·W[e]ᵀ + bias[e] for the
// expert e of row i, with W [n, k] of any type, fp32 sums. Rows are sorted by expert.
//
// A warp a row of W, which it multiplies by up to eight rows of its expert;
// blockIdx.y as in qmatmul_group. Names end in the type of W.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int most = 8;   // rows of x
constexpr int warps = 4;  // of a block

// Matrix is an expert's, as a group's table has it.
template <class W>
struct Matrix {
	const W* w;         // [n, k]
	const float* bias;  // [n] or null
};

template <class W>
__device__ void gemv_group(
	half* y,           // [·, n], rows ldy elements apart
	const half* x,     // [·, k], ldx
	const Matrix<W>* table,
	const int* rows,   // or null
	const int* experts, const int* first,
	int n, int k, int64 ldy, int64 ldx) {
	after_previous();
	int i = blockIdx.y, e = experts[i], j = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
	if ((i - first[e]) % most || j >= n) return;
	int count = min(most, first[e + 1] - i);
	Matrix<W> m = table[e];
	if (!m.w) return;  // it is packed
	const W* row = m.w + (int64)j * k;
	const half* from[most];
#pragma unroll
	for (int r = 0; r < most; r++) {
		int at = i + min(r, count - 1);
		from[r] = x + (rows ? rows[at] : at) * ldx;
	}
	float sums[most] = {};
	for (int c = lane * 8; c < k; c += 32 * 8) {
		float a[8], b[8];
		load8(a, row, c, k);
#pragma unroll
		for (int r = 0; r < most; r++) {
			if (r >= count) break;
			load8(b, from[r], c, k);
#pragma unroll
			for (int v = 0; v < 8; v++) sums[r] += a[v] * b[v];
		}
	}
#pragma unroll
	for (int r = 0; r < most; r++) {
		if (r >= count) break;
		float sum = warp_sum(sums[r]);
		if (lane == 0) narrow(y[(i + r) * ldy + j], sum + (m.bias ? m.bias[j] : 0));
	}
}

#define GEMV_GROUP(name, W)                                                                          \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                   \
		half* y, const half* x, const int* table, const int* rows, const int* experts,               \
		const int* first, int n, int k, int64 ldy, int64 ldx) {                                      \
		gemv_group(y, x, (const Matrix<W>*)table, rows, experts, first, n, k, ldy, ldx);             \
	}

GEMV_GROUP(gemv_group_f16, half)
GEMV_GROUP(gemv_group_bf16, bf16)
GEMV_GROUP(gemv_group_f32, float)
