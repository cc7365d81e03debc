// Barriers in shared memory, and the copies that complete on them (PTX ISA,
// "mbarrier", "cp.async.bulk").
#pragma once

#if __CUDA_ARCH__ >= 900

using u64 = unsigned long long;

__device__ inline unsigned shared_address(const void* p) { return (unsigned)__cvta_generic_to_shared(p); }

__device__ inline void barrier_init(u64* b, int count) {
	asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}

// barriers_ready shows barriers that were initialized to copies.
__device__ inline void barriers_ready() { asm volatile("fence.mbarrier_init.release.cluster;\nfence.proxy.async.shared::cta;" ::: "memory"); }

// What follows takes addresses of shared memory, or pointers, which the compiler makes addresses of anew each time.

__device__ inline void barrier_arrive(unsigned b) { asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(b) : "memory"); }
__device__ inline void barrier_arrive(u64* b) { barrier_arrive(shared_address(b)); }

// barrier_expect arrives, and has the phase wait for bytes of copies, too.
__device__ inline void barrier_expect(unsigned b, int bytes) { asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(b), "r"(bytes) : "memory"); }
__device__ inline void barrier_expect(u64* b, int bytes) { barrier_expect(shared_address(b), bytes); }

// barrier_wait waits for the end of a phase of the given parity.
__device__ inline void barrier_wait(unsigned b, int parity) {
	asm volatile(
		"{\n.reg .pred p;\n"
		"again:\n"
		"mbarrier.try_wait.parity.shared::cta.b64 p, [%0], %1;\n"
		"@!p bra again;\n}" ::"r"(b), "r"(parity) : "memory");
}
__device__ inline void barrier_wait(u64* b, int parity) { barrier_wait(shared_address(b), parity); }

// copy_bulk copies bytes, a multiple of 16, to shared memory.
__device__ inline void copy_bulk(unsigned to, const void* from, int bytes, unsigned b) {
	asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to), "l"(from), "r"(bytes), "r"(b) : "memory");
}
__device__ inline void copy_bulk(void* to, const void* from, int bytes, u64* b) { copy_bulk(shared_address(to), from, bytes, shared_address(b)); }

#endif
