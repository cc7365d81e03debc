// Rows and columns in another order.
//
// take_f32 is dst[i, j] = src[rows[i], cols[j]], take_turned dst[i, j] = src[j, cols[i]],
// zeros past src's rows; lists that are absent stand for all in order. Names end in
// the type of src; dst is float32.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void take_f32(
	float* dst, const float* src,
	const int* rows, const int* cols,  // or null
	int n, int src_cols) {
	after_previous();
	int i = blockIdx.y, j = blockIdx.x * blockDim.x + threadIdx.x;
	if (j >= n) return;
	dst[(int64)i * n + j] = src[(int64)(rows ? rows[i] : i) * src_cols + (cols ? cols[j] : j)];
}

constexpr int side = 32;

template <class X>
__device__ void turned(
	float* dst,       // [k, n]
	const X* src,     // [out, src_cols]
	const int* cols,  // [k] or null
	int k, int n, int out, int src_cols) {
	__shared__ float tile[side][side + 1];
	after_previous();
	int i0 = blockIdx.x * side, j0 = blockIdx.y * side, lane = threadIdx.x % side;
	int i = i0 + lane, column = i < k ? (cols ? cols[i] : i) : 0;
	for (int j = threadIdx.x / side; j < side; j += blockDim.x / side)
		tile[j][lane] = i < k && j0 + j < out ? widen(src[(int64)(j0 + j) * src_cols + column]) : 0;
	__syncthreads();
	for (int r = threadIdx.x / side; r < side; r += blockDim.x / side)
		if (i0 + r < k && j0 + lane < n) dst[(int64)(i0 + r) * n + j0 + lane] = tile[lane][r];
}

#define TURNED(name, X)                                                                                                    \
	extern "C" __global__ void name(float* dst, const X* src, const int* cols, int k, int n, int out, int src_cols) { \
		turned(dst, src, cols, k, n, out, src_cols);                                                                       \
	}

TURNED(take_turned_f32, float)
TURNED(take_turned_f16, half)
TURNED(take_turned_bf16, bf16)
