// How few rows of x, or one, come to shared memory in stored order.
#pragma once

#include "digit_row.cuh"
#include "few_rows.cuh"
#include "order.cuh"

// put stores eight elements of a row from i on where they are in stored order.
__device__ inline void put(half* to, const Product& p, const Ahead& a, const Eight<half>& v, int i) {
	if (!p.places) {
		*(uint4*)(to + i) = v.words[0];
		return;
	}
	Eight<half> places;
	places.words[0] = i < blockDim.x * 8 ? a.places : __ldg((const uint4*)(p.places + i));
#pragma unroll
	for (int j = 0; j < 8; j++) to[__half_as_ushort(places.v[j])] = v.v[j];
}

// load copies a row of x. What other blocks have written is read from the L2 cache.
__device__ inline void load(half* to, const half* x, const Product& p, const Ahead& a) {
	for (int first = threadIdx.x * 8; first < p.in; first += blockDim.x * 8 * kept) {
		Eight<half> v[kept];
#pragma unroll
		for (int k = 0; k < kept; k++)
			if (int i = first + k * blockDim.x * 8; i < p.in) v[k].words[0] = __ldcg((const uint4*)(x + i));
#pragma unroll
		for (int k = 0; k < kept; k++)
			if (int i = first + k * blockDim.x * 8; i < p.in) put(to, p, a, v[k], i);
	}
}

struct Put {
	half* to;
	const Product& p;
	const Ahead& a;
	Centre mean;
	float inverse;
	__device__ void operator()(const float (&v)[8], int i) {
		float w[8], b[8] = {};
		if (i >= blockDim.x * 8) load8(w, p.scale, i, p.in);
		if (p.shift) load8(b, p.shift, i, p.in);
		Eight<half> y;
		for (int j = 0; j < 8; j++) y.v[j] = __float2half_rn(mean(v[j]) * inverse * ((i < blockDim.x * 8 ? a.scale[j] : w[j]) + p.offset) + b[j]);
		put(to, p, a, y, i);
	}
};

// normalize is norm.cu's for a row, to shared memory. It stores the row's power (link.cuh)
// where that is wanted.
__device__ inline void normalize(half* to, const float* x, const Product& p, const Ahead& a, float* row_power) {
	Row row(x, p.in);
	Centre mean = {0, 0};
	if (p.norm == layer) {
		mean.first = __ldcg(x);
		Sum sum = {mean, 0};
		row.each(sum);
		mean.rest = __fdividef(block_sum(sum.of), p.in);
	}
	Squares squares = {mean, 0};
	row.each(squares);
	float square = __fdividef(block_sum(squares.of), p.in) + p.eps;
	if (row_power && threadIdx.x == 0) *row_power = power(square);
	Put put = {to, p, a, mean, rsqrtf(square)};
	row.each(put);
}

// copy_rows asks for rows of x that are in stored order.
__device__ inline void copy_rows(half* to, const Product& p, int rows) {
	for (int r = 0; r < rows; r++, to += stride(p.in)) {
		const half* x = (const half*)p.x + r * p.ldx;
		for (int i = threadIdx.x * 8; i < p.in; i += blockDim.x * 8) copy16(to + i, x + i, true);
		if (threadIdx.x < row_padding) to[p.in + threadIdx.x] = __float2half(0);
	}
	commit();
}

// stage brings the rows of x to shared memory, in stored order.
__device__ inline void stage(half* to, const Product& p, const Ahead& a, int rows) {
	if (!p.places) {
		copy_rows(to, p, rows);
		return;
	}
	for (int r = 0; r < rows; r++, to += stride(p.in)) {
		if (p.norm == no_norm) load(to, (const half*)p.x + r * p.ldx, p, a);
		else normalize(to, (const float*)p.x + r * p.ldx, p, a, p.link.powers && blockIdx.x == 0 ? p.link.powers + r : nullptr);
		if (threadIdx.x < row_padding) to[p.in + threadIdx.x] = __float2half(0);
	}
}

// unit_of returns number i of the units of the matrices' groups, zeros being behind those of each.
__device__ inline u32 unit_of(const Product& p, int i) {
	if (i >= p.units) return 0;
	int k = 0;
	for (int padded; k < p.count - 1 && i >= (padded = padded_groups(p.m[k].groups)); k++) i -= padded;
	return i < p.m[k].groups ? __ldg(p.m[k].units + i) : 0;
}

// keep_units stores the units of the matrices' groups, of which the thread has asked for the first.
__device__ inline void keep_units(u32* to, const Product& p, u32 first) {
	if (threadIdx.x < p.units) to[threadIdx.x] = first;
#pragma unroll 1
	for (int i = threadIdx.x + blockDim.x; i < p.units; i += blockDim.x) to[i] = unit_of(p, i);
}
