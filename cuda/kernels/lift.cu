// Gradients as cuBLAS multiplies them: lifted by their largest number (planes.cuh) and
// rounded to fp16, without gaps. With them what brings products down again, and 1.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"
#include "planes.cuh"

extern "C" __global__ void lift_f32(
	half* y,               // [rows, n]
	float* scalars,        // [2]
	const float* x,        // [rows, n], rows ldx elements apart
	const float* largest,  // [1]
	int rows, long long n, long long ldx) {
	after_previous();
	float up = lift_of(largest);
	if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) scalars[0] = 1 / up, scalars[1] = 1;
	int64 i = first8();
	if (i >= n) return;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float v[8];
		load8(v, x + r * ldx, i, n);
#pragma unroll
		for (int j = 0; j < 8; j++) v[j] *= up;
		store8(y + r * n, v, i, n);
	}
}
