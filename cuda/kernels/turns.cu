// What products of prompts need to turn queries and keys, and to store keys and values
// (gemm_tiles.cu): the cosine and the sine, times scale, of every row's position and every
// frequency, and where in the pages a row goes.
#include "fault.cuh"
#include "half.cuh"
#include "order.cuh"
#include "rope.cuh"

constexpr int threads = 128;

extern "C" __global__ void __launch_bounds__(threads) turns_f32(
	float* turns,        // [rows, 2·pairs]: cosine and sine by turns
	int* places,         // [rows], -1 for nowhere
	const float* freqs,  // [pairs]
	const int* pos,      // [rows]
	const int* seq,      // [rows]
	const int* table,    // [sequences, table_cols]
	int* fault,
	int rows, int pairs, int sequences, int table_cols, int pages, int page_rows, float scale) {
	after_previous();
	int i = blockIdx.x * threads + threadIdx.x, row = i / pairs, pair = i % pairs;
	if (row >= rows) return;
	int p = pos[row];
	float2 t = turn((double)p * (double)freqs[pair]);
	((float2*)turns)[i] = make_float2(t.x * scale, t.y * scale);
	if (pair > 0) return;
	int s = seq[row], page = -1;
	if (s >= 0 && s < sequences && p >= 0 && p / page_rows < table_cols) page = table[s * table_cols + p / page_rows];
	bool there = page >= 0 && page < pages;
	if (!there) report(fault, position_fault, p, table_cols * page_rows);
	places[row] = there ? page * page_rows + p % page_rows : -1;
}
