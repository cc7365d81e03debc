// Products of warp groups whose first operand is in registers (wgmma.cuh): d += a·bᵀ
// for a [64, 16], of which each warp's lanes hold sixteen rows as mma.cuh says, and
// b [n, 16] in shared memory.
#pragma once

#include "mma.cuh"
#include "wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// registers_down and registers_up change how many registers the threads of a warp
// group have.
template <int n>
__device__ inline void registers_down() { asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(n)); }
template <int n>
__device__ inline void registers_up() { asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(n)); }

__device__ inline void wgmma(float (&d)[4], const u32 (&a)[4], uint64 b) {
	asm volatile("wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0,%1,%2,%3}, {%4,%5,%6,%7}, %8, 1, 1, 1, 0;"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma(float (&d)[8], const u32 (&a)[4], uint64 b) {
	asm volatile("wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {%0,%1,%2,%3,%4,%5,%6,%7}, {%8,%9,%10,%11}, %12, 1, 1, 1, 0;"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma(float (&d)[16], const u32 (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
		WGMMA_NAMES_16 "}, {%16,%17,%18,%19}, %20, 1, 1, 1, 0;"
		: WGMMA_SUMS_16(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#define WGMMA_NAMES_24 WGMMA_NAMES_16 ",%16,%17,%18,%19,%20,%21,%22,%23"
#define WGMMA_NAMES_48 WGMMA_NAMES_32 ",%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47"

__device__ inline void wgmma(float (&d)[24], const u32 (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n48k16.f32.f16.f16 {"
		WGMMA_NAMES_24 "}, {%24,%25,%26,%27}, %28, 1, 1, 1, 0;"
		: WGMMA_SUMS_16(d, 0), WGMMA_SUMS_4(d, 16), WGMMA_SUMS_4(d, 20)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma(float (&d)[48], const u32 (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {"
		WGMMA_NAMES_48 "}, {%48,%49,%50,%51}, %52, 1, 1, 1, 0;"
		: WGMMA_SUMS_32(d, 0), WGMMA_SUMS_16(d, 32)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma(float (&d)[32], const u32 (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
		WGMMA_NAMES_32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 0;"
		: WGMMA_SUMS_32(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma(float (&d)[64], const u32 (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
		WGMMA_NAMES_64 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 0;"
		: WGMMA_SUMS_64(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

#endif
