// Rotation (rope.cu) and storing (store.cu) in one: queries turn in place, turned keys
// and the values go to their pages.
//
// A block a row, or some heads of a row, those of q, k and v one after the other. A
// thread takes eight pairs, or eight other elements, of a head at a time: pairs and
// dimensions are multiples of eight, rows begin at 16 bytes. Elements (i, i+pairs) are a
// pair.
#include "fault.cuh"
#include "half.cuh"
#include "order.cuh"
#include "rope.cuh"

constexpr int threads = 256;

// turn8 turns eight pairs.
__device__ inline void turn8(half* to, const half* from, int pairs, const float2* turns) {
	Eight<half> a, b;
	a.words[0] = *(const uint4*)from, b.words[0] = *(const uint4*)(from + pairs);
#pragma unroll
	for (int j = 0; j < 8; j++) {
		float2 t = turns[j];
		float u = widen(a.v[j]), v = widen(b.v[j]);
		narrow(a.v[j], u * t.x - v * t.y);
		narrow(b.v[j], v * t.x + u * t.y);
	}
	*(uint4*)to = a.words[0], *(uint4*)(to + pairs) = b.words[0];
}

extern "C" __global__ void __launch_bounds__(threads) rope_store_f16(
	half* q,             // [rows, q_heads·dim], rows ldq elements apart
	const half* k,       // [rows, kv_heads·dim], ldk
	const half* v,       // likewise, ldv
	half* k_pages,       // [pages·page_rows, kv_heads·dim]
	half* v_pages,       // likewise
	const float* freqs,  // [pairs]
	const int* pos,      // [rows]
	const int* seq,      // [rows]
	const int* table,    // [sequences, table_cols]
	int* fault,
	int q_heads, int kv_heads, int dim, int pairs, int sequences, int table_cols, int pages, int page_rows,
	int64 ldq, int64 ldk, int64 ldv, float scale) {
	extern __shared__ float2 turns[];  // [pairs]
	after_previous();
	int row = blockIdx.x, p = pos[row], s = seq[row], page = -1;
	if (s >= 0 && s < sequences && p >= 0 && p / page_rows < table_cols) page = table[s * table_cols + p / page_rows];
	bool there = page >= 0 && page < pages;
	if (!there && threadIdx.x == 0 && blockIdx.y == 0) report(fault, position_fault, p, table_cols * page_rows);
	for (int i = threadIdx.x; i < pairs; i += threads) {
		float2 t = turn((double)p * (double)freqs[i]);
		turns[i] = make_float2(t.x * scale, t.y * scale);
	}
	__syncthreads();
	int64 to = ((int64)page * page_rows + p % page_rows) * kv_heads * dim;
	q += row * ldq, k += row * ldk, v += row * ldv;
	int all = q_heads + 2 * kv_heads, share = (all + gridDim.y - 1) / gridDim.y, first = blockIdx.y * share;
	int turning = pairs / 8, chunks = turning + (dim - 2 * pairs) / 8, most = dim / 8;
	for (int i = threadIdx.x; i < min(share, all - first) * most; i += threads) {
		int head = first + i / most, c = i % most;
		int own = head < q_heads ? head : (head - q_heads) % kv_heads;
		bool of_q = head < q_heads, of_k = !of_q && head < q_heads + kv_heads;
		const half* from = (of_q ? q : of_k ? k : v) + own * dim;
		half* at = of_q ? q + own * dim : (of_k ? k_pages : v_pages) + to + own * dim;
		if (!of_q && !there) continue;
		if (!of_q && !of_k)
			*(uint4*)(at + c * 8) = *(const uint4*)(from + c * 8);
		else if (c < turning)
			turn8(at + c * 8, from + c * 8, pairs, turns + c * 8);
		else if (c < chunks && of_k)
			*(uint4*)(at + (c + turning) * 8) = *(const uint4*)(from + (c + turning) * 8);
	}
}
