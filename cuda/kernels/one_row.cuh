// A row of x for those who multiply it, as a block reads it: what is asked for before it is there, and
// what a thread keeps of it.
#pragma once

#include "norm.cuh"

// How x comes: normalized as norm.cuh counts, or as it is.
constexpr int no_norm = 2;

// Eights of elements of x that a thread keeps in registers: all that most rows have.
constexpr int kept = 2;

// Ahead is what a thread needs for the first eight elements of a row that it brings to
// shared memory, beside those: their places and the norm's weights.
struct Ahead {
	uint4 places;
	float scale[8];

	template <class P>
	__device__ Ahead(const P& p) {
		int i = threadIdx.x * 8;
		if (i >= p.in) return;
		if (p.places) places = __ldg((const uint4*)(p.places + i));
		if (p.norm != no_norm) load8(scale, p.scale, i, p.in);
	}
};

// load_floats reads eight elements of x, zeros past the end.
__device__ inline void load_floats(float (&v)[8], const float* x, int i, int in) {
	Eight<float> e;
	if (i < in) {
		e.words[0] = __ldcg((const uint4*)(x + i)), e.words[1] = __ldcg((const uint4*)(x + i) + 1);
	} else {
		e.words[0] = e.words[1] = make_uint4(0, 0, 0, 0);
	}
#pragma unroll
	for (int j = 0; j < 8; j++) v[j] = e.v[j];
}

// A Row is a row of x that is to be normalized. each calls f for eight elements at a
// time of this thread's, again from memory where registers have no room for them.
struct Row {
	const float* x;
	int in;
	float v[kept][8];

	__device__ Row(const float* x, int in) : x(x), in(in) {
#pragma unroll
		for (int k = 0; k < kept; k++) load_floats(v[k], x, at(k), in);
	}
	__device__ static int at(int k) { return (k * blockDim.x + threadIdx.x) * 8; }

	template <class F>
	__device__ void each(F& f) const {
#pragma unroll
		for (int k = 0; k < kept; k++)
			if (at(k) < in) f(v[k], at(k));
		for (int i = at(kept); i < in; i += blockDim.x * 8) {
			float w[8];
			load_floats(w, x, i, in);
			f(w, i);
		}
	}
};

struct Sum {
	Centre mean;
	float of;
	__device__ void operator()(const float (&v)[8], int) {
		for (int j = 0; j < 8; j++) of += mean(v[j]);
	}
};

struct Squares {
	Centre mean;
	float of;
	__device__ void operator()(const float (&v)[8], int) {
		for (int j = 0; j < 8; j++) of += mean(v[j]) * mean(v[j]);
	}
};
