// How likely logits make the tokens that follow: log softmax(x)[id] of every row, 0 of
// a row without a token, whose id is negative.
//
// A block a row. Exponentials are float32, their sum float64.
#include "order.cuh"

constexpr int threads = 512;

using int64 = long long;

extern "C" __global__ void __launch_bounds__(threads) likelihood(
	double* logs,    // [rows]
	const float* x,  // [rows, n], rows ld elements apart
	const int* ids,  // [rows]
	int n, int64 ld) {
	__shared__ float mosts[threads / 32];
	__shared__ double sums[threads / 32];
	after_previous();
	int id = ids[blockIdx.x], warp = threadIdx.x / 32;
	if (id < 0 || id >= n) {
		if (threadIdx.x == 0) logs[blockIdx.x] = 0;
		return;
	}
	x += blockIdx.x * ld;
	float most = __int_as_float(0xff800000);  // -infinity
	for (int c = threadIdx.x; c < n; c += threads) most = fmaxf(most, x[c]);
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
	if (threadIdx.x % 32 == 0) mosts[warp] = most;
	__syncthreads();
	for (int i = 0; i < threads / 32; i++) most = fmaxf(most, mosts[i]);
	double sum = 0;
	for (int c = threadIdx.x; c < n; c += threads) sum += expf(x[c] - most);
	for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
	if (threadIdx.x % 32 == 0) sums[warp] = sum;
	__syncthreads();
	if (threadIdx.x > 0) return;
	for (int i = 1; i < threads / 32; i++) sum += sums[i];
	logs[blockIdx.x] = (double)x[id] - most - log(sum);
}
