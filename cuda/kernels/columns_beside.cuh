// Some rows in shared memory, the elements of a column side by side: one look-up finds
// them all.
#pragma once

#include "half.cuh"

template <int R>
struct alignas(2 * R) Column {
	half v[R];
};

// put_columns stores columns that follow each other, 16 bytes at a time, neighbouring lanes
// in turned order: to different banks.
template <int R, int n>
__device__ inline void put_columns(Column<R>* to, const Column<R> (&columns)[n]) {
	constexpr int count = n * R / 8;
	if constexpr (count == 0) {
#pragma unroll
		for (int i = 0; i < n; i++) to[i] = columns[i];
	} else {
		uint4 v[count];
#pragma unroll
		for (int i = 0; i < count; i++) v[i] = ((const uint4*)columns)[i];
		int turn = threadIdx.x % 32 * count / 8 % count;
#pragma unroll
		for (int bit = 1; bit < count; bit *= 2) {
			uint4 turned[count];
#pragma unroll
			for (int i = 0; i < count; i++) turned[i] = turn & bit ? v[(i + bit) % count] : v[i];
#pragma unroll
			for (int i = 0; i < count; i++) v[i] = turned[i];
		}
#pragma unroll
		for (int i = 0; i < count; i++) ((uint4*)to)[(i + turn) % count] = v[i];
	}
}

// Places are where eight columns are, as 16-bit or 32-bit numbers.
struct Shorts {
	uint4 words;
	__device__ Shorts(const half* order, int i) : words(__ldg((const uint4*)(order + i))) {}
	__device__ int operator[](int j) const { return ((const unsigned short*)&words)[j]; }
};
struct Ints {
	int4 words[2];
	__device__ Ints(const int* perm, int i) : words{__ldg((const int4*)(perm + i)), __ldg((const int4*)(perm + i) + 1)} {}
	__device__ int operator[](int j) const { return ((const int*)words)[j]; }
};

// gather_columns writes eight columns, i and on, of rows 0 to last of y.
template <int R, class Places>
__device__ inline void gather_columns(half* y, const Column<R>* m, const Places& from, int i, int last, int64 ld) {
	Eight<half> out[R];
#pragma unroll
	for (int j = 0; j < 8; j++) {
		Column<R> c = m[from[j]];
#pragma unroll
		for (int r = 0; r < R; r++) out[r].v[j] = c.v[r];
	}
#pragma unroll
	for (int r = 0; r < R; r++)
		if (r <= last) *(uint4*)(y + r * ld + i) = out[r].words[0];
}
