// The norm of a row for those who multiply it, of whole eights of columns at 16 bytes, as are the norm's weights: to shared memory, by every block for itself.
#pragma once

#include "norm.cuh"

// Input is what is normed.
struct Input {
	const float *x, *scale, *shift;  // [in], [in], [in] or null
	int in, centred;
	float eps, offset;
};

// eight_of reads eight numbers that no kernel writes.
__device__ inline void eight_of(float (&v)[8], const float* p, int i) {
	*(float4*)v = __ldg((const float4*)(p + i)), *(float4*)(v + 4) = __ldg((const float4*)(p + i) + 1);
}

// Factors are a norm's for a thread's first columns.
struct Factors {
	float scale[8], shift[8];

	__device__ void read(const Input& in, int c) {
		if (c >= in.in) return;
#pragma unroll
		for (int j = 0; j < 8; j++) shift[j] = 0;
		eight_of(scale, in.scale, c);
		if (in.shift) eight_of(shift, in.shift, c);
	}
};

// read_row reads eight numbers of x, which other blocks have written, zeros past the end.
__device__ inline void read_row(float (&v)[8], const Input& in, int i) {
	float4 none = make_float4(0, 0, 0, 0);
	bool there = i < in.in;
	*(float4*)v = there ? __ldcg((const float4*)(in.x + i)) : none, *(float4*)(v + 4) = there ? __ldcg((const float4*)(in.x + i) + 1) : none;
}

// A RowOf is a row whose first numbers a thread keeps in registers. each calls f for eight
// at a time of this thread's.
struct RowOf {
	const Input& in;
	float kept[8];

	__device__ RowOf(const Input& in) : in(in) { read_row(kept, in, threadIdx.x * 8); }

	template <class F>
	__device__ void each(F& f) const {
		if (threadIdx.x * 8 < in.in) f(kept, threadIdx.x * 8);
#pragma unroll 1
		for (int i = (threadIdx.x + blockDim.x) * 8; i < in.in; i += blockDim.x * 8) {
			float v[8];
			read_row(v, in, i);
			f(v, i);
		}
	}
};

struct Moment {
	Centre mean;
	bool squared;
	float sum;
	__device__ void operator()(const float (&v)[8], int) {
#pragma unroll
		for (int j = 0; j < 8; j++) {
			float u = mean(v[j]);
			sum += squared ? u * u : u;
		}
	}
};

struct PutNormed {
	half* to;
	const Input& in;
	Factors& f;
	Centre mean;
	float inverse;
	__device__ void operator()(const float (&v)[8], int i) {
		if (i >= blockDim.x * 8) f.read(in, i);
		Eight<half> y;
#pragma unroll
		for (int j = 0; j < 8; j++) y.v[j] = __float2half_rn(mean(v[j]) * inverse * (f.scale[j] + in.offset) + f.shift[j]);
		*(uint4*)(to + i) = y.words[0];
	}
};

// normalize leaves a row in shared memory, as norm.cu computes it. It begins with a barrier.
__device__ inline void normalize(half* to, const Input& in, Factors f) {
	RowOf row(in);
	Moment moment = {{0, 0}, false, 0};
	if (in.centred) {
		moment.mean.first = __ldcg(in.x);
		row.each(moment);
		moment.mean.rest = block_sum(moment.sum) / in.in;
	}
	moment.squared = true, moment.sum = 0;
	row.each(moment);
	PutNormed put = {to, in, f, moment.mean, 1 / sqrtf(block_sum(moment.sum) / in.in + in.eps)};
	row.each(put);
}
