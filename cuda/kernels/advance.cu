// The next decode step: every position grows by one.
#include "order.cuh"

extern "C" __global__ void advance(
	int* pos,  // [n]
	int n) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n) pos[i]++;
}
