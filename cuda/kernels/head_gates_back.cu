// The gradient of gates of heads (head_gates.cu): dx += dy·act(gate), and
// dgate += act'(gate)·Σ dy·x of the head.
//
// A warp a head of a row.
#include "half.cuh"
#include "order.cuh"
#include "reduce.cuh"
#include "slope.cuh"

constexpr int threads = 256;

template <class Act>
__device__ void head_gates_back(
	float* dx,         // [rows, heads·dim], rows lddx elements apart
	float* dgate,      // [rows, heads], lddg
	const float* dy,   // [rows, heads·dim], ldy
	const half* x,     // [rows, heads·dim], ldx
	const half* gate,  // [rows, heads], ldg
	int rows, int heads, int dim, int64 lddx, int64 lddg, int64 ldy, int64 ldx, int64 ldg) {
	after_previous();
	int lane = threadIdx.x % 32;
	int64 all = ((int64)blockIdx.x * threads + threadIdx.x) / 32;
	int64 row = all / heads, head = all % heads;
	if (row >= rows) return;
	dx += row * lddx + head * dim, dy += row * ldy + head * dim, x += row * ldx + head * dim;
	Slope s = Act::at(widen(gate[row * ldg + head]));
	float sum = 0;
	for (int c = lane; c < dim; c += 32) {
		float d = dy[c];
		dx[c] += d * s.value;
		sum += d * widen(x[c]);
	}
	sum = warp_sum(sum);
	if (lane == 0) dgate[row * lddg + head] += sum * s.slope;
}

#define HEAD_GATES_BACK(name, Act)                                                                        \
	extern "C" __global__ void __launch_bounds__(threads)                                                 \
		name(float* dx, float* dgate, const float* dy, const half* x, const half* gate, int rows,         \
	         int heads, int dim, int64 lddx, int64 lddg, int64 ldy, int64 ldx, int64 ldg) {               \
		head_gates_back<Act>(dx, dgate, dy, x, gate, rows, heads, dim, lddx, lddg, ldy, ldx, ldg);        \
	}

HEAD_GATES_BACK(head_gates_back_sigmoid, Logistic)
HEAD_GATES_BACK(head_gates_back_softplus, Softplus)
