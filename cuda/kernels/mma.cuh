// Tensor cores and what feeds them. Helpers are named after the instructions
// that they wrap (PTX ISA, "Warp-level matrix instructions").
#pragma once

#include "half.cuh"

using u32 = unsigned;

// mma is d += a·b for a [16, 16] and b [16, 8], fp16, summed in float32. Lane l
// holds, with g = l/4 and q = l%4, of a the pairs (g, 2q), (g+8, 2q), (g, 2q+8),
// (g+8, 2q+8); of b the pairs (2q, g), (2q+8, g); of d the elements (g, 2q),
// (g, 2q+1), (g+8, 2q), (g+8, 2q+1).
__device__ inline void mma(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2]) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
		: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else  // the same in two halves
	for (int i = 0; i < 2; i++)
		asm volatile(
			"mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
			: "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
			: "r"(a[2 * i]), "r"(a[2 * i + 1]), "r"(b[i]));
#endif
}

// ldmatrix reads four 8 x 8 matrices of halves from shared memory; lane l gives
// the address of row l%8 of matrix l/8, 16 bytes aligned, and receives of each
// matrix the pair (l/4, 2(l%4)).
__device__ inline void ldmatrix(u32 (&r)[4], const half* row) {
	u32 at = (u32)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// ldmatrix_trans is ldmatrix of the transposed matrices.
__device__ inline void ldmatrix_trans(u32 (&r)[4], const half* row) {
	u32 at = (u32)__cvta_generic_to_shared(row);
	asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
	             : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at) : "memory");
}

// copy16 copies 16 bytes to shared memory while the thread goes on, or stores
// zeros if there is nothing to copy. Before compute capability 8 it waits.
__device__ inline void copy16(void* to, const void* from, bool there) {
#if __CUDA_ARCH__ >= 800
	u32 at = (u32)__cvta_generic_to_shared(to);
	int bytes = there ? 16 : 0;
	asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
	*(uint4*)to = there ? *(const uint4*)from : make_uint4(0, 0, 0, 0);
#endif
}

// copy4 is copy16 of 4 bytes.
__device__ inline void copy4(u32* to, const u32* from, bool there) {
#if __CUDA_ARCH__ >= 800
	u32 at = (u32)__cvta_generic_to_shared(to);
	int bytes = there ? 4 : 0;
	asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(at), "l"(from), "r"(bytes) : "memory");
#else
	*to = there ? *from : 0;
#endif
}

// commit ends a batch of copies, and arrived waits until at most n batches of
// this thread are under way.
__device__ inline void commit() {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

template <int n>
__device__ inline void arrived() {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.wait_group %0;" ::"n"(n) : "memory");
#endif
}

// arrived_but is arrived for a number, up to 6, that is known at run time.
__device__ inline void arrived_but(int n) {
	switch (n) {
		case 0: arrived<0>(); break;
		case 1: arrived<1>(); break;
		case 2: arrived<2>(); break;
		case 3: arrived<3>(); break;
		case 4: arrived<4>(); break;
		case 5: arrived<5>(); break;
		default: arrived<6>();
	}
}
