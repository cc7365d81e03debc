// Gated convolutions of each column (models/lfm2/modeling_lfm2.py): y = c·(shift + Σ w[i]·u[t-kernel+1+i]) with u = b·x.
//
// short_conv: a thread a column of some rows of a run; where that is all of the run, it leaves the last u, too. short_conv_keep does
// that of longer ones. short_conv_back_sums and short_conv_back_inputs are gradients of whole sequences, a thread an element.
#include "fault.cuh"
#include "half.cuh"
#include "order.cuh"

constexpr int threads = 256;
constexpr int rows_of_thread = 16;
constexpr int most_kernel = 16;  // positions

// Inputs are b and x, rows apart by so many elements, of a column.
struct Inputs {
	const half *b, *x;
	int64 ldb, ldx;
	__device__ Inputs at(int64 row, int column) const { return {b + row * ldb + column, x + row * ldx + column, ldb, ldx}; }
	__device__ float operator[](int row) const { return __half2float(b[row * ldb]) * __half2float(x[row * ldx]); }
};

// Last are the inputs of a column behind which one goes on, oldest first.
struct Last {
	float u[most_kernel - 1];
	int count;

	// It reads those in front of a run's row, of what its sequence has left or of the run.
	__device__ Last(const Inputs& in, const float* left, bool begins, int row, int count, int cols) : count(count) {
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++) {
			if (i >= count) break;
			int at = row - count + i;
			u[i] = at >= 0 ? in[at] : begins ? 0 : left[(int64)(count + at) * cols];
		}
	}

	// sum adds up what is weighed, now being the row's own input, which becomes the last.
	__device__ float sum(const float* w, float now) {
		float y = w[count] * now;
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++) {
			if (i >= count) break;
			y += w[i] * u[i];
			u[i] = i + 1 < count ? u[min(i + 1, most_kernel - 2)] : now;
		}
		return y;
	}

	__device__ void leave(float* left, int cols) const {
#pragma unroll
		for (int i = 0; i < most_kernel - 1; i++)
			if (i < count) left[(int64)i * cols] = u[i];
	}
};

extern "C" __global__ void __launch_bounds__(threads) short_conv(
	half* y,             // [rows, cols], rows ldy elements apart
	const half* b,       // likewise, ldb
	const half* c,       // likewise, ldg
	const half* x,       // likewise, ldx
	float* left,         // [sequences, (kernel-1)·cols], or null
	const float* conv,   // [cols, kernel]
	const float* shift,  // [cols], or null
	const int* pos, const int* seq, int* fault,
	int sequences, int cols, int kernel, int span, int64 ldy, int64 ldb, int64 ldg, int64 ldx) {
	after_previous();
	int column = blockIdx.x * threads + threadIdx.x, first = blockIdx.z * span, from = blockIdx.y * rows_of_thread, sequence = seq[first];
	if (column >= cols) return;
	if (sequence < 0 || sequence >= sequences) {
		if (threadIdx.x == 0) report(fault, position_fault, sequence, sequences);
		return;
	}
	if (left) left += (int64)sequence * (kernel - 1) * cols + column;
	Inputs in = Inputs{b, x, ldb, ldx}.at(first, column);
	Last last(in, left, pos[first] == 0, from, kernel - 1, cols);
	y += first * ldy + column, c += first * ldg + column;
	float more = shift ? shift[column] : 0;
	for (int t = from; t < min(from + rows_of_thread, span); t++) y[t * ldy] = __float2half_rn(__half2float(c[t * ldg]) * (more + last.sum(conv + column * kernel, in[t])));
	if (left && span <= rows_of_thread) last.leave(left, cols);
}

extern "C" __global__ void __launch_bounds__(threads) short_conv_keep(
	float* left, const half* b, const half* x, const int* seq, int sequences, int cols, int kernel, int span, int64 ldb, int64 ldx) {
	after_previous();
	int column = blockIdx.x * threads + threadIdx.x, first = blockIdx.z * span, sequence = seq[first];
	if (column >= cols || sequence < 0 || sequence >= sequences) return;  // short_conv has said so
	left += (int64)sequence * (kernel - 1) * cols + column;
	Last(Inputs{b, x, ldb, ldx}.at(first, column), left, false, span, kernel - 1, cols).leave(left, cols);
}

extern "C" __global__ void __launch_bounds__(threads) short_conv_back_sums(
	float* dc,           // [rows, cols], rows lddg elements apart: added to
	float* room,         // likewise, ldr: the gradients of sums
	const float* dy,     // likewise, lddy
	const half* b, const half* c, const half* x, const float* conv, const float* shift,
	int rows, int cols, int kernel, int span, int64 lddg, int64 ldr, int64 lddy, int64 ldb, int64 ldg, int64 ldx) {
	after_previous();
	int64 all = (int64)blockIdx.x * threads + threadIdx.x;
	int row = all / cols, column = all % cols, first = row / span * span;
	if (row >= rows) return;
	Inputs in = Inputs{b, x, ldb, ldx}.at(0, column);
	float sum = shift ? shift[column] : 0, d = dy[row * lddy + column];
	for (int i = 0; i < kernel; i++)
		if (int at = row - kernel + 1 + i; at >= first) sum += conv[column * kernel + i] * in[at];
	dc[row * lddg + column] += d * sum;
	room[row * ldr + column] = d * __half2float(c[row * ldg + column]);
}

extern "C" __global__ void __launch_bounds__(threads) short_conv_back_inputs(
	float* db, float* dx,  // [rows, cols], lddb and lddx: added to
	const float* room, const half* b, const half* x, const float* conv,
	int rows, int cols, int kernel, int span, int64 lddb, int64 lddx, int64 ldr, int64 ldb, int64 ldx) {
	after_previous();
	int64 all = (int64)blockIdx.x * threads + threadIdx.x;
	int row = all / cols, column = all % cols, end = (row / span + 1) * span;
	if (row >= rows) return;
	float du = 0;
	for (int i = 0; i < kernel; i++)
		if (int behind = row + kernel - 1 - i; behind < end) du += conv[column * kernel + i] * room[behind * ldr + column];
	db[row * lddb + column] += du * __half2float(x[row * ldx + column]);
	dx[row * lddx + column] += du * __half2float(b[row * ldb + column]);
}
