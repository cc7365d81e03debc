// Sums over warps and blocks, in an order that depends on nothing but the
// block's size.
#pragma once

__device__ inline float warp_sum(float x) {
	for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
	return x;
}

// block_sum returns the sum over a block of whole warps to each of its threads,
// all of which must call it.
__device__ inline float block_sum(float x) {
	__shared__ float parts[32];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	x = warp_sum(x);
	__syncthreads();  // the call before may still be reading parts
	if (lane == 0) parts[warp] = x;
	__syncthreads();
	return warp_sum(lane < blockDim.x / 32 ? parts[lane] : 0);
}
