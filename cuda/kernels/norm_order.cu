// A norm (norm.cu) of rows, whose columns come out in another order: column i is perm[i]
// of the norm.
//
// Blocks stay, and take so many rows at a time, which are copied to shared memory ahead, and go
// back there as those of permute.cu do. Names end in those rows. Products that read it are
// Hopper's (gemm_tiles.cu), so it is.
#include "columns_beside.cuh"
#include "norm.cuh"
#include "order.cuh"
#include "ring.cuh"

constexpr int threads = 512, stages = 2;
static_assert(stages > 1, "rows are copied while others are in work");

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Rows are those that a block has at a time. The first columns of a thread stay in registers.
template <int R>
struct Rows {
	static constexpr int kept = 4 / R;
	const float* x;  // [R, cols] in shared memory
	float4 first[kept][R];
	int cols;

	__device__ float4 at(int r, int c) const { return *(const float4*)(x + r * cols + c); }

	__device__ void load() {
#pragma unroll
		for (int i = 0; i < kept; i++)
#pragma unroll
			for (int r = 0; r < R; r++) {
				int c = (i * threads + threadIdx.x) * 4;
				first[i][r] = c < cols ? at(r, c) : make_float4(0, 0, 0, 0);
			}
	}

	// each calls f with every four columns that a thread has, and their number if they are kept.
	template <class F>
	__device__ void each(F f) const {
#pragma unroll
		for (int i = 0; i < kept; i++) {
			int c = (i * threads + threadIdx.x) * 4;
			if (c < cols) f(c, i, first[i]);
		}
		for (int c = (kept * threads + threadIdx.x) * 4; c < cols; c += threads * 4) {
			float4 v[R];
#pragma unroll
			for (int r = 0; r < R; r++) v[r] = at(r, c);
			f(c, kept, v);
		}
	}

	// means returns the mean of what of returns for every row and element.
	template <class Of>
	__device__ void means(float (&mean)[R], Of of) const {
		__shared__ float parts[R][32];
		float own[R] = {};
		each([&](int, int, const float4 (&v)[R]) {
#pragma unroll
			for (int r = 0; r < R; r++) own[r] += (of(r, v[r].x) + of(r, v[r].y)) + (of(r, v[r].z) + of(r, v[r].w));
		});
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#pragma unroll
		for (int r = 0; r < R; r++) own[r] = warp_sum(own[r]);
		__syncthreads();  // the call before may still be reading parts
		if (lane == 0)
#pragma unroll
			for (int r = 0; r < R; r++) parts[r][warp] = own[r];
		__syncthreads();
#pragma unroll
		for (int r = 0; r < R; r++) mean[r] = warp_sum(lane < threads / 32 ? parts[r][lane] : 0) / cols;
	}
};

template <Kind kind, int R>
__device__ inline void norm_order(
	half* y,            // [rows, cols]
	const float* src,   // [rows, cols], rows ldx elements apart, each at 16 bytes
	const float* w,     // [cols], at 16 bytes
	const float* bias,  // likewise, or null
	const half* order,  // [cols]: perm, 16-bit numbers, at 16 bytes
	int rows,
	int cols,  // a multiple of 8
	int64 ldx, float eps, float offset) {
	extern __shared__ uint4 memory[];  // [stages][R, cols] float, [cols] Column
	__shared__ u64 full[stages];
	float* stage = (float*)memory;
	Column<R>* m = (Column<R>*)(stage + stages * R * cols);
	int at = threadIdx.x * 8;
	Shorts places(order, min(at, cols - 8));  // what no kernel writes is read before the wait
	float4 weights[Rows<R>::kept];
#pragma unroll
	for (int i = 0; i < Rows<R>::kept; i++) weights[i] = *(const float4*)(w + min((i * threads + (int)threadIdx.x) * 4, cols - 4));
	if (threadIdx.x == 0) {
		for (int s = 0; s < stages; s++) barrier_init(&full[s], 1);
		barriers_ready();
	}
	__syncthreads();
	after_previous();
	auto bring = [&](int first, int s) {  // the last rows may be there again
		if (first >= rows) return;
		barrier_expect(&full[s], R * cols * sizeof(float));
		for (int r = 0; r < R; r++) copy_bulk(stage + (s * R + r) * cols, src + min(first + r, rows - 1) * ldx, cols * sizeof(float), &full[s]);
	};
	int step = gridDim.x * R;
	if (threadIdx.x == 0)
		for (int s = 0; s < stages; s++) bring(blockIdx.x * R + s * step, s);
	Ring<stages> ring;
	Rows<R> all;
	all.cols = cols;
	for (int first = blockIdx.x * R; first < rows; first += step, ring.next()) {
		barrier_wait(&full[ring.at], ring.parity);
		all.x = stage + ring.at * R * cols;
		all.load();
		Centre mean[R];
		float inverse[R];
#pragma unroll
		for (int r = 0; r < R; r++) mean[r] = {kind == layer ? all.x[r * cols] : 0, 0};
		if (kind == layer) {
			float rest[R];
			all.means(rest, [&](int r, float v) { return mean[r](v); });
#pragma unroll
			for (int r = 0; r < R; r++) mean[r].rest = rest[r];
		}
		all.means(inverse, [&](int r, float v) { return mean[r](v) * mean[r](v); });
#pragma unroll
		for (int r = 0; r < R; r++) inverse[r] = 1 / sqrtf(inverse[r] + eps);
		all.each([&](int c, int i, const float4 (&v)[R]) {
			float4 weight = i < Rows<R>::kept ? weights[i] : *(const float4*)(w + c), shift = bias ? *(const float4*)(bias + c) : make_float4(0, 0, 0, 0);
			Column<R> out[4];
#pragma unroll
			for (int r = 0; r < R; r++) {
				narrow(out[0].v[r], mean[r](v[r].x) * inverse[r] * (weight.x + offset) + shift.x);
				narrow(out[1].v[r], mean[r](v[r].y) * inverse[r] * (weight.y + offset) + shift.y);
				narrow(out[2].v[r], mean[r](v[r].z) * inverse[r] * (weight.z + offset) + shift.z);
				narrow(out[3].v[r], mean[r](v[r].w) * inverse[r] * (weight.w + offset) + shift.w);
			}
			put_columns(m + c, out);
		});
		__syncthreads();
		if (threadIdx.x == 0) bring(first + stages * step, ring.at);
		for (int i = at; i < cols; i += threads * 8) gather_columns(y + (int64)first * cols, m, i == at ? places : Shorts(order, i), i, min(R, rows - first) - 1, cols);
	}
}

#else

template <Kind kind, int R>
__device__ inline void norm_order(half*, const float*, const float*, const float*, const half*, int, int, int64, float, float) {}

#endif

#define NORM_ORDER(name, kind, R)                                                                   \
	extern "C" __global__ void __launch_bounds__(threads, 2)                                            \
	name(half* y, const float* x, const float* w, const float* bias, const half* order, int rows,   \
	     int cols, int64 ldx, float eps, float offset) {                                            \
		norm_order<kind, R>(y, x, w, bias, order, rows, cols, ldx, eps, offset);                     \
	}

NORM_ORDER(norm_order_rms_2, rms, 2)
NORM_ORDER(norm_order_rms_1, rms, 1)
NORM_ORDER(norm_order_layer_2, layer, 2)
NORM_ORDER(norm_order_layer_1, layer, 1)
