// Columns drawn from softmax(logits), whose rows turn into exponentials.
#include "draw.cuh"

extern "C" __global__ void __launch_bounds__(threads) draw(
	int* ids,             // [rows]
	float* logits,        // [rows, n], rows ld elements apart
	const float* random,  // [rows], 0 to 1
	int n, long long ld) {
	after_previous();
	double total;
	int drawn = draw_column(logits + blockIdx.x * ld, n, random[blockIdx.x], total);
	if (threadIdx.x == 0) ids[blockIdx.x] = drawn;
}
