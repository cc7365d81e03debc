// Diagonals of square matrices, and what lies on both sides of them.
#include "half.cuh"
#include "order.cuh"

extern "C" __global__ void diagonal_get(
	float* dst,      // [k]
	const float* m,  // [k, k]
	int k) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < k) dst[i] = m[(int64)i * k + i];
}

extern "C" __global__ void diagonal_add(
	float* m,  // [k, k]
	float v, int k) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < k) m[(int64)i * k + i] += v;
}

// diagonal_mirror copies what is above the diagonal to below it, in tiles of 32.
extern "C" __global__ void diagonal_mirror(
	float* m,  // [k, k]
	int k) {
	__shared__ float tile[32][33];
	after_previous();
	int i0 = blockIdx.y * 32, j0 = blockIdx.x * 32, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	if (i0 > j0) return;
	for (int i = warp; i < 32; i += blockDim.x / 32)
		if (i0 + i < k && j0 + lane < k) tile[i][lane] = m[(int64)(i0 + i) * k + j0 + lane];
	__syncthreads();
	for (int j = warp; j < 32; j += blockDim.x / 32)
		if (j0 + j < k && i0 + lane < k && i0 + lane < j0 + j) m[(int64)(j0 + j) * k + i0 + lane] = tile[lane][j];
}
