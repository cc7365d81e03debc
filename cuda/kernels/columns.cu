// Columns of matrices that are improved by themselves, and what columns behind them make
// up for.
//
// columns_take brings a block's targets, codes and scales to a matrix of their own.
// columns_errors puts codes back, and leaves what is left of each weight, turned, for the
// product that changes the targets behind, with its largest magnitude. columns_invert
// makes the negative inverse, turned, of squares on a diagonal, in float64.
#include "coding.cuh"
#include "order.cuh"

constexpr int threads = 256, most_columns = 64;
constexpr int taken = 16, part = 32;  // rows of a block of threads

// Block is one of a list; quantize_columns.go has the same struct.
struct Block {
	float* w;                             // [k, n]
	const float* target;                  // [k, m], from the block's first column on
	unsigned char *codes, *scales;        // [k, n], [groups, n]
	unsigned char *of_codes, *of_scales;  // [k, wide], [groups, wide]
	const int* cols;                      // [n]
	float* turned;                        // [n, k], or null
	float* most;                          // [1]
	int k, n, m, wide, groups, unused;
};

// Group is a group of a block; quantize_columns.go has the same struct.
struct Group {
	const half* largest;
	int block, index, row, rows, bits, unused;
};

extern "C" __global__ void __launch_bounds__(threads) columns_take(const void* list) {
	after_previous();
	const Block b = ((const Block*)list)[blockIdx.y];
	int column = threadIdx.x % most_columns;
	if (column >= b.n) return;
	int from = b.cols[column];
	for (int i = threadIdx.x / most_columns; i < taken; i += threads / most_columns) {
		int row = blockIdx.x * taken + i, group = row - b.k;
		if (row < b.k) {
			b.w[(int64)row * b.n + column] = b.target[(int64)row * b.m + column];
			b.codes[(int64)row * b.n + column] = b.of_codes[(int64)row * b.wide + from];
		} else if (group < b.groups) {
			b.scales[(int64)group * b.n + column] = b.of_scales[(int64)group * b.wide + from];
		}
	}
}

extern "C" __global__ void __launch_bounds__(threads) columns_errors(const void* list, const void* groups) {
	__shared__ float tile[most_columns][part + 1];
	__shared__ unsigned most_here;
	if (threadIdx.x == 0) most_here = 0;
	after_previous();
	const Group g = ((const Group*)groups)[blockIdx.y];
	const Block b = ((const Block*)list)[g.block];
	int first = blockIdx.x * part, column = threadIdx.x % most_columns, lane = threadIdx.x % 32;
	if (first >= g.rows) return;
	if (column < b.n) {
		Grid grid(scale_of(b.scales[(int64)g.index * b.n + column], *g.largest), g.bits);
		int to = b.cols[column];
		for (int i = threadIdx.x / most_columns; i < part && first + i < g.rows; i += threads / most_columns) {
			int64 row = g.row + first + i, at = row * b.n + column;
			unsigned char code = b.codes[at];
			b.of_codes[row * b.wide + to] = code;
			tile[column][i] = b.w[at] - grid.value(code - grid.zero);
		}
	}
	if (!b.turned) return;
	__syncthreads();
	float most = 0;
	for (int c = threadIdx.x / 32; c < b.n && first + lane < g.rows; c += threads / 32) {
		float v = tile[c][lane];
		b.turned[(int64)c * b.k + g.row + first + lane] = v;
		most = fmaxf(most, fabsf(v));
	}
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
	if (lane == 0) atomicMax(&most_here, __float_as_uint(most));
	__syncthreads();
	if (threadIdx.x == 0) atomicMax((unsigned*)b.most, most_here);
}

// Square is one of a list; quantize_columns.go has the same struct.
struct Square {
	const float* u;  // [n, n], upper triangular
	float* inverse;  // [n, n]: row i has column i of the inverse, negative
	int64 stride;    // of u
	int n, unused;
};

// columns_invert has a block of threads for each square, a thread for each column of the
// inverse.
extern "C" __global__ void __launch_bounds__(most_columns) columns_invert(const void* list) {
	__shared__ double x[most_columns][most_columns + 1];
	after_previous();
	const Square s = ((const Square*)list)[blockIdx.x];
	int j = threadIdx.x;
	if (j >= s.n) return;
	for (int i = s.n - 1; i >= 0; i--) {
		double v = i == j;
		for (int at = i + 1; at <= j; at++) v = __dsub_rn(v, __dmul_rn((double)s.u[i * s.stride + at], x[j][at]));
		if (i <= j) x[j][i] = v = __ddiv_rn(v, (double)s.u[i * s.stride + i]);
		s.inverse[j * s.n + i] = i <= j ? -(float)v : 0;
	}
}
