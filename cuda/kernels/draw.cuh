// A column drawn from softmax(logits): the first whose cumulative probability exceeds
// a random number.
//
// A block a row. Probabilities are summed in float64, by threads that have
// neighbouring columns each.
#pragma once

#include "order.cuh"

constexpr int threads = 512;

using int64 = long long;

// block_max returns the largest number of a block to each of its threads.
__device__ inline float block_max(float x) {
	__shared__ float parts[threads / 32];
	for (int step = 16; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
	__syncthreads();
	for (int i = 0; i < threads / 32; i++) x = fmaxf(x, parts[i]);
	return x;
}

// draw_column returns the column that is drawn from a row of logits, which turns into
// exponentials, and their sum, to each thread.
__device__ inline int draw_column(float* x, int n, float share, double& total) {
	__shared__ double sums[threads + 1];  // of the columns before each thread's
	__shared__ int drawn;
	float most = __int_as_float(0xff800000);  // -infinity
	for (int c = threadIdx.x; c < n; c += threads) most = fmaxf(most, x[c]);
	most = block_max(most);
	for (int c = threadIdx.x; c < n; c += threads) x[c] = expf(x[c] - most);
	__syncthreads();
	int each = (n + threads - 1) / threads, first = min(n, (int)threadIdx.x * each), end = min(n, first + each);
	double sum = 0;
	for (int c = first; c < end; c++) sum += x[c];
	sums[threadIdx.x + 1] = sum;
	__syncthreads();
	if (threadIdx.x == 0) {
		sums[0] = 0;
		for (int i = 0; i < threads; i++) sums[i + 1] += sums[i];
		drawn = n - 1;
	}
	__syncthreads();
	total = sums[threads];
	double upto = share * total;
	// One thread at most: where sums pass the number.
	if (sums[threadIdx.x] <= upto && sums[threadIdx.x + 1] > upto) {
		double passed = sums[threadIdx.x];
		int c = first;
		for (; c + 1 < end; c++)
			if ((passed += x[c]) > upto) break;
		drawn = c;
	}
	__syncthreads();
	return drawn;
}

