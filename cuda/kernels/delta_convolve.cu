// What is in front of linear attention (delta.cu): a causal convolution of each column, silu, and the length of heads of queries and keys;
// beside it, in blocks of their own, what rows keep of the state and add to it.
//
// delta_convolve: a warp a head of a row. delta_convolve_128: of 128 columns of some rows, where positions are four.
//
// H200, 2026-11-28, 2048 rows of 16 heads of keys and 32 of values, all of 128 dimensions: 42 µs (docs/performance.md).
#include "delta.cuh"

constexpr int threads = 256;
constexpr int rows_of_warp = 16, rows_at_once = 4, fast_dim = 128, fast_kernel = 4;  // of delta_convolve_128

// Rates are what g and β, or Δ, are made of. Blocks behind the first so many have them, a thread a head of a row.
struct Rates {
	float2* gates;       // [rows, heads]
	const float* a;      // [rows, heads], lda
	const float* b;      // likewise, ldb, or null: plain
	const float *decay, *bias;  // [heads]
	float limit;         // of Δ the least, of β the most
	int64 lda, ldb;

	__device__ bool made(int first, int rows, int heads) const {
		if (blockIdx.x < first) return false;
		int i = (blockIdx.x - first) * threads + threadIdx.x, row = i / heads, head = i % heads;
		if (row < rows) {
			float x = a[row * lda + head] + bias[head];
			Gates g = b ? Gates(decay[head], x, b[row * ldb + head], limit) : Gates(decay[head], x, limit, true);
			gates[i] = make_float2(g.g, g.beta);
		}
		return true;
	}
};

extern "C" __global__ void __launch_bounds__(threads) delta_convolve(
	float* columns,      // [rows, columns], rows ldc elements apart
	const half* q,       // [rows, keys], ldq
	const half* k,       // likewise, ldk
	const half* v,       // [rows, values], ldv
	const half* left,    // [sequences, (kernel-1)·columns], or null
	const float* conv,   // [columns, kernel]
	const float* shift,  // [columns], or null
	const int* pos,      // [rows]
	const int* seq,      // [rows]
	int* fault,
	int rows, int sequences, int key_heads, int value_heads, int key_dim, int value_dim, int kernel, int span,
	float* gates, const float* a, const float* b, const float* decay, const float* bias, float limit, int before_gates, int64 lda, int64 ldb,  // Rates, and where their blocks begin
	int64 ldc, int64 ldq, int64 ldk, int64 ldv, float scale) {  // scale: of queries; 0: heads stay as they are
	after_previous();
	if (Rates{(float2*)gates, a, b, decay, bias, limit, lda, ldb}.made(before_gates, rows, value_heads)) return;
	Shape s = {key_heads, value_heads, key_dim, value_dim, kernel, span};
	Inputs x = {q, k, v, ldq, ldk, ldv};
	Part p(s, threads);
	int lane = threadIdx.x % 32;
	if (p.row >= rows) return;
	int first = p.row / span * span, sequence = seq[first];
	if (sequence < 0 || sequence >= sequences) {
		if (lane == 0) report(fault, position_fault, sequence, sequences);
		return;
	}
	bool begins = pos[first] == 0;
	if (left) left += (int64)sequence * (kernel - 1) * s.columns();
	float y[most_dim / 32], squares = 0;
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++) {
		int c = p.begin + lane + 32 * i;
		y[i] = 0;
		if (lane + 32 * i >= p.dim) continue;
		if (shift) y[i] = shift[c];
		for (int j = 0; j < kernel; j++) {
			int at = p.row - kernel + 1 + j;
			y[i] += conv[c * kernel + j] * (at < first ? in_front(s, left, begins, first - at, c) : x.at(s, at, c));
		}
		y[i] /= 1 + expf(-y[i]);
		squares += y[i] * y[i];
	}
	float factor = 1;
	if (p.of_keys && scale != 0) factor = rsqrtf(warp_sum(squares) + 1e-6f) * (p.number < key_heads ? scale : 1);
#pragma unroll
	for (int i = 0; i < most_dim / 32; i++)
		if (lane + 32 * i < p.dim) columns[p.row * ldc + p.begin + lane + 32 * i] = y[i] * factor;
}

// Row is four columns of a row.
struct Row {
	float v[4];
	__device__ void read(const half* x) { set(*(const uint2*)x); }
	__device__ void set(uint2 w) {
		float2 a = __half22float2(*(half2*)&w.x), b = __half22float2(*(half2*)&w.y);
		v[0] = a.x, v[1] = a.y, v[2] = b.x, v[3] = b.y;
	}
	__device__ void none() { v[0] = v[1] = v[2] = v[3] = 0; }
};

// Of heads of 128 dimensions, or, if they stay as they are, of so many columns, a convolution of four positions, and rows that begin at eight bytes.
extern "C" __global__ void __launch_bounds__(threads, 4) delta_convolve_128(
	float* columns, const half* q, const half* k, const half* v, const half* left, const float* conv, const float* shift, const int* pos, const int* seq, int* fault,
	int rows, int sequences, int key_heads, int value_heads, int span,
	float* gates, const float* a, const float* b, const float* decay, const float* bias, float limit, int heads, int before_gates, int64 lda, int64 ldb,  // Rates, and where their blocks begin
	int64 ldc, int64 ldq, int64 ldk, int64 ldv, float scale) {
	after_previous();
	if (Rates{(float2*)gates, a, b, decay, bias, limit, lda, ldb}.made(before_gates, rows, heads)) return;
	int parts = 2 * key_heads + value_heads, lane = threadIdx.x % 32;
	int all = (blockIdx.x * threads + threadIdx.x) / 32, pieces = (span + rows_of_warp - 1) / rows_of_warp;
	int part = all % parts, run = all / parts / pieces, from = all / parts % pieces * rows_of_warp, first = run * span;
	if (first >= rows) return;
	int sequence = seq[first];
	if (sequence < 0 || sequence >= sequences) {
		if (lane == 0) report(fault, position_fault, sequence, sequences);
		return;
	}
	const half* x;
	int64 ld;
	int head = part;
	if (part < key_heads) x = q, ld = ldq;
	else if (part < 2 * key_heads) x = k, ld = ldk, head -= key_heads;
	else x = v, ld = ldv, head -= 2 * key_heads;
	x += (int64)first * ld + head * fast_dim + lane * 4;
	int column = part * fast_dim + lane * 4, width = parts * fast_dim;
	float4 w[4];
#pragma unroll
	for (int i = 0; i < 4; i++) w[i] = ((const float4*)conv)[column + i];
	float4 shifts = shift ? *(const float4*)(shift + column) : make_float4(0, 0, 0, 0);
	bool begins = pos[first] == 0;
	const half* before = left + (int64)sequence * (fast_kernel - 1) * width + column;
	Row r[fast_kernel];
#pragma unroll
	for (int j = 1; j < fast_kernel; j++) {
		int at = from - fast_kernel + j;
		if (at >= 0) r[j].read(x + at * ld);
		else if (begins) r[j].none();
		else r[j].read(before + (int64)(fast_kernel - 1 + at) * width);
	}
	bool of_keys = part < 2 * key_heads && scale != 0;
	float* to = columns + (int64)first * ldc + column;
	int last = min(from + rows_of_warp, span);
	for (int t = from; t < last; t += rows_at_once) {
		uint2 next[rows_at_once];
#pragma unroll
		for (int k = 0; k < rows_at_once; k++) next[k] = *(const uint2*)(x + min(t + k, last - 1) * ld);
#pragma unroll
		for (int k = 0; k < rows_at_once; k++) {
			if (t + k >= last) return;
#pragma unroll
			for (int j = 0; j < fast_kernel - 1; j++) r[j] = r[j + 1];
			r[fast_kernel - 1].set(next[k]);
			float y[4], squares = 0, factor = 1;
#pragma unroll
			for (int i = 0; i < 4; i++) {
				float sum = (&shifts.x)[i] + w[i].x * r[0].v[i] + w[i].y * r[1].v[i] + w[i].z * r[2].v[i] + w[i].w * r[3].v[i];
				y[i] = __fdividef(sum, 1 + expf(-sum)), squares += y[i] * y[i];
			}
			if (of_keys) factor = rsqrtf(warp_sum(squares) + 1e-6f) * (part < key_heads ? scale : 1);
			*(float4*)(to + (t + k) * ldc) = make_float4(y[0] * factor, y[1] * factor, y[2] * factor, y[3] * factor);
		}
	}
}

