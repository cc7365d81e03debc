// Labels drawn by their probabilities, and the gradient of their -log p, in the
// place of logits: p = softmax(logits), less one in the first column whose
// cumulative probability exceeds the row's random number.
#include "draw.cuh"

extern "C" __global__ void __launch_bounds__(threads) sample_back(
	float* logits,        // [rows, n], rows ld elements apart
	const float* random,  // [rows], 0 to 1
	int n, long long ld) {
	after_previous();
	float* x = logits + blockIdx.x * ld;
	double total;
	int drawn = draw_column(x, n, random[blockIdx.x], total);
	for (int c = threadIdx.x; c < n; c += threads) x[c] = (float)(x[c] / total) - (c == drawn);
}
