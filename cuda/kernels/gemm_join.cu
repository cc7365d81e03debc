// Adds the parts of a product that was divided (gemm.cu): y = Σ parts + bias, in
// order.
//
// A thread four columns of a row.
#include "half.cuh"
#include "order.cuh"

constexpr int threads = 128;
constexpr int columns = threads * 4;  // of a block

template <class Y>
__device__ void join(
	Y* y,                // [m, ldy]
	const float* parts,  // [count, m, n]
	const float* bias,   // [n] or null
	int m, int n, int ldy, int count) {
	after_previous();
	int column = blockIdx.x * columns + threadIdx.x * 4, row = blockIdx.y;
	for (int c = column; c < min(column + 4, n); c++) {
		float sum = bias ? bias[c] : 0;
		for (int i = 0; i < count; i++) sum += parts[((int64)i * m + row) * n + c];
		narrow(y[(int64)row * ldy + c], sum);
	}
}

#define JOIN(name, Y)                                                                               \
	extern "C" __global__ void name(Y* y, const float* parts, const float* bias, int m, int n,      \
	                                int ldy, int count) {                                           \
		join(y, parts, bias, m, n, ldy, count);                                                     \
	}

JOIN(gemm_join_f16, half)
JOIN(gemm_join_f32, float)
