// Gates of heads: y = act(gate)·x, a gate for each head of a row.
//
// Eight elements a thread; y may be x.
#include "gates.cuh"
#include "half.cuh"
#include "order.cuh"

template <class Act>
__device__ void head_gates(
	half* y,           // [rows, n], rows ldy elements apart
	const half* x,     // [rows, n], ldx
	const half* gate,  // [rows, n / dim], ldg
	int rows, int64 n, int dim, int64 ldy, int64 ldx, int64 ldg) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	int head = i / dim, rest = dim - i % dim;  // elements of that head from i on
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float v[8];
		load8(v, x + r * ldx, i, n);
		const half* g = gate + r * ldg + head;
		float factor = Act::of(widen(*g));
		for (int j = 0, left = rest; j < 8 && i + j < n; j++, left--) {
			if (left == 0) factor = Act::of(widen(*++g)), left = dim;
			v[j] *= factor;
		}
		store8(y + r * ldy, v, i, n);
	}
}

#define HEAD_GATES(name, Act)                                                                      \
	extern "C" __global__ void name(half* y, const half* x, const half* gate, int rows, int64 n,   \
	                                int dim, int64 ldy, int64 ldx, int64 ldg) {                    \
		head_gates<Act>(y, x, gate, rows, n, dim, ldy, ldx, ldg);                                  \
	}

HEAD_GATES(head_gates_sigmoid_f16, Logistic)
HEAD_GATES(head_gates_softplus_f16, Softplus)
