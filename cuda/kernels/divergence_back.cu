// The KL divergence of softmax(logits) from softmax(reference) of every row, and its
// gradient, q - p, in the place of the logits.
//
// A block a row. Sums are in float64, in one order.
#include "order.cuh"

constexpr int threads = 256;

// block_all combines a number of each thread of a block, and gives the result to all.
template <class T, class F>
__device__ inline T block_all(T x, F combine) {
	__shared__ T parts[threads / 32];
	for (int step = 16; step > 0; step /= 2) x = combine(x, __shfl_xor_sync(~0u, x, step));
	__syncthreads();
	if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
	__syncthreads();
	x = parts[0];
	for (int i = 1; i < threads / 32; i++) x = combine(x, parts[i]);
	return x;
}

// Row is a row of logits: log p[c] = (x[c] - most) - rest.
struct Row {
	float most, rest;

	__device__ Row(const float* x, int n) {
		most = __int_as_float(0xff800000);  // -infinity
		for (int c = threadIdx.x; c < n; c += threads) most = fmaxf(most, x[c]);
		most = block_all(most, [](float a, float b) { return fmaxf(a, b); });
		double sum = 0;
		for (int c = threadIdx.x; c < n; c += threads) sum += expf(x[c] - most);
		rest = (float)log(block_all(sum, [](double a, double b) { return a + b; }));
	}
	__device__ float log_of(float x) const { return (x - most) - rest; }
};

extern "C" __global__ void __launch_bounds__(threads) divergence_back(
	float* divergence,       // [rows]
	float* logits,           // [rows, n], rows ldx elements apart
	const float* reference,  // [rows, n], rows ldr elements apart
	int n, long long ldx, long long ldr) {
	after_previous();
	float* x = logits + blockIdx.x * ldx;
	const float* source = reference + blockIdx.x * ldr;
	Row q(x, n), p(source, n);
	double sum = 0;
	for (int c = threadIdx.x; c < n; c += threads) {
		float log_p = p.log_of(source[c]), log_q = q.log_of(x[c]), e = expf(log_p);
		if (e > 0) sum += (double)e * (log_p - log_q);
		x[c] = expf(log_q) - e;
	}
	sum = block_all(sum, [](double a, double b) { return a + b; });
	if (threadIdx.x == 0) divergence[blockIdx.x] = (float)sum;
}
