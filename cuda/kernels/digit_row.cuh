// A row of x on its way to shared memory as digits (digits.cuh), in stored order: normalized as
// norm.cuh counts, or as it is. P is what says what x is: x, places, scale, shift, norm, in,
// eps and offset of Product (qmatmul.cu).
//
// A row of digits takes four bytes an element. There elements are put where they belong, as they
// are, while the largest is looked for, and what a norm multiplies all by; then a thread
// makes digits of eight at a time, in their place.
#pragma once

#include "digits.cuh"
#include "link.cuh"
#include "one_row.cuh"

// An Extent is the sum of a row's squares, and the bits of its largest element as FixedPoint takes it.
struct Extent {
	float squares;
	u32 largest;

	__device__ void add(float v) { largest = max(largest, __float_as_uint(v) & 0x7fffffff); }
};

// block_extent returns a block's to each of its threads, once in a kernel, behind a barrier.
__device__ inline Extent block_extent(Extent v) {
	__shared__ Extent parts[32];
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	v.squares = warp_sum(v.squares), v.largest = warp_largest(v.largest);
	if (lane == 0) parts[warp] = v;
	__syncthreads();
	v = lane < blockDim.x / 32 ? parts[lane] : Extent{0, 0};
	return {warp_sum(v.squares), warp_largest(v.largest)};
}

// bring puts eight elements of a row from i on where they are in stored order.
template <class P, class T>
__device__ inline void bring(u32* to, const P& p, const Ahead& a, const T (&v)[8], int i) {
	Eight<half> places;
	places.words[0] = i < blockDim.x * 8 ? a.places : __ldg((const uint4*)(p.places + i));
#pragma unroll
	for (int j = 0; j < 8; j++) *(T*)(to + __half_as_ushort(places.v[j])) = v[j];
}

// Bring brings a row times the norm's weights, and, if it is known, what else makes up the norm.
template <class P>
struct Bring {
	u32* to;
	const P& p;
	const Ahead& a;
	Centre mean;
	float inverse;
	Extent extent;

	__device__ void operator()(const float (&v)[8], int i) {
		float w[8], b[8] = {}, y[8];
		if (i >= blockDim.x * 8) load8(w, p.scale, i, p.in);
		if (p.shift) load8(b, p.shift, i, p.in);
#pragma unroll
		for (int j = 0; j < 8; j++) {
			float c = mean(v[j]);
			y[j] = fmaf(c * inverse, (i < blockDim.x * 8 ? a.scale[j] : w[j]) + p.offset, b[j]);
			extent.squares += c * c, extent.add(y[j]);
		}
		bring(to, p, a, y, i);
	}
};

// bring_normed brings a row that is to be normalized as norm.cu does it, but for what the returned
// number is to multiply, and returns that number and the largest element with it.
template <class P, class Come>
__device__ inline float bring_normed(u32* to, const P& p, const Ahead& a, u32& largest, const Come& come) {
	const float* x = (const float*)p.x;
	Row row(x, p.in);
	Bring<P> bring = {to, p, a, {0, 0}, 1, {0, 0}};
	if (p.norm == layer) {
		bring.mean.first = __ldcg(x);
		Sum sum = {bring.mean, 0};
		row.each(sum);
		bring.mean.rest = __fdividef(block_sum(sum.of), p.in);
	}
	if (p.shift) {  // which is added to what has been multiplied
		Squares squares = {bring.mean, 0};
		row.each(squares);
		bring.inverse = rsqrtf(__fdividef(block_sum(squares.of), p.in) + p.eps);
	}
	row.each(bring);
	come();
	Extent extent = block_extent(bring.extent);
	float square = __fdividef(extent.squares, p.in) + p.eps, inverse = p.shift ? 1 : rsqrtf(square);
	if (p.link.powers && blockIdx.x == 0 && threadIdx.x == 0) *p.link.powers = power(square);
	largest = __float_as_uint(__uint_as_float(extent.largest) * inverse);
	return inverse;
}

// bring_halves brings a row of fp16, each to the first half of a word of four bytes. It returns the largest.
template <class P, class Come>
__device__ inline u32 bring_halves(u32* to, const P& p, const Ahead& a, const Come& come) {
	int step = blockDim.x * 8;
	half2 most = __float2half2_rn(0);
#pragma unroll 1
	for (int i = threadIdx.x * 8; i < p.in; i += step) {
		Eight<half> v;
		v.words[0] = __ldcg((const uint4*)((const half*)p.x + i));
		measure(most, v.words[0]);
		bring(to, p, a, v.v, i);
	}
	come();
	Extent extent = {0, 0};
	extent.add(__low2float(most)), extent.add(__high2float(most));
	return block_extent(extent).largest;
}

// stage_digits brings a row to shared memory, and zeros behind it. It returns what its lowest digits
// are: of a row with an element that is no number, none. come is called when the thread has read
// its elements. A barrier is to follow.
template <class P, class Come>
__device__ inline float stage_digits(u32* row, const P& p, const Ahead& a, const Come& come) {
	if (threadIdx.x < row_padding) row[p.in + threadIdx.x] = 0;
	bool normed = p.norm != no_norm;
	u32 largest;
	float times = 1;
	if (normed) times = bring_normed(row, p, a, largest, come);
	else largest = bring_halves(row, p, a, come);
	FixedPoint fixed(largest);
	half2 to = __float2half2_rn(normed ? 1 : fixed.to);
	times *= fixed.to;
#pragma unroll 1
	for (int i = threadIdx.x * 8; i < p.in; i += blockDim.x * 8) {
		half2 x[4];
		uint4 v = *(const uint4*)(row + i + 4 * swaps()), w = *(const uint4*)(row + i + 4 * !swaps());
		if (normed) {
			x[0] = __floats2half2_rn(__uint_as_float(v.x) * times, __uint_as_float(v.y) * times);
			x[1] = __floats2half2_rn(__uint_as_float(v.z) * times, __uint_as_float(v.w) * times);
			x[2] = __floats2half2_rn(__uint_as_float(w.x) * times, __uint_as_float(w.y) * times);
			x[3] = __floats2half2_rn(__uint_as_float(w.z) * times, __uint_as_float(w.w) * times);
		} else {
			x[0] = half2_of(__byte_perm(v.x, v.y, 0x5410)), x[1] = half2_of(__byte_perm(v.z, v.w, 0x5410));
			x[2] = half2_of(__byte_perm(w.x, w.y, 0x5410)), x[3] = half2_of(__byte_perm(w.z, w.w, 0x5410));
		}
		put_digits(row + i, x, to, swaps());
	}
	return fixed.lowest;
}
