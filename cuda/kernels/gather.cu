// Rows in another order: y[i] = x[rows[i]]. A block a row.
#include "half.cuh"
#include "order.cuh"

template <class T>
__device__ void gather(
	T* y,             // [gridDim.x, cols], rows ldy elements apart
	const T* x,       // rows ldx elements apart
	const int* rows,  // [gridDim.x]
	int cols, int64 ldy, int64 ldx) {
	after_previous();
	T* to = y + blockIdx.x * ldy;
	const T* from = x + rows[blockIdx.x] * ldx;
	for (int i = threadIdx.x * elements; i < cols; i += blockDim.x * elements) {
		if (whole(to, i, cols) && whole(from, i, cols)) {
			for (int j = 0; j < sizeof(T) / 2; j++) ((uint4*)(to + i))[j] = ((const uint4*)(from + i))[j];
		} else {
			for (int j = i; j < min(i + elements, cols); j++) to[j] = from[j];
		}
	}
}

extern "C" __global__ void gather_f16(half* y, const half* x, const int* rows, int cols, int64 ldy, int64 ldx) {
	gather(y, x, rows, cols, ldy, ldx);
}

extern "C" __global__ void gather_f32(float* y, const float* x, const int* rows, int cols, int64 ldy, int64 ldx) {
	gather(y, x, rows, cols, ldy, ldx);
}
