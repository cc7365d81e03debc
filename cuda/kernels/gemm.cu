// Dense products: y = x·wᵀ + bias for x [m, k] and w [n, k], fp16, fp32 sums.
//
// A block computes a tile of y from tiles of x and w, 32 of k at a time, that
// copies bring to shared memory several steps ahead; its warps hold the sums of
// their parts in registers. Rows of 64 bytes lie in shared memory with their
// 16-byte chunks exchanged by row, so that ldmatrix has no conflicts. Blocks that
// share a tile of w run side by side. The variants differ in their tiles: large
// ones do more operations a byte, small ones make more blocks.
//
// Where there are few tiles, the steps of each are divided among blockIdx.z: y is
// then [gridDim.z, m, ldy], parts that gemm_join adds.
//
// The variant "any" takes matrices whose rows are not of whole 16-byte chunks.
#include "gemm.cuh"
#include "mma.cuh"
#include "order.cuh"

constexpr int depth = 32;   // of k, a step
constexpr int stages = 4;   // of shared memory
constexpr int chunks = depth / 8;

// Tiles are the sizes of a block's and a warp's part of y.
template <int block_m, int block_n, int warp_m, int warp_n>
struct Tiles {
	static constexpr int bm = block_m, bn = block_n, wm = warp_m, wn = warp_n;
	static constexpr int warps_n = bn / wn, threads = bm / wm * warps_n * 32;
	static constexpr int stage = (bm + bn) * depth;  // halves
};

// place is where a chunk of a row lies in a stage.
__device__ inline int place(int row, int chunk) { return row * depth + ((chunk ^ (row >> 1 & 3)) << 3); }

enum Rows { whole_chunks, any_length };

// fetch copies rows first to first+count of a matrix, 32 of k, to shared memory.
template <Rows rows_are, int count, int threads>
__device__ inline void fetch(half* to, const half* from, int64 ld, int first, int rows, int at, int k) {
#pragma unroll
	for (int i = threadIdx.x; i < count * chunks; i += threads) {
		int row = i / chunks, chunk = i % chunks, c = at + chunk * 8;
		half* p = to + place(row, chunk);
		const half* q = from + (first + row) * ld + c;
		if (rows_are == whole_chunks) {
			bool there = first + row < rows && c < k;
			copy16(p, there ? q : from, there);
		} else {
			for (int j = 0; j < 8; j++) p[j] = first + row < rows && c + j < k ? q[j] : __float2half(0);
		}
	}
}

template <class T>
__device__ inline void step(float (&sums)[T::wm / 16][T::wn / 8][4], const half* x, const half* w) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int m = warp / T::warps_n * T::wm, n = warp % T::warps_n * T::wn;
#pragma unroll
	for (int kk = 0; kk < depth / 16; kk++) {
		u32 a[T::wm / 16][4], b[T::wn / 16][4];
#pragma unroll
		for (int i = 0; i < T::wm / 16; i++) ldmatrix(a[i], x + place(m + 16 * i + lane % 16, 2 * kk + lane / 16));
#pragma unroll
		for (int j = 0; j < T::wn / 16; j++) ldmatrix(b[j], w + place(n + 16 * j + lane % 8 + lane / 16 * 8, 2 * kk + lane / 8 % 2));
#pragma unroll
		for (int i = 0; i < T::wm / 16; i++)
#pragma unroll
			for (int j = 0; j < T::wn / 8; j++) {
				u32 pair[2] = {b[j / 2][j % 2 * 2], b[j / 2][j % 2 * 2 + 1]};
				mma(sums[i][j], a[i], pair);
			}
	}
}


template <class T, class Y>
__device__ inline void write(Y* y, const float* bias, float (&sums)[T::wm / 16][T::wn / 8][4], int m0, int n0, int m, int n, int ldy) {
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int row0 = m0 + warp / T::warps_n * T::wm + lane / 4, col0 = n0 + warp % T::warps_n * T::wn + lane % 4 * 2;
#pragma unroll
	for (int j = 0; j < T::wn / 8; j++) {
		int col = col0 + 8 * j;
		float add0 = bias && col < n ? bias[col] : 0, add1 = bias && col + 1 < n ? bias[col + 1] : 0;
#pragma unroll
		for (int i = 0; i < 2 * (T::wm / 16); i++) {
			int row = row0 + 8 * i;
			if (row >= m) continue;
			float a = sums[i / 2][j][i % 2 * 2] + add0, b = sums[i / 2][j][i % 2 * 2 + 1] + add1;
			put_pair(y + (int64)row * ldy + col, a, b, col, n);
		}
	}
}

template <class T, Rows rows_are, class Y>
__device__ void gemm(
	Y* y,               // [m, ldy]
	const half* x,      // [m, k], rows ldx elements apart
	const half* w,      // [n, k]
	const float* bias,  // [n] or null
	int m, int n, int k, int ldy, int64 ldx) {
	extern __shared__ uint4 memory[];
	half* base = (half*)memory;
	int m0 = blockIdx.x * T::bm, n0 = blockIdx.y * T::bn, all = (k + depth - 1) / depth;
	int first = all * blockIdx.z / gridDim.z, steps = all * (blockIdx.z + 1) / gridDim.z - first;
	y += (int64)blockIdx.z * m * ldy;
	float sums[T::wm / 16][T::wn / 8][4] = {};
	after_previous();
	for (int s = 0; s < stages - 1; s++) {
		if (s < steps) {
			half* to = base + s * T::stage;
			fetch<rows_are, T::bm, T::threads>(to, x, ldx, m0, m, (first + s) * depth, k);
			fetch<rows_are, T::bn, T::threads>(to + T::bm * depth, w, k, n0, n, (first + s) * depth, k);
		}
		commit();
	}
	for (int s = 0; s < steps; s++) {
		arrived<stages - 2>();
		__syncthreads();
		int ahead = s + stages - 1;
		if (ahead < steps) {
			half* to = base + ahead % stages * T::stage;
			fetch<rows_are, T::bm, T::threads>(to, x, ldx, m0, m, (first + ahead) * depth, k);
			fetch<rows_are, T::bn, T::threads>(to + T::bm * depth, w, k, n0, n, (first + ahead) * depth, k);
		}
		commit();
		const half* from = base + s % stages * T::stage;
		step<T>(sums, from, from + T::bm * depth);
	}
	write<T>(y, bias, sums, m0, n0, m, n, ldy);
}

constexpr int large_m = 128, large_n = 256, large_threads = 256;
constexpr int medium_m = 128, medium_n = 128, medium_threads = 256;
constexpr int small_m = 64, small_n = 64, small_threads = 128;
constexpr int row_bytes = stages * depth * 2;  // of a row of a tile in shared memory

using Large = Tiles<large_m, large_n, 64, 64>;
using Medium = Tiles<medium_m, medium_n, 64, 32>;
using Small = Tiles<small_m, small_n, 32, 32>;
static_assert(row_bytes % 128 == 0, "rows of a stage lie on banks alike");
static_assert(Large::threads == large_threads && Medium::threads == medium_threads && Small::threads == small_threads, "warps");

#define GEMM(name, T, rows_are, Y)                                                                  \
	extern "C" __global__ void __launch_bounds__(T::threads)                                        \
	name(Y* y, const half* x, const half* w, const float* bias, int m, int n, int k, int ldy,       \
	     int64 ldx) {                                                                               \
		gemm<T, rows_are>(y, x, w, bias, m, n, k, ldy, ldx);                                        \
	}

GEMM(gemm_large_f16, Large, whole_chunks, half)
GEMM(gemm_large_f32, Large, whole_chunks, float)
GEMM(gemm_medium_f16, Medium, whole_chunks, half)
GEMM(gemm_medium_f32, Medium, whole_chunks, float)
GEMM(gemm_small_f16, Small, whole_chunks, half)
GEMM(gemm_small_f32, Small, whole_chunks, float)
GEMM(gemm_any_f16, Small, any_length, half)
GEMM(gemm_any_f32, Small, any_length, float)
