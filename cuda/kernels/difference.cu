// How far one stream is from another: y = a - b, fp16. Names end in the type of a and
// b. What fp16 cannot hold becomes its largest.
//
// Eight elements a thread.
#include "half.cuh"
#include "order.cuh"

template <class X>
__device__ void difference(
	half* y,     // [rows, n], rows ldy elements apart
	const X* a,  // [rows, n], lda
	const X* b,  // [rows, n], ldb
	int rows, int64 n, int64 ldy, int64 lda, int64 ldb) {
	after_previous();
	int64 i = first8();
	if (i >= n) return;
	constexpr float most = 65504;
	for (int64 r = blockIdx.y; r < rows; r += gridDim.y) {
		float v[8], w[8];
		load8(v, a + r * lda, i, n);
		load8(w, b + r * ldb, i, n);
		for (int j = 0; j < 8; j++) {
			v[j] -= w[j];
			if (v[j] == v[j]) v[j] = fminf(fmaxf(v[j], -most), most);
		}
		store8(y + r * ldy, v, i, n);
	}
}

#define DIFFERENCE(name, X)                                                                          \
	extern "C" __global__ void name(half* y, const X* a, const X* b, int rows, int64 n, int64 ldy, \
	                                int64 lda, int64 ldb) {                                          \
		difference(y, a, b, rows, n, ldy, lda, ldb);                                                 \
	}

DIFFERENCE(difference_f16, half)
DIFFERENCE(difference_f32, float)
