// What a sublayer gives joins the stream: x = then·(x + times·norm(y)), where the norm, that of rows by their root mean square,
// may be absent.
//
// Of few rows a block has some columns of one, sums the squares of all of y for itself, as nobody else need be waited for then, and leaves x
// for the products that read it next (link.cuh): times the weights of their norm, with its squares, or, where they read the stream as it
// is, as it is, in fp16. One block for a row would store what is left, of which each element goes to a place of its own, at the rate of
// one multiprocessor. Of many rows a block has one, and nothing is left.
#include "half.cuh"
#include "link.cuh"
#include "order.cuh"

constexpr int threads = 256;

// squares_of returns the sum of the squares of a row that are the thread's.
template <class Y>
__device__ inline float squares_of(const Y* y, int cols) {
	float sum = 0;
#pragma unroll 4
	for (int c = threadIdx.x * elements; c < cols; c += threads * elements) {
		float v[8];
		load8(v, y, c, cols);
#pragma unroll
		for (int j = 0; j < 8; j++) sum += v[j] * v[j];
	}
	return sum;
}

template <class Y>
__device__ inline void sum_few(float* x, const Y* y, const float* weights, const Link& link, int cols, int64 ldx, int64 ldy, float eps, float offset, float times, float then) {
	int row = blockIdx.y, c = blockIdx.x * threads + threadIdx.x;
	bool there = c < cols, leaves = link.left, normed = link.scale;
	float weight = weights && there ? weights[c] + offset : 1;
	Linked to;
	if (leaves && there) to = Linked(link.places[c], normed ? link.scale[c] + link.offset : 1, 1);
	after_previous();
	if (normed && link.powers) to.power = read_square(link.powers + row);
	x += row * ldx, y += row * ldy;
	float old = there ? x[c] : 0, own = there ? widen(y[c]) : 0;
	float factor = weights ? times * rsqrtf(block_sum(squares_of(y, cols)) / cols + eps) : times;
	float v = then * (old + factor * own * weight);
	if (there) {
		x[c] = v;
		if (leaves) leave(link, to, row, v);
	}
	if (leaves && normed) leave_squares(link, to.power, c / 32, row, there ? v * v : 0);
}

// Two are outputs of a sublayer that are normalized, each with weights of its own, before they are added.
struct Two {
	const float* y;
	const half* z;
	const float *weights, *z_weights;
	float eps, offset;
	float factor, z_factor;

	// settle finds the factors of the norms.
	__device__ void settle(int cols) {
		factor = rsqrtf(block_sum(squares_of(y, cols)) / cols + eps), z_factor = rsqrtf(block_sum(squares_of(z, cols)) / cols + eps);
	}
	__device__ float operator[](int c) const { return y[c] * factor * (weights[c] + offset) + widen(z[c]) * z_factor * (z_weights[c] + offset); }
};

// Of two outputs, as sum_few.
extern "C" __global__ void __launch_bounds__(threads) sum_stream_two(
	float* x, const float* y, const half* z, const float* y_weights, const float* z_weights, const float* weights, half* left, float* left_squares, const float* left_powers, const half* left_places,
	const float* left_scale, int cols, int64 ldx, int64 ldy, int64 ldz, float own_eps, float own_offset, float eps, float offset, float times, float then, float left_offset) {
	Link link = {nullptr, (float*)left_powers, left, left_squares, left_places, left_scale, left_offset, 0, 0, cols};
	int row = blockIdx.y, c = blockIdx.x * threads + threadIdx.x;
	bool there = c < cols, leaves = left, normed = left_scale;
	Linked to;
	if (leaves && there) to = Linked(left_places[c], normed ? left_scale[c] + left_offset : 1, 1);
	after_previous();
	if (normed && left_powers) to.power = read_square(left_powers + row);
	x += row * ldx;
	Two two = {y + row * ldy, z + row * ldz, y_weights, z_weights, own_eps, own_offset};
	two.settle(cols);
	float square = 0;
#pragma unroll 4
	for (int i = threadIdx.x; i < cols; i += threads) {
		float v = two[i];
		square += v * v;
	}
	float factor = weights ? times * rsqrtf(block_sum(square) / cols + eps) : times, v = 0;
	if (there) {
		x[c] = v = then * (x[c] + factor * two[c] * (weights ? weights[c] + offset : 1));
		if (leaves) leave(link, to, row, v);
	}
	if (leaves && normed) leave_squares(link, to.power, c / 32, row, v * v);
}

template <class Y>
__device__ inline void sum_many(float* x, const Y* y, const float* weights, int cols, int64 ldx, int64 ldy, float eps, float offset, float times, float then) {
	after_previous();
	x += blockIdx.x * ldx, y += blockIdx.x * ldy;
	float factor = weights ? times * rsqrtf(block_sum(squares_of(y, cols)) / cols + eps) : times;
	for (int c = threadIdx.x * elements; c < cols; c += threads * elements) {
		float v[8], old[8], weight[8];
		load8(v, y, c, cols), load8(old, x, c, cols);
		if (weights) load8(weight, weights, c, cols);
#pragma unroll
		for (int j = 0; j < 8; j++) old[j] = then * (old[j] + factor * v[j] * (weights ? weight[j] + offset : 1));
		store8(x, old, c, cols);
	}
}

// Names end in the type of y.
#define SUM_STREAM(type, Y)                                                                                                                                                  \
	extern "C" __global__ void __launch_bounds__(threads) sum_stream_##type(                                                                                                    \
		float* x, const Y* y, const float* weights, half* left, float* left_squares, const float* left_powers, const half* left_places, const float* left_scale, int cols,       \
		int64 ldx, int64 ldy, float eps, float offset, float times, float then, float left_offset) {                                                                         \
		sum_few(x, y, weights, {nullptr, (float*)left_powers, left, left_squares, left_places, left_scale, left_offset, 0, 0, cols}, cols, ldx, ldy, eps, offset, times, then); \
	}                                                                                                                                                                        \
	extern "C" __global__ void __launch_bounds__(threads) sum_stream_many_##type(                                                                                                   \
		float* x, const Y* y, const float* weights, int cols, int64 ldx, int64 ldy, float eps, float offset, float times, float then) {                                       \
		sum_many(x, y, weights, cols, ldx, ldy, eps, offset, times, then);                                                                                                   \
	}

SUM_STREAM(f16, half)
SUM_STREAM(f32, float)
