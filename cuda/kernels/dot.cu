// Σ x·y in float64, in an order that depends on nothing but the number of elements:
// dot_parts gives a sum for each of its blocks, dot_sum adds them.
#include "half.cuh"
#include "order.cuh"

__device__ inline double block_sum(double v) {
	__shared__ double parts[32];
	int lane = threadIdx.x % 32, warps = blockDim.x / 32;
	for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
	if (lane == 0) parts[threadIdx.x / 32] = v;
	__syncthreads();
	v = lane < warps ? parts[lane] : 0;
	for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
	return v;
}

// Four is four neighbours of a row, zeros behind its end.
struct Four {
	float v[4];
	__device__ Four(const float* row, int c, int cols, bool whole) {
		if (whole) {
			*(float4*)v = *(const float4*)(row + c);
			return;
		}
#pragma unroll
		for (int i = 0; i < 4; i++) v[i] = c + i < cols ? row[c + i] : 0;
	}
};

// Rows is what a block sums: every gridDim.y-th of a run of rows, four columns a thread.
struct Rows {
	const float *x, *y;
	int rows, run, cols, x_stride, y_stride;

	template <class F>
	__device__ void each(F f) const {
		bool whole = ((size_t)x % 16 | (size_t)y % 16 | cols % 4 | x_stride % 4 | y_stride % 4) == 0;
		int end = min(rows, (int)(blockIdx.x + 1) * run);
		for (int r = blockIdx.x * run + blockIdx.y; r < end; r += gridDim.y)
			for (int c = threadIdx.x * 4; c < cols; c += blockDim.x * 4)
				f(Four(x + (int64)r * x_stride, c, cols, whole), Four(y + (int64)r * y_stride, c, cols, whole));
	}
};

// put stores what a block has summed.
__device__ inline void put(double* parts, const double (&sums)[4]) {
	double sum = block_sum((sums[0] + sums[1]) + (sums[2] + sums[3]));
	if (threadIdx.x == 0) parts[(int64)blockIdx.x * gridDim.y + blockIdx.y] = sum;
}

// dot_parts sums every run of rows by itself: blockIdx.x.
extern "C" __global__ void dot_parts(
	double* parts,   // [runs, blocks]
	const float* x,  // [rows, cols]
	const float* y,  // [rows, cols]
	int rows, int run, int cols, int x_stride, int y_stride) {
	after_previous();
	double sums[4] = {};
	Rows{x, y, rows, run, cols, x_stride, y_stride}.each([&](const Four& a, const Four& b) {
#pragma unroll
		for (int i = 0; i < 4; i++) sums[i] += (double)a.v[i] * b.v[i];
	});
	put(parts, sums);
}

// dot_distances is dot_parts for (x - y)², and y².
extern "C" __global__ void dot_distances(
	double* diffs,    // [runs, blocks]
	double* squares,  // [runs, blocks]
	const float* x,   // [rows, cols]
	const float* y,   // [rows, cols]
	int rows, int run, int cols, int x_stride, int y_stride) {
	after_previous();
	double apart[4] = {}, own[4] = {};
	Rows{x, y, rows, run, cols, x_stride, y_stride}.each([&](const Four& a, const Four& b) {
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float d = a.v[i] - b.v[i];
			apart[i] += (double)d * d, own[i] += (double)b.v[i] * b.v[i];
		}
	});
	put(diffs, apart);
	__syncthreads();
	put(squares, own);
}

// dot_sum adds the parts of each of some sums.
extern "C" __global__ void dot_sum(
	double* sum,          // [blocks]
	const double* parts,  // [blocks, count]
	int count) {
	after_previous();
	double v = 0;
	for (int i = threadIdx.x; i < count; i += blockDim.x) v += parts[(int64)blockIdx.x * count + i];
	v = block_sum(v);
	if (threadIdx.x == 0) sum[blockIdx.x] = v;
}
