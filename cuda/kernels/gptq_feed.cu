// The errors of the rows of a block that have been quantized reach the rows of its
// next group: panel[i] -= Σⱼ f[j, i]·panel[j]. Also finds the largest magnitude of
// the group's rows.
//
// A thread a column, 32 rows at a time.
//
// gptq_feed_top only finds the largest magnitude; products (product.cuh) then do
// the rest.
#include "coding.cuh"
#include "order.cuh"

constexpr int part = 32, most_before = 256;
constexpr int ahead = 8;  // rows that are read at a time

// raise raises *top to the largest of a block's numbers.
__device__ inline void raise(unsigned* top, float most) {
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
	if (threadIdx.x % 32 == 0) atomicMax(top, __float_as_uint(most));
}

extern "C" __global__ void __launch_bounds__(128) gptq_feed(
	const void* list,     // Step, one for each blockIdx.y
	const float* factor,  // [k, k]
	int k) {
	__shared__ float4 f[most_before][part / 4];
	after_previous();
	const Step s = ((const Step*)list)[blockIdx.y];
	int column = blockIdx.x * blockDim.x + threadIdx.x, block_row = s.row - s.before;
	if (blockIdx.x * (int)blockDim.x >= s.n) return;
	float most = 0;
	for (int from = 0; from < s.rows; from += part) {
		__syncthreads();
		for (int i = threadIdx.x; i < s.before * part; i += blockDim.x)
			((float*)f)[i] = factor[(int64)(block_row + i / part) * k + s.row + from + i % part];
		__syncthreads();
		if (column >= s.n) continue;
		float* x = s.panel + (int64)(s.before + from) * s.n + column;
		float v[part];
#pragma unroll
		for (int i = 0; i < part; i++) v[i] = x[(int64)i * s.n];
		const float* e = s.panel + column;
		for (int j0 = 0; j0 < s.before; j0 += ahead, e += (int64)ahead * s.n) {
			float negative[ahead];
#pragma unroll
			for (int j = 0; j < ahead; j++) negative[j] = -e[(int64)j * s.n];
#pragma unroll
			for (int j = 0; j < ahead; j++)
#pragma unroll
				for (int i = 0; i < part / 4; i++) {
					float4 g = f[j0 + j][i];
					float x = negative[j];
					v[4 * i] = fmaf(g.x, x, v[4 * i]), v[4 * i + 1] = fmaf(g.y, x, v[4 * i + 1]);
					v[4 * i + 2] = fmaf(g.z, x, v[4 * i + 2]), v[4 * i + 3] = fmaf(g.w, x, v[4 * i + 3]);
				}
		}
#pragma unroll
		for (int i = 0; i < part; i++) {
			if (s.before) x[(int64)i * s.n] = v[i];
			most = fmaxf(most, fabsf(v[i]));
		}
	}
	raise(s.top, most);
}

extern "C" __global__ void __launch_bounds__(128) gptq_feed_top(const void* list) {
	after_previous();
	const Step s = ((const Step*)list)[blockIdx.y];
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (blockIdx.x * (int)blockDim.x >= s.n) return;
	float most = 0;
	const float* x = s.panel + (int64)s.before * s.n + column;
	if (column < s.n)
#pragma unroll 16
		for (int i = 0; i < s.rows; i++) most = fmaxf(most, fabsf(x[(int64)i * s.n]));
	raise(s.top, most);
}
