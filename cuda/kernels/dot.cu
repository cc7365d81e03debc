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

// dot_parts sums every run of rows by itself: blockIdx.x.
extern "C" __global__ void dot_parts(
	double* parts,   // [runs, blocks]
	const float* x,  // [rows, cols]
	const float* y,  // [rows, cols]
	int rows, int run, int cols, int x_stride, int y_stride) {
	after_previous();
	double sum = 0;
	int end = min(rows, (int)(blockIdx.x + 1) * run);
	for (int r = blockIdx.x * run + blockIdx.y; r < end; r += gridDim.y)
		for (int c = threadIdx.x; c < cols; c += blockDim.x) sum += (double)x[(int64)r * x_stride + c] * y[(int64)r * y_stride + c];
	sum = block_sum(sum);
	if (threadIdx.x == 0) parts[(int64)blockIdx.x * gridDim.y + blockIdx.y] = sum;
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
