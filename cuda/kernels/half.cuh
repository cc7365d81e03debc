// Element types, and eight elements at a time: what one 16-byte access moves
// of a 16-bit type.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

using bf16 = __nv_bfloat16;
using int64 = long long;

constexpr int elements = 8;  // of a thread, at a time

__device__ inline float widen(float x) { return x; }
__device__ inline float widen(half x) { return __half2float(x); }
__device__ inline float widen(bf16 x) { return __bfloat162float(x); }

// narrow rounds to nearest, ties to even.
__device__ inline void narrow(float& y, float x) { y = x; }
__device__ inline void narrow(half& y, float x) { y = __float2half_rn(x); }
__device__ inline void narrow(bf16& y, float x) { y = __float2bfloat16_rn(x); }

// Eight is a vector of eight elements in as many 16-byte words as they take.
template <class T>
union Eight {
	uint4 words[sizeof(T) / 2];
	T v[8];
	__device__ Eight() {}
};

// whole reports whether elements i to i+7 of n, i a multiple of 8, may be
// accessed as Eight.
template <class T>
__device__ inline bool whole(const T* p, int64 i, int64 n) {
	return i + 8 <= n && (size_t)p % 16 == 0;
}

// load8 reads elements i to i+7 of n, zeros past the end.
template <class T>
__device__ inline void load8(float (&v)[8], const T* p, int64 i, int64 n) {
	Eight<T> e;
	if (whole(p, i, n)) {
		for (int j = 0; j < sizeof(T) / 2; j++) e.words[j] = ((const uint4*)(p + i))[j];
		for (int j = 0; j < 8; j++) v[j] = widen(e.v[j]);
	} else {
		for (int j = 0; j < 8; j++) v[j] = i + j < n ? widen(p[i + j]) : 0;
	}
}

// store8 writes elements i to i+7 of n, those past the end excepted.
template <class T>
__device__ inline void store8(T* p, const float (&v)[8], int64 i, int64 n) {
	Eight<T> e;
	for (int j = 0; j < 8; j++) narrow(e.v[j], v[j]);
	if (whole(p, i, n)) {
		for (int j = 0; j < sizeof(T) / 2; j++) ((uint4*)(p + i))[j] = e.words[j];
	} else {
		for (int j = 0; j < 8; j++)
			if (i + j < n) p[i + j] = e.v[j];
	}
}

// first8 is the first of the eight elements of a row that are this thread's, when
// the grid covers rows eight elements a thread; gridDim.y rows at a time.
__device__ inline int64 first8() { return ((int64)blockIdx.x * blockDim.x + threadIdx.x) * elements; }
