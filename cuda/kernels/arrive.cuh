// What kernels do around their waits beside order.cuh: ask for memory before, and know
// which block is the last behind.
#pragma once

#include "order.cuh"

// wait_for_previous waits until the kernels before this one have finished and their
// writes can be seen. A kernel that calls let_next behind it promises more to the next
// one: what kernels before this one have written can be read there without waiting.
__device__ inline void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// prefetch asks for what is there to be brought to the second-level cache.
__device__ inline void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }

// count adds one to a counter and reports whether it was the last of some. It begins at
// zero, which the last one leaves there. What the block has written before a barrier in
// front of this is written for the last one, which can read it behind a barrier, past the
// first-level cache.
__device__ inline bool count(int* counter, int all) {
	int before;
	asm volatile("atom.add.acq_rel.gpu.global.s32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
	bool last = before == all - 1;
	if (last) *counter = 0;
	return last;
}
