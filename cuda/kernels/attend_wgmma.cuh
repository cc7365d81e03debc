// Products of warp groups that attention needs (wgmma.cuh has the layout of sums).
#pragma once

#include "wgmma.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// value_operand describes columns of a matrix that is stored as operand has rows:
// tiles of `rows` rows, one after the other for every 64 columns. Sixteen rows further
// is 128 more.
__device__ inline uint64 value_operand(const half* at, int rows) {
	uint64 address = (unsigned)__cvta_generic_to_shared(at);
	constexpr uint64 eight_rows = 1024 >> 4, swizzle_128 = 1;
	return (address & 0x3ffff) >> 4 | (uint64)(rows * 128 >> 4) << 16 | eight_rows << 32 | swizzle_128 << 62;
}

// wgmma_rows is d = keep·d + a·bᵀ for a [64, 16] and b [n, 16] in shared memory, with n
// twice the length of d.
__device__ inline void wgmma_rows(float (&d)[16], uint64 a, uint64 b, int keep) {
	asm volatile(
		"{\n.reg .pred p;\nsetp.ne.b32 p, %18, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {"
		WGMMA_NAMES_16 "}, %16, %17, p, 1, 1, 0, 0;\n}"
		: WGMMA_SUMS_16(d, 0)
		: "l"(a), "l"(b), "r"(keep));
}

__device__ inline void wgmma_rows(float (&d)[32], uint64 a, uint64 b, int keep) {
	asm volatile(
		"{\n.reg .pred p;\nsetp.ne.b32 p, %34, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
		WGMMA_NAMES_32 "}, %32, %33, p, 1, 1, 0, 0;\n}"
		: WGMMA_SUMS_32(d, 0)
		: "l"(a), "l"(b), "r"(keep));
}

__device__ inline void wgmma_rows(float (&d)[64], uint64 a, uint64 b, int keep) {
	asm volatile(
		"{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
		WGMMA_NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;\n}"
		: WGMMA_SUMS_64(d, 0)
		: "l"(a), "l"(b), "r"(keep));
}

// wgmma_registers is d += a·b for a [64, 16] in registers, as mma has four of its
// operands, and b [16, n] in shared memory.
__device__ inline void wgmma_registers(float (&d)[32], const unsigned (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {"
		WGMMA_NAMES_32 "}, {%32,%33,%34,%35}, %36, 1, 1, 1, 1;"
		: WGMMA_SUMS_32(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma_registers(float (&d)[64], const unsigned (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
		WGMMA_NAMES_64 "}, {%64,%65,%66,%67}, %68, 1, 1, 1, 1;"
		: WGMMA_SUMS_64(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ inline void wgmma_registers(float (&d)[128], const unsigned (&a)[4], uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
		WGMMA_NAMES_128 "}, {%128,%129,%130,%131}, %132, 1, 1, 1, 1;"
		: WGMMA_SUMS_128(d, 0)
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// settle keeps the compiler from reading sums before what comes before it.
template <int n>
__device__ inline void settled(float (&d)[n]) {
#pragma unroll
	for (int i = 0; i < n; i++) asm volatile("" : "+f"(d[i])::"memory");
}

#endif
