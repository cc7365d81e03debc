// Products of few rows by matrices of affine codes: y = x·W + bias, x [rows, in],
// fp32 sums, weights rounded to fp16.
//
// A block of threads has a tile of 32 columns. Eight lanes read four columns each of
// a block of 32 rows, a whole line at a time; the others read other rows. x lies in
// shared memory, permuted, in the pairs that codes come in. Names end in the bits and
// the type of y.
#include "affine.cuh"
#include "order.cuh"

constexpr int one_threads = 1024;  // for one row
constexpr int some_threads = 512;  // for up to some_rows
constexpr int some_rows = 8;

template <int bits, int most, int threads, class Y>
__device__ inline void multiply(
	Y* y,                  // [rows, out], rows ldy elements apart
	const half* x,         // [rows, in], rows ldx elements apart
	const int* words,      // [in·bits/32, padded]
	const half* scales,    // [groups, padded]
	const uint8_t* zeros,  // [groups, padded]
	const int* group,      // [in/32]: of each block of rows
	const int* perm,       // [in]: original row of every stored row, or null
	const float* bias,     // [out] or null
	int rows, int in, int out, int padded, int64 ldy, int64 ldx) {
	constexpr int slices = threads / quads;  // blocks of rows that are read at once
	constexpr int warps = threads / 32;
	using P = Pairs<bits>;
	constexpr int inputs = most * slices * pairs * sizeof(half2), outputs = most * warps * tile_columns * sizeof(float);
	__shared__ __align__(16) char shared[inputs > outputs ? inputs : outputs];
	auto& xs = *(half2(*)[most][slices][pairs])shared;
	auto& parts = *(float(*)[most][warps][tile_columns])shared;
	let_next();
	int slice = threadIdx.x / quads, column = blockIdx.x * tile_columns + threadIdx.x % quads * 4;
	int blocks = in / block_rows;
	Block<bits> b;
	if (slice < blocks) b.load(words, scales, zeros, group, slice, column, padded);
	after_previous();
	float sums[most][4] = {};
	for (int first = 0; first < blocks; first += slices) {
		int n = min(slices, blocks - first);
		__syncthreads();
		for (int i = threadIdx.x; i < n * pairs; i += threads) {
			int k = (first + i / pairs) * block_rows + P::first(i % pairs), k2 = k + P::apart;
			if (perm) k = perm[k], k2 = perm[k2];
#pragma unroll
			for (int r = 0; r < most; r++)
				if (r < rows) xs[r][i / pairs][i % pairs] = __halves2half2(x[r * ldx + k], x[r * ldx + k2]);
		}
		__syncthreads();
		if (slice >= n) continue;
		Block<bits> now = b;
		if (first + slices + slice < blocks) b.load(words, scales, zeros, group, first + slices + slice, column, padded);
#pragma unroll
		for (int c = 0; c < 4; c++) {
			u32 w[bits];
			now.column(w, c);
#pragma unroll
			for (int p = 0; p < pairs; p++) {
				float2 v = __half22float2(weights<bits>(w, p, now.scale(c), now.zero(c)));
#pragma unroll
				for (int r = 0; r < most; r++) {
					if (r >= rows) break;
					float2 in2 = __half22float2(xs[r][slice][p]);
					sums[r][c] += v.x * in2.x;
					sums[r][c] += v.y * in2.y;
				}
			}
		}
	}
	__syncthreads();
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
	for (int r = 0; r < most; r++) {
#pragma unroll
		for (int c = 0; c < 4; c++) {
			float sum = sums[r][c];
			sum += __shfl_xor_sync(~0u, sum, 8);
			sum += __shfl_xor_sync(~0u, sum, 16);
			if (lane < quads) parts[r][warp][lane * 4 + c] = sum;
		}
	}
	__syncthreads();
	for (int i = threadIdx.x; i < rows * tile_columns; i += threads) {
		int r = i / tile_columns, c = i % tile_columns, to = blockIdx.x * tile_columns + c;
		if (to >= out) continue;
		float sum = 0;
		for (int w = 0; w < warps; w++) sum += parts[r][w][c];
		narrow(y[r * ldy + to], sum + (bias ? bias[to] : 0));
	}
}

#define MULTIPLY(name, bits, most, threads, Y)                                                                          \
	extern "C" __global__ void __launch_bounds__(threads)                                                               \
	name(Y* y, const half* x, const int* words, const half* scales, const uint8_t* zeros, const int* group,             \
	     const int* perm, const float* bias, int rows, int in, int out, int padded, int64 ldy, int64 ldx) {             \
		multiply<bits, most, threads>(y, x, words, scales, zeros, group, perm, bias, rows, in, out, padded, ldy, ldx); \
	}

MULTIPLY(affine_qmatmul_one_2_f16, 2, 1, one_threads, half)
MULTIPLY(affine_qmatmul_one_3_f16, 3, 1, one_threads, half)
MULTIPLY(affine_qmatmul_one_4_f16, 4, 1, one_threads, half)
MULTIPLY(affine_qmatmul_one_8_f16, 8, 1, one_threads, half)
MULTIPLY(affine_qmatmul_one_2_f32, 2, 1, one_threads, float)
MULTIPLY(affine_qmatmul_one_3_f32, 3, 1, one_threads, float)
MULTIPLY(affine_qmatmul_one_4_f32, 4, 1, one_threads, float)
MULTIPLY(affine_qmatmul_one_8_f32, 8, 1, one_threads, float)
MULTIPLY(affine_qmatmul_some_2_f16, 2, some_rows, some_threads, half)
MULTIPLY(affine_qmatmul_some_3_f16, 3, some_rows, some_threads, half)
MULTIPLY(affine_qmatmul_some_4_f16, 4, some_rows, some_threads, half)
MULTIPLY(affine_qmatmul_some_8_f16, 8, some_rows, some_threads, half)
MULTIPLY(affine_qmatmul_some_2_f32, 2, some_rows, some_threads, float)
MULTIPLY(affine_qmatmul_some_3_f32, 3, some_rows, some_threads, float)
MULTIPLY(affine_qmatmul_some_4_f32, 4, some_rows, some_threads, float)
MULTIPLY(affine_qmatmul_some_8_f32, 8, some_rows, some_threads, float)
