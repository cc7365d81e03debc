// The next decode step: every position grows by one.
#include "order.cuh"

constexpr int threads = 128;

extern "C" __global__ void advance(
	int* pos,  // [n]
	int n) {
	after_previous();
	int i = blockIdx.x * threads + threadIdx.x;
	if (i < n) pos[i]++;
}
