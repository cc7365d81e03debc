// A ring of stages in shared memory, which copies fill several steps ahead of the warps that
// multiply.
#pragma once

#include "barrier.cuh"
#include "cluster.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Ring is a place among the stages, and the parity of the rounds through them.
template <int stages>
struct Ring {
	int at = 0, parity = 0;
	__device__ void next() {
		if (++at == stages) at = 0, parity ^= 1;
	}
};

// begin_ring makes the barriers of stages that warps of all of a cluster's blocks read, so
// many in all, and waits for the other blocks'.
template <int stages>
__device__ inline void begin_ring(u64 (&full)[stages], u64 (&empty)[stages], int readers) {
	if (threadIdx.x == 0) {
		for (int i = 0; i < stages; i++) barrier_init(&full[i], 1), barrier_init(&empty[i], readers);
		barriers_ready();
	}
	cluster_arrive();
	cluster_wait();
}

#endif
