// Gradients as operands of products (planes.cuh): a matrix [rows, cols] of float32,
// lifted by its largest number and rounded to fp16, in one plane as it is and, if
// asked for, in one turned. What is past the end of the matrix is zeros, up to whole
// pairs of tiles.
//
// A block has 64 rows and columns.
#include "order.cuh"
#include "planes.cuh"

constexpr int threads = 256, side = 64;
constexpr int width = side + 2;  // so that eight rows begin in different banks

extern "C" __global__ void __launch_bounds__(threads) operand_halves(
	half* plain,           // of x [rows, cols]
	half* turned,          // of xᵀ, or null
	const float* x,
	const float* largest,  // [1]
	int rows, int cols, int stride, int plain_tiles, int turned_tiles) {
	__shared__ half tile[side][width];
	after_previous();
	int row0 = blockIdx.y * side, column0 = blockIdx.x * side;
	float lift = lift_of(largest);
	for (int i = threadIdx.x; i < side * side; i += threads) {
		int r = row0 + i / side, c = column0 + i % side;
		tile[i / side][i % side] = __float2half_rn(r < rows && c < cols ? x[(int64)r * stride + c] * lift : 0);
	}
	__syncthreads();
	for (int i = threadIdx.x; i < side * side / 8; i += threads) {
		Eight<half> v;
#pragma unroll
		for (int j = 0; j < 8; j++) v.v[j] = tile[i / 8][i % 8 * 8 + j];
		*(uint4*)(plain + place_of(row0 + i / 8, column0 + i % 8 * 8, plain_tiles)) = v.words[0];
		if (!turned) continue;
#pragma unroll
		for (int j = 0; j < 8; j++) v.v[j] = tile[i % 8 * 8 + j][i / 8];
		*(uint4*)(turned + place_of(column0 + i / 8, row0 + i % 8 * 8, turned_tiles)) = v.words[0];
	}
}
