// A norm (norm.cu) of rows, whose columns come out in another order: column i is perm[i]
// of the norm.
//
// A block takes so many rows, which pass through shared memory as those of permute.cu do.
// Names end in those rows.
#include "norm.cuh"
#include "order.cuh"

constexpr int threads = 512;

template <int R>
struct alignas(2 * R) Column {
	half v[R];
};

// Rows are those of a block; the last ones may be there again.
template <int R>
struct Rows {
	const float* x[R];
	int cols;

	// sums adds up what of returns for every row and element.
	template <class Of>
	__device__ void sums(float (&sum)[R], Of of) const {
		float own[R] = {};
		for (int c = threadIdx.x * 2; c < cols; c += threads * 2) {
			float2 v[R];
#pragma unroll
			for (int r = 0; r < R; r++) v[r] = *(const float2*)(x[r] + c);
#pragma unroll
			for (int r = 0; r < R; r++) own[r] += of(r, v[r].x) + of(r, v[r].y);
		}
#pragma unroll
		for (int r = 0; r < R; r++) sum[r] = block_sum(own[r]) / cols;
	}
};

template <Kind kind, int R>
__device__ inline void norm_order(
	half* y,            // [rows, cols]
	const float* src,   // [rows, cols], rows ldx elements apart
	const float* w,     // [cols]
	const float* bias,  // [cols] or null
	const int* perm,    // [cols]
	int rows,
	int cols,  // a multiple of 8
	int64 ldx, float eps, float offset) {
	extern __shared__ uint4 memory[];  // [cols] Column
	Column<R>* m = (Column<R>*)memory;
	after_previous();
	int first = blockIdx.x * R, last = min(R, rows - first) - 1;
	Rows<R> all;
	all.cols = cols;
	Centre mean[R];
	float inverse[R];
#pragma unroll
	for (int r = 0; r < R; r++) {
		all.x[r] = src + (first + min(r, last)) * ldx;
		mean[r] = {kind == layer ? all.x[r][0] : 0, 0};
	}
	if (kind == layer) {
		float rest[R];
		all.sums(rest, [&](int r, float v) { return mean[r](v); });
#pragma unroll
		for (int r = 0; r < R; r++) mean[r].rest = rest[r];
	}
	all.sums(inverse, [&](int r, float v) { return mean[r](v) * mean[r](v); });
#pragma unroll
	for (int r = 0; r < R; r++) inverse[r] = 1 / sqrtf(inverse[r] + eps);
	for (int c = threadIdx.x * 2; c < cols; c += threads * 2) {
		float2 weight = *(const float2*)(w + c), shift = bias ? *(const float2*)(bias + c) : make_float2(0, 0);
		Column<R> a, b;
#pragma unroll
		for (int r = 0; r < R; r++) {
			float2 v = *(const float2*)(all.x[r] + c);
			narrow(a.v[r], mean[r](v.x) * inverse[r] * (weight.x + offset) + shift.x);
			narrow(b.v[r], mean[r](v.y) * inverse[r] * (weight.y + offset) + shift.y);
		}
		m[c] = a, m[c + 1] = b;
	}
	__syncthreads();
	for (int i = threadIdx.x * 8; i < cols; i += threads * 8) {
		Eight<half> out[R];
		int4 from[2] = {((const int4*)(perm + i))[0], ((const int4*)(perm + i))[1]};
#pragma unroll
		for (int j = 0; j < 8; j++) {
			Column<R> c = m[((const int*)from)[j]];
#pragma unroll
			for (int r = 0; r < R; r++) out[r].v[j] = c.v[r];
		}
#pragma unroll
		for (int r = 0; r < R; r++)
			if (r <= last) *(uint4*)(y + (int64)(first + r) * cols + i) = out[r].words[0];
	}
}

#define NORM_ORDER(name, kind, R)                                                                   \
	extern "C" __global__ void __launch_bounds__(512)                                               \
	name(half* y, const float* x, const float* w, const float* bias, const int* perm, int rows,     \
	     int cols, int64 ldx, float eps, float offset) {                                            \
		norm_order<kind, R>(y, x, w, bias, perm, rows, cols, ldx, eps, offset);                     \
	}

NORM_ORDER(norm_order_rms_4, rms, 4)
NORM_ORDER(norm_order_rms_1, rms, 1)
NORM_ORDER(norm_order_layer_4, layer, 4)
NORM_ORDER(norm_order_layer_1, layer, 1)
