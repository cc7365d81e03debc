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

// Inverse is one of a list, the largest first; quantize_inverse.go has the same struct.
struct Inverse {
	float *s, *t;     // [128, width]
	float* x;         // X [128, 128]
	float* scratch;   // [128, 132], or null for shared memory
	half *xs, *z;     // planes, two, lifted by 8
	float* u;         // [k, k]
	const float* h;   // [k, k]
	int* ok;          // [1]
	int64 plane;      // halves from one plane of z to the next
	int k, width, tiles, unused;  // tiles of z in a row
};

// inverse_strip begins S with the rows of a, zeros left of the diagonal. Past the end
// of the matrix a is the identity.
extern "C" __global__ void inverse_strip(const void* list, float damp, int row) {
	after_previous();
	const Inverse& item = ((const Inverse*)list)[blockIdx.z];
	const float* h = item.h;
	int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x, k = item.k;
	if (row == 0 && r == 0 && c == 0) *item.ok = 1;
	if (c >= item.width) return;
	float v = row + r == c;
	if (c < row) v = 0;
	if (c >= row && row + r < k && c < k) {
		int64 i = k - 1 - row - r, j = k - 1 - c;
		float x = h[i * k + j] + (i == j ? damp : 0);
		v = x / (root_of(h[i * k + i] + damp) * root_of(h[j * k + j] + damp));
	}
	item.s[(int64)r * item.width + c] = v;
}

constexpr int panel = 16, pitch = strip + 4;
constexpr int diagonal_threads = 1024, panel_threads = 2 * strip;  // of the block, and those that make a panel

// A pivot, which begins between 1 and 4, is lost in rounding under this.
constexpr float least_pivot = 4e-7f;

// The strip's diagonal block becomes R, and with it, by the same steps, the identity
// becomes Y = R⁻ᵀ. Both lie in a: R above the diagonal, Y below it; what is on Y's
// diagonal are the reciprocals.
struct alignas(16) Exchange {
	float pivot[panel], row[panel][panel];
	float y[panel][panel];  // of the panel at hand, its diagonal and zeros included
	float reciprocal[strip];
};

// panel_arrives waits for all that make a panel.
__device__ inline void panel_arrives() { asm volatile("bar.sync 1, %0;" ::"n"(panel_threads) : "memory"); }

// factor_panel makes rows p to p+15 of R and Y: a thread for each column, those of R
// first.
__device__ void factor_panel(float* a, Exchange& x, int p, int* ok) {
	bool right = threadIdx.x < strip;
	int j = threadIdx.x % strip, in = j - p;
	float c[panel];
#pragma unroll
	for (int q = 0; q < panel; q++) c[q] = right || in < 0 ? a[(p + q) * pitch + j] : q == in;
#pragma unroll
	for (int q = 0; q < panel; q++) {
		if (right && in == q) {
			bool good = c[q] > least_pivot && c[q] < 1e30f;
			if (!good) *ok = 0;
			float v = good ? c[q] : 1, r = rsqrtf(v);
			x.reciprocal[j] = x.pivot[q] = r * (1.5f - 0.5f * v * r * r);
		}
		panel_arrives();
		c[q] *= x.pivot[q];
		if (right && in > q && in < panel) x.row[q][in] = c[q];
		panel_arrives();
#pragma unroll
		for (int i = 0; i < panel; i++)
			if (i > q) c[i] -= x.row[q][i] * c[q];
	}
#pragma unroll
	for (int q = 0; q < panel; q++) {
		if (right ? in >= q : in < q) a[(p + q) * pitch + j] = c[q];
		if (!right && in >= 0 && in < panel) x.y[q][in] = c[q];
	}
}

// update subtracts what rows p to p+15 of R and Y contribute to the rows after them,
// in squares of 4 x 4, a warp four rows at a time. Below the diagonal of a square on it is nothing.
__device__ void update(float* a, const Exchange& x, int p) {
	int first = p + panel, side = (strip - first) / 4;
	for (int t = threadIdx.x; t < side * (strip / 4); t += diagonal_threads) {
		int i0 = first + t / (strip / 4) * 4, j0 = t % (strip / 4) * 4;
		if (j0 >= first && j0 < i0) continue;
		const float* from = j0 >= p && j0 < first ? &x.y[0][j0 - p] : a + p * pitch + j0;
		int step = j0 >= p && j0 < first ? panel : pitch;
		float sum[4][4] = {};
#pragma unroll 4
		for (int q = 0; q < panel; q++) {
			float4 u = *(const float4*)(a + (p + q) * pitch + i0), v = *(const float4*)(from + q * step);
			float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
			for (int e = 0; e < 16; e++) sum[e / 4][e % 4] += us[e / 4] * vs[e % 4];
		}
#pragma unroll
		for (int i = 0; i < 4; i++) {
			float4* to = (float4*)(a + (i0 + i) * pitch + j0);
			float4 v = *to;
			*to = make_float4(v.x - sum[i][0], v.y - sum[i][1], v.z - sum[i][2], v.w - sum[i][3]);
		}
	}
	__syncthreads();
}

// inverse_diagonal makes X, zeros below the diagonal, and planes of it, of the square on
// the diagonal, which begins at the given column of S. A block each.
extern "C" __global__ void __launch_bounds__(diagonal_threads) inverse_diagonal(const void* list, int row) {
	extern __shared__ float4 memory[];
	__shared__ Exchange exchange;
	after_previous();
	const Inverse& item = ((const Inverse*)list)[blockIdx.x];
	float *a = item.scratch ? item.scratch : (float*)memory, *x = item.x;
	const float* s = item.s + row;
	half* planes = item.xs;
	int width = item.width;
#pragma unroll
	for (int t = threadIdx.x; t < strip * strip; t += diagonal_threads) {
		int i = t / strip, j = t % strip;
		a[i * pitch + j] = i <= j ? s[(int64)i * width + j] : 0;
	}
	__syncthreads();
	for (int p = 0; p < strip; p += panel) {
		if (threadIdx.x < panel_threads) factor_panel(a, exchange, p, item.ok);
		__syncthreads();
		update(a, exchange, p);
	}
	constexpr int tiles = strip / tile_cols, plane = strip / tile_rows * tiles * tile_halves;
	for (int t = threadIdx.x; t < strip * strip; t += diagonal_threads) {
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
extern "C" __global__ void inverse_store(const void* list, float damp, int row) {
	after_previous();
	const Inverse& item = ((const Inverse*)list)[blockIdx.z];
	int r = blockIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x, k = item.k;
	if (c >= item.width) return;
	const float* h = item.h;
	float v = item.t[(int64)r * item.width + c];
	if (c >= row && c < row + strip) v = item.x[(c - row) * strip + r];
	Pair p(v * eight);
	int64 at = place_of(row + r, c, item.tiles);
	item.z[at] = p.high;
	item.z[item.plane + at] = p.low;
	if (row + r >= k || c >= k) return;
	int64 i = k - 1 - row - r, j = k - 1 - c;
	float y = c > row + r ? 0 : v / root_of(h[j * k + j] + damp);
	if (!(fabsf(y) < 3e38f)) *item.ok = 0;
	item.u[i * k + j] = y;
}
