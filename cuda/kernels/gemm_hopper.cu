// Dense products of up to 128 rows on Hopper: y = x·wᵀ + bias for x [m, k] and w [n, k], fp16, fp32
// sums, k a multiple of 8.
//
// A block of two warp groups computes a tile of y: each group 64 rows. Tiles of x
// and w, 64 of k at a time, are copied to shared memory two steps or more ahead,
// in the order that wgmma reads (wgmma.cuh). A step's products run while the next
// one's data are waited for; a stage is filled again two steps after its products
// were issued, when every group has waited for them.
//
// Where there are few tiles, the steps of each are divided among blockIdx.z: y is
// then [gridDim.z, m, ldy], parts that gemm_join adds.
//
// H200, 2026-11-21, 4096 x 4096: 2048 rows 122 µs, 564 TFLOP/s (cuBLAS 93); 128 rows
// 22 µs (15; undivided 39); the kernels of gemm.cu take 297 and 64.
#include "gemm.cuh"
#include "mma.cuh"
#include "order.cuh"
#include "wgmma.cuh"

constexpr int bm = 128, wide = 256, slim = 128;  // rows and columns of tiles
constexpr int depth = 64;  // of k, a step: rows of 128 bytes in shared memory
constexpr int threads = 256;
constexpr int chunks = depth / 8;
constexpr int rows_a_pass = threads / chunks;
constexpr int shared_bytes = 193 * 1024;  // stages of either variant, and their alignment

static_assert(shared_bytes >= 1024 + 4 * (bm + wide) * depth * 2 && shared_bytes >= 1024 + 6 * (bm + slim) * depth * 2 && bm % rows_a_pass == 0, "stages");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Copier copies rows of a matrix, a chunk a thread and pass.
template <int rows>
struct Copier {
	const half* from;
	int64 ld;         // elements from row to row
	int left, k, at;  // rows that there are from this thread's first on; columns; this thread's column

	__device__ Copier(const half* x, int64 ld, int first, int count, int k) : ld(ld), k(k) {
		int row = threadIdx.x / chunks;
		at = threadIdx.x % chunks * 8;
		from = x + (first + row) * ld + at;
		left = count - first - row;
	}
	__device__ void copy(half* to, int step) {
		int row = threadIdx.x / chunks, chunk = threadIdx.x % chunks;
		bool inside = step * depth + at < k;
#pragma unroll
		for (int i = 0; i < rows / rows_a_pass; i++) {
			bool there = inside && i * rows_a_pass < left;
			const half* p = from + i * rows_a_pass * ld + step * depth;
			copy16(to + (row + i * rows_a_pass) * depth + (chunk ^ row % 8) * 8, there ? p : from, there);
		}
	}
};

template <int bn, class Y>
__device__ inline void write(Y* y, const float* bias, const float (&sums)[bn / 2], int m0, int n0, int m, int n, int ldy) {
	int lane = threadIdx.x % 32, row0 = m0 + threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
	for (int j = 0; j < bn / 8; j++) {
		int col = n0 + 8 * j + lane % 4 * 2;
		float add0 = bias && col < n ? bias[col] : 0, add1 = bias && col + 1 < n ? bias[col + 1] : 0;
#pragma unroll
		for (int h = 0; h < 2; h++) {
			int row = row0 + 8 * h;
			if (row >= m) continue;
			float a = sums[4 * j + 2 * h] + add0, b = sums[4 * j + 2 * h + 1] + add1;
			put_pair(y + (int64)row * ldy + col, a, b, col, n);
		}
	}
}

template <int bn, int stages, class Y>
__device__ void gemm(
	Y* y,               // [m, ldy]
	const half* x,      // [m, k], rows ldx elements apart, each at 16 bytes
	const half* w,      // [n, k]
	const float* bias,  // [n] or null
	int m, int n, int k, int ldy, int64 ldx) {
	extern __shared__ uint4 memory[];
	constexpr int stage = (bm + bn) * depth;
	half* base = (half*)(((size_t)memory + 1023) & ~(size_t)1023);
	int m0 = blockIdx.x * bm, n0 = blockIdx.y * bn, all = (k + depth - 1) / depth;
	int first = all * blockIdx.z / gridDim.z, steps = all * (blockIdx.z + 1) / gridDim.z - first;
	y += (int64)blockIdx.z * m * ldy;
	Copier<bm> a(x, ldx, m0, m, k);
	Copier<bn> b(w, k, n0, n, k);
	float sums[bn / 2] = {};
	int group = threadIdx.x / 128;
	after_previous();
#pragma unroll
	for (int s = 0; s < stages - 2; s++) {
		if (s < steps) {
			a.copy(base + s * stage, first + s);
			b.copy(base + s * stage + bm * depth, first + s);
		}
		commit();
	}
	int now = 0, ahead = stages - 2;
	for (int s = 0; s < steps; s++) {
		arrived<stages - 3>();
		show();
		__syncthreads();
		uint64 xs = operand(base + now * stage + group * 64 * depth), ws = operand(base + now * stage + bm * depth);
		wgmma_begin();
#pragma unroll
		for (int i = 0; i < depth / 16; i++) wgmma(sums, xs + 2 * i, ws + 2 * i);
		wgmma_end();
		if (s + stages - 2 < steps) {
			a.copy(base + ahead * stage, first + s + stages - 2);
			b.copy(base + ahead * stage + bm * depth, first + s + stages - 2);
		}
		commit();
		wgmma_wait<1>();
		if (++now == stages) now = 0;
		if (++ahead == stages) ahead = 0;
	}
	wgmma_wait<0>();
	write<bn>(y, bias, sums, m0, n0, m, n, ldy);
}

#else  // the kernels of gemm.cu are for other GPUs

template <int bn, int stages, class Y>
__device__ void gemm(Y*, const half*, const half*, const float*, int, int, int, int, int64) {}

#endif

// Names are of the columns of a tile and the type of y; stages fill 192 KB.
#define GEMM(name, bn, stages, Y)                                                                   \
	extern "C" __global__ void __launch_bounds__(256, 1)                                            \
	name(Y* y, const half* x, const half* w, const float* bias, int m, int n, int k, int ldy,       \
	     int64 ldx) {                                                                               \
		gemm<bn, stages>(y, x, w, bias, m, n, k, ldy, ldx);                                         \
	}

GEMM(gemm_hopper_256_f16, wide, 4, half)
GEMM(gemm_hopper_256_f32, wide, 4, float)
GEMM(gemm_hopper_128_f16, slim, 6, half)
GEMM(gemm_hopper_128_f32, slim, 6, float)
