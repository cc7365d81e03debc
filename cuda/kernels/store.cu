// Keys and values into their pages: row r goes to position pos[r] of sequence
// seq[r], which is in page table[seq, pos/page_rows].
//
// A block a row. A position without a page is a fault.
#include "fault.cuh"
#include "half.cuh"
#include "order.cuh"

__device__ inline void copy_row(half* dst, const half* src, int cols) {
	for (int c = threadIdx.x * 8; c < cols; c += blockDim.x * 8) {
		float v[8];
		load8(v, src, c, cols);
		store8(dst, v, c, cols);
	}
}

extern "C" __global__ void store_f16(
	half* k_pages,     // [pages·page_rows, cols]
	half* v_pages,     // likewise, or null: there are no values
	const half* k,     // [rows, cols], rows ldk elements apart
	const half* v,     // [rows, cols], rows ldv elements apart
	const int* pos,    // [rows]
	const int* seq,    // [rows]
	const int* table,  // [sequences, table_cols]
	int* fault,
	int cols, int sequences, int table_cols, int pages, int page_rows, int64 ldk, int64 ldv) {
	after_previous();
	int row = blockIdx.x, p = pos[row], s = seq[row], page = -1;
	if (s >= 0 && s < sequences && p >= 0 && p / page_rows < table_cols) page = table[s * table_cols + p / page_rows];
	if (page < 0 || page >= pages) {
		if (threadIdx.x == 0) report(fault, position_fault, p, table_cols * page_rows);
		return;
	}
	int64 to = ((int64)page * page_rows + p % page_rows) * cols;
	copy_row(k_pages + to, k + row * ldk, cols);
	if (v_pages) copy_row(v_pages + to, v + row * ldv, cols);
}
