// How products that add to rows of a stream spare those that read it next, normalized, the
// norm: they leave the rows times the norm's weights in the order of the readers, and
// the squares of them by tiles. To the readers the norm is then a factor for each row of
// their sums.
//
// What is left is fp16, of which the norm's result would be, too. So it is multiplied by a
// power of two for each row, by which the row as it was normalized last has a root mean
// square of 1/16, or less where the norm's eps counts, as in a row of zeros: so there is room
// for rows that grow a thousandfold.
#pragma once

#include "half.cuh"
#include "reduce.cuh"

constexpr int most_linked = 4;  // rows
constexpr int squares_stride = 2052;  // of a row: the power of two of what was left, and sums of squares

// Link is what products are told of it; cuda/link.go has the same.
struct Link {
	const float* squares;  // [rows, squares_stride], of `parts` sums: of x that was left; or null
	float* powers;         // [rows] of the norm of x, to be stored, or of the norm before; or null
	half* left;            // [rows, cols], or null: where the stream goes
	float* left_squares;   // [rows, squares_stride], and its squares
	const half* places;    // [cols]: where in a row of left a column is
	const float* scale;    // [cols] of the norm
	float offset, eps;     // of the norm that has been left out, or is to be
	int parts, cols;
};

// read_square reads what another kernel has written, behind the wait for it.
__device__ inline float read_square(const float* p) {
	float v;
	asm volatile("ld.global.cg.f32 %0, [%1];" : "=f"(v) : "l"(p) : "memory");
	return v;
}

// power returns the power of two for a row with some mean square, the norm's eps added.
__device__ inline float power(float square) {
	int exponent = (__float_as_int(square) >> 23 & 255) - 127;
	return __int_as_float((127 - 4 - (exponent >> 1)) << 23);
}

// factor returns what sums of a warp's row are to be multiplied by; so many loads are on their way at a time.
template <int at_once>
__device__ inline float factor(const Link& l, int row) {
	if (!l.squares) return 1;
	const float* squares = l.squares + row * squares_stride;
	float sum = 0, left = read_square(squares);
#pragma unroll 1
	for (int first = threadIdx.x % 32; first < l.parts; first += 32 * at_once) {
		float v[at_once];
#pragma unroll
		for (int j = 0; j < at_once; j++) v[j] = first + 32 * j < l.parts ? read_square(squares + 1 + first + 32 * j) : 0;
#pragma unroll
		for (int j = 0; j < at_once; j++) sum += v[j];
	}
	float square = __fdividef(warp_sum(sum), l.cols) + l.eps;
	if (blockIdx.x == 0 && threadIdx.x % 32 == 0) l.powers[row] = power(square);
	return rsqrtf(square) / left;
}

// Linked is what a thread needs to leave an element of the stream.
struct Linked {
	int place;
	float weight, power;

	__device__ Linked() : place(0), weight(0), power(0) {}
	__device__ Linked(half place, float weight, float power) : place(__half_as_ushort(place)), weight(weight), power(power) {}
	__device__ Linked(const Link& l, int row, int column) {
		power = l.powers ? read_square(l.powers + row) : 1;
		place = __half_as_ushort(l.places[column]), weight = l.scale[column] + l.offset;
	}
};

// leave leaves an element of a row.
__device__ inline void leave(const Link& l, const Linked& e, int row, float v) {
	l.left[(int64)row * l.cols + e.place] = __float2half_rn(fminf(fmaxf(v * e.weight * e.power, -65504), 65504));
}

// leave_squares leaves the squares of a part of a row, of which each lane has some.
__device__ inline void leave_squares(const Link& l, float power, int part, int row, float squares) {
	float square = warp_sum(squares);
	if (threadIdx.x % 32 == 0) {
		l.left_squares[row * squares_stride + 1 + part] = square;
		if (part == 0) l.left_squares[row * squares_stride] = power;
	}
}

// link leaves a lane's element of a tile and row, of which a warp has all; of columns that
// there are not, nothing.
__device__ inline void link(const Link& l, const Linked& e, int tile, int row, bool there, float v) {
	leave_squares(l, e.power, tile, row, there ? v * v : 0);
	if (there) leave(l, e, row, v);
}
