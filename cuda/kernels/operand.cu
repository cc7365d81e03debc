// Operands of products (planes.cuh) from matrices.
//
// operand_largest finds the largest magnitude, by which numbers are lifted.
// operand_f16 stores a matrix [k, m] of fp16 as it is in one plane, operand_f32 one
// of float32 in two, operand_turned_f32 its transpose. By default numbers are
// lifted by the largest; with by_diagonal row i is divided by the power of two at
// or under x[i, i] and lifted by 2^5: triangular factors, whose rows then begin with
// numbers near 32. With by_root element (i, j) is divided by the powers of two near
// the roots of x[i, i] and x[j, j] and lifted likewise: second moments. With by_eight
// numbers are lifted by 8.
//
// What is past the end of the matrix is zeros, up to whole tiles. A thread eight
// columns of a row.
#include "order.cuh"
#include "planes.cuh"
#include "scaled.cuh"

// Operand is one of a list; quantize_product.go has the same struct.
struct Operand {
	half* planes;    // two
	const float* x;  // [k, m]
	float* largest;
	int64 plane;
	int k, m, stride, tiles, how, unused;
};

__device__ void raise(float* largest, const float* x, int rows, int cols, int stride) {
	__shared__ unsigned most_here;
	if (threadIdx.x == 0) most_here = 0;
	__syncthreads();
	float most = 0;
	bool whole = ((size_t)x % 16 | stride % 4 | cols % 4) == 0;
	for (int r = blockIdx.x; r < rows; r += gridDim.x) {
		const float* row = x + (int64)r * stride;
		for (int c = threadIdx.x * 4; whole && c < cols; c += blockDim.x * 4) {
			float4 v = *(const float4*)(row + c);
			most = fmaxf(fmaxf(most, fmaxf(fabsf(v.x), fabsf(v.y))), fmaxf(fabsf(v.z), fabsf(v.w)));
		}
		for (int c = threadIdx.x; !whole && c < cols; c += blockDim.x) most = fmaxf(most, fabsf(row[c]));
	}
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
	if (threadIdx.x % 32 == 0) atomicMax(&most_here, __float_as_uint(most));
	__syncthreads();
	if (threadIdx.x == 0) atomicMax((unsigned*)largest, most_here);
}

extern "C" __global__ void operand_largest(
	float* largest,  // [1], zero or more before
	const float* x,  // [rows, cols]
	int rows, int cols, int stride) {
	after_previous();
	raise(largest, x, rows, cols, stride);
}

extern "C" __global__ void operand_largest_each(const void* list) {
	after_previous();
	const Operand& o = ((const Operand*)list)[blockIdx.y];
	raise(o.largest, o.x, o.k, o.m, o.stride);
}

// padded returns the rows of planes of k: whole pairs of tiles.
__device__ inline int padded(int k) { return (k + 2 * tile_rows - 1) / (2 * tile_rows) * 2 * tile_rows; }

extern "C" __global__ void operand_f16(
	half* planes,   // one
	const half* x,  // [k, m]
	int k, int m, int stride, int tiles) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x, across = tiles * tile_cols / 8, row = i / across, column = i % across * 8;
	if (row >= padded(k)) return;
	Eight<half> v;
	const half* from = x + (int64)row * stride + column;
	if (row < k && column + 8 <= m && (size_t)from % 16 == 0) {
		v.words[0] = *(const uint4*)from;
	} else {
#pragma unroll
		for (int j = 0; j < 8; j++) v.v[j] = row < k && column + j < m ? from[j] : __float2half(0);
	}
	*(uint4*)(planes + place_of(row, column, tiles)) = v.words[0];
}

// put8 stores eight numbers in both planes.
__device__ inline void put8(half* planes, int64 plane, int64 at, const float (&v)[8]) {
	Eight<half> high, low;
#pragma unroll
	for (int j = 0; j < 8; j++) {
		Pair p(v[j]);
		high.v[j] = p.high, low.v[j] = p.low;
	}
	*(uint4*)(planes + at) = high.words[0];
	*(uint4*)(planes + plane + at) = low.words[0];
}

__device__ inline void split(const Operand& o) {
	int i = blockIdx.x * blockDim.x + threadIdx.x, across = o.tiles * tile_cols / 8, row = i / across, column = i % across * 8;
	if (row >= padded(o.k)) return;
	const float* x = o.x;
	int k = o.k, m = o.m, how = o.how;
	float lift = how == by_largest ? lift_of(o.largest) : how == by_eight ? eight : row < k ? row_lift(how, x[(int64)row * o.stride + row]) : 1;
	float v[8];
#pragma unroll
	for (int j = 0; j < 8; j++) {
		int c = column + j;
		v[j] = row < k && c < m ? x[(int64)row * o.stride + c] * lift : 0;
		if (how == by_root && row < k && c < m) v[j] *= 1 / root_of(x[(int64)c * o.stride + c]);
	}
	put8(o.planes, o.plane, place_of(row, column, o.tiles), v);
}

extern "C" __global__ void operand_f32(
	half* planes,    // two
	const float* x,  // [k, m]
	float* largest, int how, int k, int m, int stride, int tiles, long long plane) {
	after_previous();
	split(Operand{planes, x, largest, plane, k, m, stride, tiles, how, 0});
}

extern "C" __global__ void operand_f32_each(const void* list) {
	after_previous();
	split(((const Operand*)list)[blockIdx.y]);
}

extern "C" __global__ void operand_turned_f32(
	half* planes,    // two, of xᵀ [k, m]
	const float* x,  // [m, k]
	const float* largest, int how, int k, int m, int stride, int tiles, long long plane) {
	__shared__ float turned[tile_rows][tile_cols + 1];
	after_previous();
	int row0 = blockIdx.y * tile_rows, column0 = blockIdx.x * tile_cols;
	float lift = how == by_largest ? lift_of(largest) : 1;
	for (int i = threadIdx.x; i < tile_halves; i += blockDim.x) {
		int r = row0 + i % tile_rows, c = column0 + i / tile_rows;
		bool there = r < k && c < m;
		turned[i % tile_rows][i / tile_rows] = there ? x[(int64)c * stride + r] * (how == by_largest ? lift : row_lift(how, x[(int64)c * stride + c])) : 0;
	}
	__syncthreads();
	for (int i = threadIdx.x; i < tile_halves / 8; i += blockDim.x) {
		float v[8];
#pragma unroll
		for (int j = 0; j < 8; j++) v[j] = turned[i / 8][i % 8 * 8 + j];
		put8(planes, plane, place_of(row0 + i / 8, column0 + i % 8 * 8, tiles), v);
	}
}

// operand_squares stores the squares of the powers of two by which rows were divided
// by_diagonal, over what they were lifted by.
extern "C" __global__ void operand_squares(
	float* rows,     // [k]
	const float* x,  // [k, k]
	int k) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= k) return;
	float step = step_of(x[(int64)i * k + i]);
	rows[i] = step / diagonal_lift * step;
}
