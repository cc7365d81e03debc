// The triangular factor U of an inverse, UᵀU = (h + damp)⁻¹, in one sweep over strips
// of 128 rows of the reversed matrix a = J·(D·(h+damp)·D)·J, with D powers of two that
// bring the diagonal to between 1 and 4 and J the reversal of order.
//
// With RᵀR = a, R upper triangular, and Y = R⁻ᵀ, U is J·Y·J·D. For each strip,
//
//	S = a's rows - Σ Rᵀ·R to the right of the diagonal, -Σ Rᵀ·Y to the left
//	RᵀR = S on the diagonal, X = R⁻¹            (inverse_diagonal)
//	R = Xᵀ·S to the right, Y = Xᵀ·S to the left, Y = Xᵀ on the diagonal
//
// where sums are products (product.cuh) over the strips before it. z, in two planes,
// holds R right of the diagonal, and Y from the diagonal on to the left.
#include "order.cuh"
#include "scaled.cuh"

constexpr int strip = 128;

// inverse_strip begins S with the rows of a, zeros left of the diagonal. Past the end
// of the matrix a is the identity.
extern "C" __global__ void inverse_strip(
	float* s,         // [128, width]
	int* ok,          // [1]: 1 to begin with
	const float* h,   // [k, k]
	float damp, int row, int k, int width) {
	after_previous();
	int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
	if (row == 0 && r == 0 && c == 0) *ok = 1;
	if (c >= width) return;
	float v = row + r == c;
	if (c < row) v = 0;
	if (c >= row && row + r < k && c < k) {
		int64 i = k - 1 - row - r, j = k - 1 - c;
		float x = h[i * k + j] + (i == j ? damp : 0);
		v = x / (root_of(h[i * k + i] + damp) * root_of(h[j * k + j] + damp));
	}
	s[(int64)r * width + c] = v;
}

constexpr int panel = 16, threads = 256, pitch = strip + 1;

// A pivot, which begins between 1 and 4, is lost in rounding under this.
constexpr float least_pivot = 4e-7f;

struct Exchange {
	float pivot[panel], row[panel][panel];
	float reciprocal[strip];
};

// factor_panel makes rows p to p+15 of R, a thread for each column.
__device__ void factor_panel(float* a, Exchange& x, int p, int* ok) {
	int j = threadIdx.x;
	float c[panel];
	if (j < strip)
#pragma unroll
		for (int q = 0; q < panel; q++) c[q] = a[(p + q) * pitch + j];
#pragma unroll
	for (int q = 0; q < panel; q++) {
		if (j == p + q) {
			bool good = c[q] > least_pivot && c[q] < 1e30f;
			if (!good) *ok = 0;
			x.reciprocal[j] = x.pivot[q] = 1 / sqrtf(good ? c[q] : 1);
		}
		__syncthreads();
		c[q] *= x.pivot[q];
		if (j > p + q && j < p + panel) x.row[q][j - p] = c[q];
		__syncthreads();
#pragma unroll
		for (int i = 0; i < panel; i++)
			if (i > q) c[i] -= x.row[q][i] * c[q];
	}
	if (j >= p && j < strip)
#pragma unroll
		for (int q = 0; q < panel; q++)
			if (j >= p + q) a[(p + q) * pitch + j] = c[q];
	__syncthreads();
}

// update subtracts what rows p to p+15 of R contribute to the rows after them.
__device__ void update(float* a, int p) {
	int first = p + panel, side = (strip - first) / 4;
	for (int t = threadIdx.x; t < side * side; t += threads) {
		int i0 = first + t / side * 4, j0 = first + t % side * 4;
		if (i0 > j0) continue;
		float sum[4][4] = {};
		for (int q = p; q < first; q++) {
			float u[4], v[4];
#pragma unroll
			for (int e = 0; e < 4; e++) u[e] = a[q * pitch + i0 + e], v[e] = a[q * pitch + j0 + e];
#pragma unroll
			for (int e = 0; e < 16; e++) sum[e / 4][e % 4] += u[e / 4] * v[e % 4];
		}
#pragma unroll
		for (int e = 0; e < 16; e++) a[(i0 + e / 4) * pitch + j0 + e % 4] -= sum[e / 4][e % 4];
	}
	__syncthreads();
}

// invert stores X[m, j], for m < j, in a[j, m], a thread for each column, by rows from
// the last up. X[j, j] is the reciprocal.
__device__ void invert(float* a, const Exchange& x) {
	int j = threadIdx.x;
	if (j >= strip) return;
	for (int i = j - 1; i >= 0; i--) {
		const float* r = a + i * pitch;
		float* mine = a + j * pitch;
		float sum[4] = {r[j] * x.reciprocal[j]};
		int m = i + 1;
		for (; m + 4 <= j; m += 4)
#pragma unroll
			for (int e = 0; e < 4; e++) sum[e] += r[m + e] * mine[m + e];
		for (; m < j; m++) sum[0] += r[m] * mine[m];
		mine[i] = -((sum[0] + sum[1]) + (sum[2] + sum[3])) * x.reciprocal[i];
	}
}

extern "C" __global__ void __launch_bounds__(threads) inverse_diagonal(
	float* x,        // X [128, 128], zeros below the diagonal
	half* planes,    // of X, two, lifted by 8
	int* ok,
	const float* s,  // the strip from the diagonal on
	float* scratch,  // [128, 129], or null for shared memory
	int width) {
	extern __shared__ float memory[];
	__shared__ Exchange exchange;
	after_previous();
	float* a = scratch ? scratch : memory;
	for (int i = threadIdx.x; i < strip * strip; i += threads) a[i / strip * pitch + i % strip] = s[(int64)(i / strip) * width + i % strip];
	__syncthreads();
	for (int p = 0; p < strip; p += panel) {
		factor_panel(a, exchange, p, ok);
		update(a, p);
	}
	invert(a, exchange);
	__syncthreads();
	constexpr int tiles = strip / tile_cols, plane = strip / tile_rows * tiles * tile_halves;
	for (int t = threadIdx.x; t < strip * strip; t += threads) {
		int i = t / strip, j = t % strip;
		float v = i < j ? a[j * pitch + i] : i == j ? exchange.reciprocal[i] : 0;
		x[t] = v;
		Pair p(v * eight);
		int64 at = place_of(i, j, tiles);
		planes[at] = p.high;
		planes[plane + at] = p.low;
	}
}

// inverse_store stores a strip of R and Y, Xᵀ·S in t, in z, and Y in u.
extern "C" __global__ void inverse_store(
	half* z,         // two planes, lifted by 8
	float* u,        // [k, k]
	int* ok,
	const float* t,  // [128, width]
	const float* x,  // X [128, 128]
	const float* h, float damp, int row, int k, int width, int tiles, long long plane) {
	after_previous();
	int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
	if (c >= width) return;
	float v = t[(int64)r * width + c];
	if (c >= row && c < row + strip) v = x[(c - row) * strip + r];
	Pair p(v * eight);
	int64 at = place_of(row + r, c, tiles);
	z[at] = p.high;
	z[plane + at] = p.low;
	if (row + r >= k || c >= k) return;
	int64 i = k - 1 - row - r, j = k - 1 - c;
	float y = c > row + r ? 0 : v / root_of(h[j * k + j] + damp);
	if (!(fabsf(y) < 3e38f)) *ok = 0;
	u[i * k + j] = y;
}
