// Copies of tiles of a matrix to shared memory, which the tensor memory accelerator
// makes by itself (PTX ISA, "cp.async.bulk.tensor").
#pragma once

#include "barrier.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// maps_ready shows maps of matrices that the host has written.
__device__ inline void map_ready(const void* map) {
	asm volatile("fence.proxy.tensormap::generic.acquire.sys [%0], 128;" ::"l"(map) : "memory");
}

// copy_tile copies the tile at a column and a row of the map's matrix; its bytes
// complete on a barrier.
__device__ inline void copy_tile(void* to, const void* map, int col, int row, u64* b) {
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
	             ::"r"(shared_address(to)), "l"(map), "r"(col), "r"(row), "r"(shared_address(b)) : "memory");
}

// copy_tile_both is copy_tile to two blocks of a cluster, at one place.
__device__ inline void copy_tile_both(void* to, const void* map, int col, int row, u64* b) {
	asm volatile("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1, {%2, %3}], [%4], %5;"
	             ::"r"(shared_address(to)), "l"(map), "r"(col), "r"(row), "r"(shared_address(b)), "h"((unsigned short)3) : "memory");
}

#endif
