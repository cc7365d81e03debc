// Clusters: blocks that run at the same time and reach each other's shared memory
// (PTX ISA, "Cluster of cooperative thread arrays").
#pragma once

#include <cuda_fp16.h>

#if __CUDA_ARCH__ >= 900

// cluster_arrive and cluster_wait are a barrier of all threads of a cluster; what was
// stored before the one can be seen after the other.
__device__ inline void cluster_arrive() { asm volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
__device__ inline void cluster_wait() { asm volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }

// of_block is the address, as loads of a cluster take it, of the same place in the
// shared memory of another block.
__device__ inline unsigned of_block(unsigned own, int block) {
	unsigned other;
	asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(other) : "r"(own), "r"(block));
	return other;
}
__device__ inline unsigned of_block(const void* p, int block) { return of_block((unsigned)__cvta_generic_to_shared(p), block); }

// rank_in_cluster is a block's number in its cluster.
__device__ inline int rank_in_cluster() {
	int r;
	asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
	return r;
}

// arrive_at arrives at a barrier of a block of the cluster. It orders nothing but
// products that have been waited for: a fence of the cluster, here, took a microsecond.
__device__ inline void arrive_at(unsigned barrier) {
	asm volatile("mbarrier.arrive.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

__device__ inline float4 cluster_load4(unsigned at) {
	float4 v;
	asm volatile("ld.shared::cluster.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "r"(at) : "memory");
	return v;
}

__device__ inline float2 cluster_load2(unsigned at) {
	float2 v;
	asm volatile("ld.shared::cluster.v2.f32 {%0,%1}, [%2];" : "=f"(v.x), "=f"(v.y) : "r"(at) : "memory");
	return v;
}

__device__ inline float cluster_load(unsigned at) {
	float v;
	asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(v) : "r"(at) : "memory");
	return v;
}

#endif
