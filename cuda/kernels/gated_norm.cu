// Norms behind linear attention, with its gates.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int threads = 256;
constexpr int most_dim = 256;  // of a head

// Heads of x, normalized by their root mean square, times silu(gate): a warp a head of a row.
extern "C" __global__ void __launch_bounds__(threads) gated_norm_heads(
	half* y,            // [rows, heads·dim], rows ldy elements apart
	const float* x,     // likewise, ldx
	const half* gate,   // likewise, ldg
	const float* w,     // [dim]
	int rows, int heads, int dim, int64 ldy, int64 ldx, int64 ldg, float eps, float offset) {
	after_previous();
	int lane = threadIdx.x % 32;
	int64 all = ((int64)blockIdx.x * threads + threadIdx.x) / 32;
	int row = all / heads, head = all % heads;
	if (row >= rows) return;
	y += row * ldy + head * dim, x += row * ldx + head * dim, gate += row * ldg + head * dim;
	float v[most_dim / 32], squares = 0;
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) v[i] = lane + 32 * i < dim ? x[lane + 32 * i] : 0, squares += v[i] * v[i];
	float inverse = 1 / sqrtf(warp_sum(squares) / dim + eps);
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) {
		int c = lane + 32 * i;
		if (c >= dim) continue;
		float z = __half2float(gate[c]);
		y[c] = __float2half_rn(v[i] * inverse * (w[c] + offset) * (z / (1 + expf(-z))));
	}
}

// x·silu(gate), normalized by groups of columns: a block a group of a row, of which it keeps so many columns a thread; others it computes twice.
constexpr int wide = 512, kept = 16;

extern "C" __global__ void __launch_bounds__(wide) gated_norm(
	half* y,            // [rows, groups·group], rows ldy elements apart; may be gate
	const float* x,     // likewise, ldx
	const half* gate,   // likewise, ldg
	const float* w,     // [groups·group]
	const half* places, // likewise: where in a row of y a column goes, a 16-bit number, or null
	int group, int64 ldy, int64 ldx, int64 ldg, float eps, float offset) {
	after_previous();
	int first = blockIdx.x * group;
	y += blockIdx.y * ldy, x += blockIdx.y * ldx + first, gate += blockIdx.y * ldg + first, w += first;
	auto place = [&](int c) { return places ? __half_as_ushort(places[first + c]) : first + c; };
	auto product = [&](int c) {
		float z = __half2float(gate[c]);
		return x[c] * (z / (1 + expf(-z)));
	};
	float v[kept], squares = 0;
#pragma unroll
	for (int i = 0; i < kept; i++) {
		int c = i * blockDim.x + threadIdx.x;
		v[i] = c < group ? product(c) : 0;
		squares += v[i] * v[i];
	}
	int more = kept * blockDim.x + threadIdx.x;
	for (int c = more; c < group; c += blockDim.x) {
		float p = product(c);
		squares += p * p;
	}
	float inverse = 1 / sqrtf(block_sum(squares) / group + eps);
#pragma unroll
	for (int i = 0; i < kept; i++)
		if (int c = i * blockDim.x + threadIdx.x; c < group) y[place(c)] = __float2half_rn(v[i] * inverse * (w[c] + offset));
	for (int c = more; c < group; c += blockDim.x) y[place(c)] = __float2half_rn(product(c) * inverse * (w[c] + offset));
}
