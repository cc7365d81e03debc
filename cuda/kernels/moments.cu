// Moments of columns: what errors of two outputs of a linear cost together.
//
// moments_by_norms is y[r] = norm of x[r] · dy[r]. The others join moments of two halves of
// some tokens: moments_own has what columns have by themselves, moments_rows, for every
// column, what both halves agree on with those of its span, moments_share what that makes
// of all, and moments_store the joined moments in fp16. Sums are in float64, in an order
// that depends on nothing but sizes.
#include "half.cuh"
#include "order.cuh"

constexpr int threads = 256;

// Span is columns that are next to each other, of both halves; quantize_moments.go has
// the same struct.
struct Span {
	const float *a, *b;  // [side, side]
	int first, side;
};

__device__ inline double block_sum(double v) {
	__shared__ double parts[32];
	int lane = threadIdx.x % 32, warps = blockDim.x / 32;
	for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
	__syncthreads();
	if (lane == 0) parts[threadIdx.x / 32] = v;
	__syncthreads();
	v = lane < warps ? parts[lane] : 0;
	for (int step = 16; step > 0; step /= 2) v += __shfl_xor_sync(~0u, v, step);
	return v;
}

template <class X>
__device__ void by_norms(float* y, const float* dy, const X* x, int n, int cols, int y_stride, int dy_stride, int x_stride) {
	after_previous();
	const X* from = x + (int64)blockIdx.x * x_stride;
	double sum = 0;
	for (int c = threadIdx.x; c < cols; c += threads) sum += (double)widen(from[c]) * widen(from[c]);
	float norm = (float)sqrt(block_sum(sum));
	for (int c = threadIdx.x; c < n; c += threads) y[(int64)blockIdx.x * y_stride + c] = norm * dy[(int64)blockIdx.x * dy_stride + c];
}

extern "C" __global__ void __launch_bounds__(threads) moments_by_norms_f16(
	float* y, const float* dy, const half* x, int n, int cols, int y_stride, int dy_stride, int x_stride) {
	by_norms(y, dy, x, n, cols, y_stride, dy_stride, x_stride);
}

extern "C" __global__ void __launch_bounds__(threads) moments_by_norms_f32(
	float* y, const float* dy, const float* x, int n, int cols, int y_stride, int dy_stride, int x_stride) {
	by_norms(y, dy, x, n, cols, y_stride, dy_stride, x_stride);
}

extern "C" __global__ void __launch_bounds__(threads) moments_own(
	double* own,  // [n]: of both halves
	const void* list) {
	after_previous();
	const Span s = ((const Span*)list)[blockIdx.y];
	int i = blockIdx.x * threads + threadIdx.x;
	if (i >= s.side) return;
	int64 at = (int64)i * (s.side + 1);
	own[s.first + i] = (double)s.a[at] + (double)s.b[at];
}

extern "C" __global__ void __launch_bounds__(threads) moments_rows(
	double* sums,  // [2, n]: products of both halves, squares of their mean
	const double* own, const void* list, int n) {
	after_previous();
	const Span s = ((const Span*)list)[blockIdx.y];
	int i = blockIdx.x;
	if (i >= s.side) return;
	double both = 0, all = 0, mine = own[s.first + i];
	for (int j = threadIdx.x; j < s.side; j += threads) {
		double size = mine * own[s.first + j], a = s.a[(int64)i * s.side + j], b = s.b[(int64)i * s.side + j];
		if (j == i || !(size > 0)) continue;
		both += a * b / size, all += (a + b) * (a + b) / 4 / size;
	}
	both = block_sum(both), all = block_sum(all);
	if (threadIdx.x == 0) sums[s.first + i] = both, sums[n + s.first + i] = all;
}

// moments_share stores the share of the sum that is kept off the diagonal, and the sum of
// the diagonal. One block.
extern "C" __global__ void __launch_bounds__(threads) moments_share(
	double* share,  // [2]
	const double* sums, const void* list, int spans, int n) {
	after_previous();
	double both = 0, all = 0, diagonal = 0;
	for (int i = threadIdx.x; i < n; i += threads) both += sums[i], all += sums[n + i];
	for (int t = 0; t < spans; t++) {
		const Span s = ((const Span*)list)[t];
		for (int i = threadIdx.x; i < s.side; i += threads) diagonal += s.a[(int64)i * (s.side + 1)] + s.b[(int64)i * (s.side + 1)];
	}
	both = block_sum(both), all = block_sum(all), diagonal = block_sum(diagonal);
	if (threadIdx.x) return;
	share[0] = both > 0 ? (float)fmin(both / all, 1.0) : 0;
	share[1] = diagonal > 0 ? diagonal : n;
}

extern "C" __global__ void __launch_bounds__(threads) moments_store(
	half* joined,  // [n, wide]
	const double* share, const void* list, int n, int wide) {
	after_previous();
	const Span s = ((const Span*)list)[blockIdx.y];
	int i = blockIdx.x;
	if (i >= s.side) return;
	float kept = (float)share[0];
	for (int j = threadIdx.x; j < wide; j += threads) {
		float v = 0;
		if (j < s.side) {
			v = s.a[(int64)i * s.side + j] + s.b[(int64)i * s.side + j];
			if (j != i) v *= kept;
			double scaled = (double)v / share[1] * n;
			v = (float)(scaled > 65504 ? 65504 : scaled);
		}
		joined[(int64)(s.first + i) * wide + j] = __float2half_rn(v);
	}
}
