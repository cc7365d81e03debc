// Matrix products of warp groups, which Hopper's tensor cores read from shared
// memory (PTX ISA, "Asynchronous warpgroup level matrix instructions"). Lane l of
// warp w holds, of a [64, n] sum, the elements d[4j+e]: row 16w + l/4 + e/2·8,
// column 8j + l%4·2 + e%2.
#pragma once

#include "half.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

using uint64 = unsigned long long;

// WGMMA_NAMES_n are the first n operands as assembly names them, WGMMA_SUMS_n the
// elements of d from i on as operands.
#define WGMMA_NAMES_16 "%0,%1,%2,%3,%4,%5,%6,%7,%8,%9,%10,%11,%12,%13,%14,%15"
#define WGMMA_NAMES_32 WGMMA_NAMES_16 "," "%16,%17,%18,%19,%20,%21,%22,%23,%24,%25,%26,%27,%28,%29,%30,%31"
#define WGMMA_NAMES_64                                                                             \
	WGMMA_NAMES_32 "," "%32,%33,%34,%35,%36,%37,%38,%39,%40,%41,%42,%43,%44,%45,%46,%47" \
	               "," "%48,%49,%50,%51,%52,%53,%54,%55,%56,%57,%58,%59,%60,%61,%62,%63"
#define WGMMA_NAMES_96                                                                             \
	WGMMA_NAMES_64 "," "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79" \
	               "," "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"
#define WGMMA_NAMES_128                                                                                            \
	WGMMA_NAMES_64 "," "%64,%65,%66,%67,%68,%69,%70,%71,%72,%73,%74,%75,%76,%77,%78,%79"                 \
	               "," "%80,%81,%82,%83,%84,%85,%86,%87,%88,%89,%90,%91,%92,%93,%94,%95"                 \
	               "," "%96,%97,%98,%99,%100,%101,%102,%103,%104,%105,%106,%107,%108,%109,%110,%111" \
	               "," "%112,%113,%114,%115,%116,%117,%118,%119,%120,%121,%122,%123,%124,%125,%126,%127"
#define WGMMA_SUMS_4(d, i) "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3])
#define WGMMA_SUMS_16(d, i) WGMMA_SUMS_4(d, i), WGMMA_SUMS_4(d, i + 4), WGMMA_SUMS_4(d, i + 8), WGMMA_SUMS_4(d, i + 12)
#define WGMMA_SUMS_32(d, i) WGMMA_SUMS_16(d, i), WGMMA_SUMS_16(d, i + 16)
#define WGMMA_SUMS_64(d, i) WGMMA_SUMS_32(d, i), WGMMA_SUMS_32(d, i + 32)
#define WGMMA_SUMS_96(d, i) WGMMA_SUMS_64(d, i), WGMMA_SUMS_32(d, i + 64)
#define WGMMA_SUMS_128(d, i) WGMMA_SUMS_64(d, i), WGMMA_SUMS_64(d, i + 64)

// operand describes rows of 64 halves from an address that is a multiple of 1024,
// stored with the 16-byte chunk c of row r in place c ^ r%8 (the 128-byte swizzle).
// Sixteen halves further along the rows is 2 more.
__device__ inline uint64 operand(const half* at) {
	uint64 address = (unsigned)__cvta_generic_to_shared(at);
	constexpr uint64 eight_rows = 1024 >> 4, swizzle_128 = 1;
	return (address & 0x3ffff) >> 4 | 1ull << 16 | eight_rows << 32 | swizzle_128 << 62;
}

// wgmma_begin comes before the first product that uses sums, wgmma_end after a
// batch; wgmma_wait waits until at most n batches are under way.
__device__ inline void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void wgmma_end() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

template <int n>
__device__ inline void wgmma_wait() {
	asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(n) : "memory");
}

// show makes what this thread has stored in shared memory visible to products.
__device__ inline void show() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// wgmma is d += a·bᵀ for a [64, 16] and b [128, 16] in shared memory.
__device__ inline void wgmma(float (&d)[64], uint64 a, uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
		WGMMA_NAMES_64 "}, %64, %65, 1, 1, 1, 0, 0;"
		: WGMMA_SUMS_64(d, 0)
		: "l"(a), "l"(b));
}

// wgmma is d += a·bᵀ for a [64, 16] and b [256, 16] in shared memory.
__device__ inline void wgmma(float (&d)[128], uint64 a, uint64 b) {
	asm volatile(
		"wgmma.mma_async.sync.aligned.m64n256k16.f32.f16.f16 {"
		WGMMA_NAMES_128 "}, %128, %129, 1, 1, 1, 0, 0;"
		: WGMMA_SUMS_128(d, 0)
		: "l"(a), "l"(b));
}

// columns_operand describes columns of 64 halves, rows of k, from an address that is
// a multiple of 1024, in tiles of 64 columns and so many bytes: 4096 as planes.cuh has
// them. Sixteen of k further is 128 more.
template <int tile_bytes = 4096>
__device__ inline uint64 columns_operand(const half* at) {
	uint64 address = (unsigned)__cvta_generic_to_shared(at);
	constexpr uint64 next_tile = tile_bytes >> 4, eight_rows = 1024 >> 4, swizzle_128 = 1;
	return (address & 0x3ffff) >> 4 | next_tile << 16 | eight_rows << 32 | swizzle_128 << 62;
}

// wgmma_columns is d = keep·d + aᵀ·b for a [16, 64] and b [16, 128] in shared memory.
__device__ inline void wgmma_columns(float (&d)[64], uint64 a, uint64 b, int keep) {
	asm volatile(
		"{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {"
		WGMMA_NAMES_64 "}, %64, %65, p, 1, 1, 1, 1;\n}"
		: WGMMA_SUMS_64(d, 0)
		: "l"(a), "l"(b), "r"(keep));
}

// wgmma_columns is d = keep·d + aᵀ·b for a [16, 64] and b [16, 192] in shared memory.
__device__ inline void wgmma_columns(float (&d)[96], uint64 a, uint64 b, int keep) {
	asm volatile(
		"{\n.reg .pred p;\nsetp.ne.b32 p, %98, 0;\n"
		"wgmma.mma_async.sync.aligned.m64n192k16.f32.f16.f16 {"
		WGMMA_NAMES_96 "}, %96, %97, p, 1, 1, 1, 1;\n}"
		: WGMMA_SUMS_96(d, 0)
		: "l"(a), "l"(b), "r"(keep));
}

// settle keeps the compiler from reading sums before what comes before it.
template <int n>
__device__ inline void settle(float (&d)[n]) {
#pragma unroll
	for (int i = 0; i < n; i++) asm volatile("" : "+f"(d[i])::"memory");
}

#endif
