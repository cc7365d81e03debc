// What blocks that run at the same time leave for each other in memory: words that are zero
// until somebody has left something, and that their only reader clears. So a reader waits for
// nothing but what it reads, and not for the end of a kernel.
#pragma once

#include "half.cuh"
#include "rows.cuh"

constexpr int attending_warps = 4;      // of a block that attends
constexpr int attending_columns = 128;  // of a head that one of them has at most: two share heads of more

// attending returns how many blocks attend to a row, of at most some: as many as find a round of
// their warps, or more, a power of two, as is `most`, so that lanes join parts (join_words.cuh).
__device__ inline int attending(int pos, int window, int most, int dim) {
	Span span(max(pos, 0), window);
	int chunks = span.chunks_end() - span.chunk(), units = dim > attending_columns ? attending_warps / 2 : attending_warps, blocks = (chunks + units - 1) / units;
	return min(most, blocks <= 1 ? 1 : 1 << (32 - __clz(blocks - 1)));
}

// Leaving is how products of q, k and v are left for the blocks that attend to rows: of a head
// of keys its queries for each of `most` blocks, and the new key and value, of dim, for each of the
// sets that its queries are divided into, which have blocks of their own.
struct Leaving {
	unsigned* words;  // [rows, heads of keys, most·queries + sets·2·dim], or null
	const int* pos;   // [rows]
	int queries, dim, most, window;
	int sets, words_a_row;

	__device__ int readers(int position) const { return attending(position, window, most, dim); }  // of queries of a row
	__device__ int stride() const { return most * queries + sets * 2 * dim; }
	__device__ unsigned* head(int row, int i) const { return words + row * words_a_row + (int64)i * stride(); }
	__device__ unsigned* newest(int row, int i) const { return head(row, i) + most * queries; }
	// column returns where a column of a row of q, k or v is left for the first block, or set. Those of others are apart() from each other.
	__device__ unsigned* column(int row, int matrix, int c) const {
		int width = matrix == 0 ? queries : dim, i = (unsigned)c / (unsigned)width;
		return (matrix == 0 ? head(row, i) : newest(row, i) + (matrix - 1) * dim) + (c - i * width);
	}
	__device__ int apart(int matrix) const { return matrix == 0 ? queries : 2 * dim; }
};

// leave leaves a number in a word.
__device__ inline void leave(unsigned* to, half v) {
	asm volatile("st.relaxed.gpu.global.u32 [%0], %1;" ::"l"(to), "r"(__half_as_ushort(v) | 0x10000u) : "memory");
}

// look_at reads what others may be writing.
template <class T>
__device__ inline T look_at(const T* p) {
	static_assert(sizeof(T) == 4, "words");
	T v;
	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(v) : "l"(p) : "memory");
	return v;
}

// take waits for n numbers, and clears their words.
template <int n>
__device__ inline void take(half (&v)[n], unsigned* const (&at)[n]) {
	unsigned w[n], all;
	do {
		all = 0x10000;
#pragma unroll
		for (int i = 0; i < n; i++) w[i] = look_at(at[i]);
#pragma unroll
		for (int i = 0; i < n; i++) all &= w[i];
	} while (all == 0);
#pragma unroll
	for (int i = 0; i < n; i++) v[i] = __ushort_as_half((unsigned short)w[i]), *at[i] = 0;
	__syncwarp();
}
