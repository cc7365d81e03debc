// Norms behind linear attention, with its gates.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"

constexpr int threads = 256;
constexpr int most_dim = 256, fast_dim = 128;  // of a head

// silu is z·σ(z).
__device__ inline float silu(float z) { return __fdividef(z, 1 + expf(-z)); }

// Four is four neighbours.
struct Four {
	float v[4];
	__device__ Four() : v{} {}
	__device__ explicit Four(const float* from) {
		float4 w = *(const float4*)from;
		v[0] = w.x, v[1] = w.y, v[2] = w.z, v[3] = w.w;
	}
	__device__ explicit Four(const half* from) {
		uint2 w = *(const uint2*)from;
		float2 a = __half22float2(*(half2*)&w.x), b = __half22float2(*(half2*)&w.y);
		v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y;
	}
	__device__ float squares() const { return v[0] * v[0] + v[1] * v[1] + (v[2] * v[2] + v[3] * v[3]); }
	__device__ void store(half* to) const {
		half2 a = __floats2half2_rn(v[0], v[1]), b = __floats2half2_rn(v[2], v[3]);
		*(uint2*)to = make_uint2(*(unsigned*)&a, *(unsigned*)&b);
	}
};

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
		y[c] = __float2half_rn(v[i] * inverse * (w[c] + offset) * silu(__half2float(gate[c])));
	}
}

// Of 128 dimensions, where four neighbours are read at once.
extern "C" __global__ void __launch_bounds__(threads) gated_norm_heads_128(
	half* y, const float* x, const half* gate, const float* w, int rows, int heads, int64 ldy, int64 ldx, int64 ldg, float eps, float offset) {
	constexpr int dim = fast_dim;
	after_previous();
	int at = threadIdx.x % 32 * 4;
	int64 all = ((int64)blockIdx.x * threads + threadIdx.x) / 32;
	int row = all / heads, head = all % heads;
	if (row >= rows) return;
	at += head * dim;
	Four v(x + row * ldx + at), z(gate + row * ldg + at), scale(w + at % dim);
	float inverse = 1 / sqrtf(warp_sum(v.squares()) / dim + eps);
#pragma unroll
	for (int i = 0; i < 4; i++) v.v[i] *= inverse * (scale.v[i] + offset) * silu(z.v[i]);
	v.store(y + row * ldy + at);
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
	auto product = [&](int c) { return x[c] * silu(__half2float(gate[c])); };
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

// The same of many rows: a block has few warps, each thread up to so many times four neighbours.
constexpr int most_fours = 4;

extern "C" __global__ void __launch_bounds__(wide) gated_norm_fours(
	half* y, const float* x, const half* gate, const float* w, int group, int64 ldy, int64 ldx, int64 ldg, float eps, float offset) {
	after_previous();
	int first = blockIdx.x * group;
	y += blockIdx.y * ldy + first, x += blockIdx.y * ldx + first, gate += blockIdx.y * ldg + first, w += first;
	Four v[most_fours];
	float squares = 0;
#pragma unroll
	for (int i = 0; i < most_fours; i++) {
		int c = (i * blockDim.x + threadIdx.x) * 4;
		if (c >= group) continue;
		v[i] = Four(x + c);
		Four z(gate + c);
#pragma unroll
		for (int j = 0; j < 4; j++) v[i].v[j] *= silu(z.v[j]);
		squares += v[i].squares();
	}
	float inverse = 1 / sqrtf(block_sum(squares) / group + eps);
#pragma unroll
	for (int i = 0; i < most_fours; i++) {
		int c = (i * blockDim.x + threadIdx.x) * 4;
		if (c >= group) continue;
		Four scale(w + c);
#pragma unroll
		for (int j = 0; j < 4; j++) v[i].v[j] *= inverse * (scale.v[j] + offset);
		v[i].store(y + c);
	}
}
