// What a sublayer gives joins the stream normalized, x' = then·(x + times·r·w·y), with r = 1/rms(y), without a kernel for that
// (sum_stream.cu). r is known when all of y is, so the product that gives y leaves both parts in the order of those who read x' next, as
// link.cuh leaves x': then·x and then·times·w·y, each times the weights of the readers' norm, if they have one, and a power of two; and,
// by tiles, sums of x², y², x·wy and (wy)². The readers find r, and join the parts while they bring x; the
// mean square of x' is that of the sums. Their blocks store x', some columns each.
//
// One part may take away most of the other, so fp16 would not do for both, and what all blocks read is to be little (docs/performance.md).
// So of each float the upper three bytes are left, in three rows: the upper halves of the one part, of the other, and the third bytes of both.
#pragma once

#include "digit_part.cuh"
#include "few_rows.cuh"

constexpr int most_parts = 192;  // of sums of squares
constexpr int most_blocks = 16;  // of a warp's portion: two pieces of each lane

// sum_of_four returns a warp's sum of the number that a lane's place among four says.
__device__ inline float sum_of_four(float a, float b, float c, float d) {
	bool odd = threadIdx.x & 1, upper = threadIdx.x & 2;
	a = (odd ? b : a) + __shfl_xor_sync(~0u, odd ? a : b, 1), c = (odd ? d : c) + __shfl_xor_sync(~0u, odd ? c : d, 1);
	a = (upper ? c : a) + __shfl_xor_sync(~0u, upper ? a : c, 2);
#pragma unroll
	for (int step = 4; step < 32; step *= 2) a += __shfl_xor_sync(~0u, a, step);
	return a;
}

// Join is what the products of a row are told of it: those that give, where p.link says what is left, or those that read, or neither.
struct Join {
	enum Plane { old_squares, squares, products, joining_squares };  // rows of what squares are in, squares_stride apart

	const half* given;     // [2, in]: the upper halves of the part that joins, in order, and the third bytes; or null: nothing was left so
	const float* sums;     // [4, squares_stride]: the power of two in front of the first, and sums, of x²; y²; x·wy; (wy)²
	half* left;            // [2, cols], where they are left
	float* stream;         // [cols]: x, and where x' goes
	const float* y;        // [cols]
	const float* weights;  // [cols] of the sublayer's norm
	float eps, offset, times, then;
	int parts, cols, each;  // columns that a block stores

	// factor returns that of a column of y, but for r.
	__device__ float factor(int column) const { return then * times * (weights[column] + offset); }

	// leave leaves a column of a tile, of which a warp has all: v is y.
	template <class K>
	__device__ void leave(const Link& l, const K& k, int tile, float v) const {
		float x = 0, wy = 0;
		if (k.at) {
			x = k.old * then, wy = v * k.other;
			float by = k.weight * k.power;
			u32 one = __float_as_uint(x * by), other = __float_as_uint(wy * by);
			half* to = left + (k.left - l.left);
			*k.left = __ushort_as_half(one >> 16), to[0] = __ushort_as_half(other >> 16);
			to[cols] = __ushort_as_half(__byte_perm(one, other, 0x5151));
		} else {
			v = 0;
		}
		int lane = threadIdx.x % 32;
		float mine = sum_of_four(x * x, v * v, x * wy, wy * wy);
		if (lane < 4) k.squares[lane * squares_stride + 1] = mine;
		if (lane == 0 && tile == 0) k.squares[0] = k.power;
	}
};

struct JoinProduct : Product {
	static constexpr bool joins = true;

	Join join;
};

// Found is what a block finds of the sums, in shared memory: they are added by one warp for each, as they are lines that all blocks read.
struct Found {
	float sums[4];
	float power, r;
};

// A Joint is what a thread has of both parts of a row that it brings, on their way between ask and join.
struct Joint {
	static constexpr int kept = most_blocks * block_rows / 8 / 32;  // pieces of a lane

	uint4 given[kept][2];
	float sums[most_parts / 32];  // of those that the warp adds
	float power;
	int column;          // that the thread stores, or -1
	float x, y, weight;  // of that

	// plane returns which sums the warp adds, those of the last warps, or more than there are.
	__device__ static int plane() { return blockDim.x / 32 - 1 - threadIdx.x / 32; }

	// ask asks for the parts, or for x as it is.
	__device__ void ask(const Join& j, Part& part) {
		if (!j.given) {
			part.ask();
			return;
		}
		int lane = threadIdx.x % 32;
		if (plane() < 4) {
			const float* from = j.sums + plane() * squares_stride;
#pragma unroll
			for (int k = 0; k < most_parts / 32; k++) {
				int i = lane + 32 * k;
				sums[k] = i < j.parts ? read_square(from + 1 + i) : 0;
			}
			if (plane() == Join::old_squares) power = read_square(from);
		}
		piece(j, part, 0);
		if (part.pieces > 32) {
			piece(j, part, 1);
			part.v[kept] = make_uint4(0, 0, 0, 0);
		}
		column = blockIdx.x * j.each + threadIdx.x;
		if (threadIdx.x >= j.each || column >= j.cols) column = -1;
		if (column >= 0) x = read_square(j.stream + column), y = read_square(j.y + column), weight = j.weights[column];
	}

	__device__ void piece(const Join& j, Part& part, int k) {
		int i = threadIdx.x % 32 + 32 * k;
		part.v[k] = part.load(i), given[k][0] = given[k][1] = make_uint4(0, 0, 0, 0);
		if (i >= part.there) return;
		const uint4* from = (const uint4*)(j.given + part.first * block_rows) + i;
		given[k][0] = newest(from), given[k][1] = newest(from + j.cols / 8);
	}

	// join makes x' of the parts, stores the thread's column, and leaves in found what the block is to know.
	__device__ void join(const Join& j, Part& part, Found& found) const {
		if (!j.given) return;
		if (plane() < 4) {
			float sum = 0;
#pragma unroll
			for (int k = 0; k < most_parts / 32; k++) sum += sums[k];
			sum = warp_sum(sum);
			if (threadIdx.x % 32 == 0) {
				found.sums[plane()] = sum;
				if (plane() == Join::old_squares) found.power = power;
				if (plane() == Join::squares) found.r = rsqrtf(__fdividef(sum, j.cols) + j.eps);
			}
		}
		__syncthreads();
		float r = found.r;
		part.v[0] = joined(part.v[0], given[0], r);
		if (part.pieces > 32) part.v[1] = joined(part.v[1], given[1], r);
		if (column >= 0) j.stream[column] = j.then * (x + j.times * r * (weight + j.offset) * y);
	}

	// joined returns a piece of x', of the upper halves and the third bytes of both parts. The fourth ones are taken to be as the third ones.
	__device__ static uint4 joined(uint4 v, const uint4 (&given)[2], float r) {
		u32 h[4] = {v.x, v.y, v.z, v.w};
		const u32 g[4] = {given[0].x, given[0].y, given[0].z, given[0].w}, t[4] = {given[1].x, given[1].y, given[1].z, given[1].w};
		const half2 most = __float2half2_rn(65504);
#pragma unroll
		for (int k = 0; k < 4; k++) {
			float even = fmaf(float_of<0x1055>(g[k], t[k]), r, float_of<0x1044>(h[k], t[k]));
			float odd = fmaf(float_of<0x3277>(g[k], t[k]), r, float_of<0x3266>(h[k], t[k]));
			h[k] = bits_of(__hmin2(__hmax2(__floats2half2_rn(even, odd), __hneg2(most)), most));
		}
		return make_uint4(h[0], h[1], h[2], h[3]);
	}

	template <u32 bytes>
	__device__ static float float_of(u32 halves, u32 thirds) { return __uint_as_float(__byte_perm(halves, thirds, bytes)); }
};

// factor_of returns what sums of products of x' are to be multiplied by, and stores the power of two for what is left next.
__device__ inline float factor_of(const JoinProduct& p, const Found& found) {
	if (!p.link.squares) return 1;
	float r = found.r, square = fmaxf(fmaf(r, fmaf(r, found.sums[Join::joining_squares], 2 * found.sums[Join::products]), found.sums[Join::old_squares]), 0);
	square = __fdividef(square, p.link.cols) + p.link.eps;
	if (blockIdx.x == 0 && threadIdx.x == 0) *p.link.powers = power(square);
	return rsqrtf(square) * __int_as_float((254 << 23) - __float_as_int(found.power));  // divided by a power of two
}
