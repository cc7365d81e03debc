// Quantizes the rows of a group in turn. Names end in the algorithm:
//
//	gptq_rows_round    GPTQ: a weight becomes the nearest code, and its error over
//	                   f[i, i] takes its place
//	gptq_rows_descend  coordinate descent: a code becomes the best one given what is
//	                   left, and the change of the weight takes the place of that
//
// What takes a row's place reaches the rows of the group after it, each by
// x[j] -= f[i, j]·x[i], rounded after every operation in the order of the CPU. The
// errors that are left, of the rows over f[i, i] or of the weights, become operands
// (planes.cuh): rows times the powers of two by which f's were divided.
//
// A thread a column, 32 rows at a time in registers.
#include "coding.cuh"
#include "order.cuh"
#include "scaled.cuh"

constexpr int part = 32;

enum Algorithm { rounding, descent };

// Shared is the factor of 32 rows for as many, [i][j] or turned.
struct Shared {
	float4 f[part][part / 4 + 1];
	float reciprocal[part], lift[part];

	__device__ float& at(int i, int j) { return ((float*)&f[i])[j]; }

	// load reads f[row+i, column+j] for i, j under 32, by blocks of 32 or 64 threads.
	__device__ void load(const float* factor, int k, int row, int column, bool turned) {
		constexpr int fours = part * part / 4, batch = 4;
#pragma unroll 1
		for (int first = threadIdx.x; first < fours; first += batch * blockDim.x) {
			float4 v[batch];
#pragma unroll
			for (int e = 0; e < batch; e++) {
				int t = first + e * blockDim.x;
				v[e] = *(const float4*)(factor + (int64)(row + t / (part / 4)) * k + column + t % (part / 4) * 4);
			}
#pragma unroll
			for (int e = 0; e < batch; e++) {
				int t = first + e * blockDim.x, i = t / (part / 4), j = t % (part / 4);
				if (turned)
					at(4 * j, i) = v[e].x, at(4 * j + 1, i) = v[e].y, at(4 * j + 2, i) = v[e].z, at(4 * j + 3, i) = v[e].w;
				else
					f[i][j] = v[e];
			}
		}
	}
};

// Column is a thread's column of 32 rows of a group.
template <Algorithm algorithm>
struct Column {
	Grid grid;
	float lift;
	unsigned char* code;
	const float* w;
	half *high, *low;  // row 0 of its eight columns' chunk 0
	int n, chunk;
	double loss;

	__device__ Column(const Step& s, int column)
		: grid(scale_of(s.scales[column], *s.largest), s.bits), lift(lift_of(s.most)), n(s.n), chunk(column / 8 % 8), loss(0) {}

	// begin turns to the rows from the given one on.
	__device__ void begin(const Step& s, int column, int from) {
		code = s.codes + (int64)from * n + column;
		w = s.w + (int64)from * n + column;
		high = s.planes + ((int64)((s.row + from) / tile_rows) * s.tiles + column / tile_cols) * tile_halves + column % 8;
		low = high + s.plane;
	}

	// row quantizes row i, of which x is left, and returns what takes its place.
	__device__ float row(int i, float x, const Shared& shared) {
		float q, out, left;
		if (algorithm == rounding) {
			q = grid.nearest(x);
			left = out = __fmul_rn(__fsub_rn(x, grid.value(q)), shared.reciprocal[i]);
			loss += (double)out * out;
		} else {
			float old = grid.value(*code - grid.zero);
			q = grid.nearest(__fadd_rn(old, __fmul_rn(x, shared.reciprocal[i])));
			out = __fsub_rn(grid.value(q), old);
			left = *w - grid.value(q);
			w += n;
		}
		*code = (unsigned char)(q + grid.zero);
		code += n;
		Pair p(left * shared.lift[i] * lift);
		int at = i * tile_cols + (chunk ^ i % 8) * 8;
		high[at] = p.high;
		low[at] = p.low;
		return out;
	}
};

// pass subtracts what 32 rows contribute to some rows after them.
constexpr int together = 16;

__device__ inline void pass(float* panel, int64 n, const Shared& shared, const float (&x)[part], int row) {
	float y[together];
#pragma unroll
	for (int j = 0; j < together; j++) y[j] = panel[(row + j) * n];
#pragma unroll
	for (int i = 0; i < part / 4; i++)
#pragma unroll
		for (int j = 0; j < together; j++) {
			float4 f = shared.f[row + j][i];
			y[j] = __fsub_rn(y[j], __fmul_rn(f.x, x[4 * i]));
			y[j] = __fsub_rn(y[j], __fmul_rn(f.y, x[4 * i + 1]));
			y[j] = __fsub_rn(y[j], __fmul_rn(f.z, x[4 * i + 2]));
			y[j] = __fsub_rn(y[j], __fmul_rn(f.w, x[4 * i + 3]));
		}
#pragma unroll
	for (int j = 0; j < together; j++) panel[(row + j) * n] = y[j];
}

template <Algorithm algorithm>
__device__ void quantize(const Step& s, const float* factor, int k) {
	__shared__ Shared shared;
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	bool mine = column < s.n;
	Column<algorithm> c(s, mine ? column : 0);
	float* panel = s.panel + (int64)s.before * s.n + (mine ? column : 0);
	for (int from = 0; from < s.rows; from += part) {
		__syncthreads();
		shared.load(factor, k, s.row + from, s.row + from, false);
		if (threadIdx.x < part) {
			int i = s.row + from + threadIdx.x;
			float diagonal = factor[(int64)i * k + i];
			shared.reciprocal[threadIdx.x] = __frcp_rn(diagonal);
			shared.lift[threadIdx.x] = algorithm == rounding ? step_of(diagonal) : root_of(diagonal);
		}
		__syncthreads();
		float x[part];
		if (mine) {
#pragma unroll
			for (int i = 0; i < part; i++) x[i] = panel[(int64)(from + i) * s.n];
			c.begin(s, column, from);
#pragma unroll
			for (int i = 0; i < part; i++) {
				x[i] = c.row(i, x[i], shared);
#pragma unroll
				for (int j = 0; j < part; j++)
					if (j > i) x[j] = __fsub_rn(x[j], __fmul_rn(shared.at(i, j), x[i]));
				panel[(int64)(from + i) * s.n] = x[i];
			}
		}
		for (int to = from + part; to < s.rows; to += part) {
			__syncthreads();
			shared.load(factor, k, s.row + from, s.row + to, true);
			__syncthreads();
			if (!mine) continue;
#pragma unroll 1
			for (int j = 0; j < part; j += together) pass(panel + (int64)to * s.n, s.n, shared, x, j);
		}
	}
	if (algorithm != rounding) return;
	double sum = mine ? c.loss : 0;
	for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0u, sum, step);
	if (mine && threadIdx.x % 32 == 0) s.loss[column / 32] += sum;
}

#define ROWS(name, algorithm)                                                                              \
	extern "C" __global__ void __launch_bounds__(64, 8) name(const void* list, const float* factor, int k) { \
		after_previous();                                                                                  \
		const Step s = ((const Step*)list)[blockIdx.y];                                                    \
		if (blockIdx.x * (int)blockDim.x >= s.n) return;                                                   \
		if (blockIdx.x == 0 && threadIdx.x == 0) *s.top = 0;                                               \
		quantize<algorithm>(s, factor, k);                                                                 \
	}

ROWS(gptq_rows_round, rounding)
ROWS(gptq_rows_descend, descent)
