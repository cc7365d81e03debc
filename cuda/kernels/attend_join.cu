// attend_join joins what has been found of parts of rows' keys (Found, attend_found.cuh): a thread two columns of a row and
// head.
#include "attend.cuh"
#include "order.cuh"

constexpr int threads = 256;

extern "C" __global__ void __launch_bounds__(threads) attend_join(
	half* y,             // [rows, heads·dim], rows ldy elements apart
	const float* sums,   // [rows, heads, parts, dim]
	const float* stats,  // [rows, heads, parts, 2]
	const float* sinks,  // [heads] or null: one more score of each row, whose value is zero
	int rows, int heads, int dim, int parts, int64 ldy) {
	after_previous();
	int pairs = dim / 2, i = blockIdx.x * threads + threadIdx.x, at = i / pairs, column = i % pairs * 2, row = at / heads, head = at % heads;
	if (row >= rows) return;
	const float2* found = (const float2*)stats + (int64)at * parts;
	const float* of = sums + (int64)at * parts * dim + column;
	float top = sinks ? sinks[head] * log2e : found[0].x, weight = 0, v[2] = {};
	for (int p = 0; p < parts; p++) top = fmaxf(top, found[p].x);
	if (sinks) weight = exp2f(sinks[head] * log2e - top);
	for (int p = 0; p < parts; p++) {
		float2 part = found[p], values = *(const float2*)(of + (int64)p * dim);
		float shrink = exp2f(part.x - top);
		weight += part.y * shrink, v[0] += values.x * shrink, v[1] += values.y * shrink;
	}
	half* to = y + row * ldy + head * dim + column;
	to[0] = __float2half_rn(v[0] / weight), to[1] = __float2half_rn(v[1] / weight);
}
