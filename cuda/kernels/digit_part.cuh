// A row of x that lies in stored order, on its way to shared memory as digits (digits.cuh): each warp brings what it
// multiplies, for itself (digit_rows.cuh). So it waits for nobody, and its digits are to the scale of the largest of those.
#pragma once

#include "digit_rows.cuh"
#include "link.cuh"

constexpr int part_block = 4 * 32;  // bytes of a block of x, of a row: digit_block

// A Part is what a warp has of a row. Eight elements are a piece, those of a lane every 32nd.
struct Part {
	static constexpr int kept = 3;  // pieces that a lane has in registers: all, of rows of up to 12,288

	const half* x;  // of the portion
	char *to, *zeros;
	int first, pieces, there;  // block, pieces of the portion, and those before the end of x
	uint4 v[kept];

	template <class P>
	__device__ Part(const P& p, char* staged) {
		int warp = threadIdx.x / 32, warps = blockDim.x / 32;
		Portion portion = p.portions[warp];
		first = portion.first, pieces = (p.portions[warp + 1].at - portion.at) * (block_rows / 8);
		x = (const half*)p.x + first * block_rows, there = min(pieces, p.in / 8 - first * (block_rows / 8));
		to = staged + portion.at * part_block, zeros = staged + p.portions[warps].at * part_block;
	}

	__device__ uint4 load(int i) const { return i < there ? newest((const uint4*)x + i) : make_uint4(0, 0, 0, 0); }

	// ask asks for the first pieces.
	__device__ void ask() {
		int lane = threadIdx.x % 32;
		v[0] = load(lane);
		if (pieces > 32) {
#pragma unroll
			for (int k = 1; k < kept; k++) v[k] = load(lane + 32 * k);
		}
	}

	// make makes digits, and returns what the lowest ones are.
	__device__ float make() {
		int lane = threadIdx.x % 32;
		half2 most = __float2half2_rn(0);
		measure(most, v[0]);
		if (pieces > 32) {
#pragma unroll
			for (int k = 1; k < kept; k++) measure(most, v[k]);
#pragma unroll 1
			for (int i = lane + 32 * kept; i < there; i += 32) measure(most, load(i));
		}
		FixedPoint fixed(measured(most));
		half2 times = __float2half2_rn(fixed.to);
#pragma unroll 1
		for (int first = 0; first < pieces; first += 32) {
			int i = first + lane;
			half2 h[4] = {half2_of(v[0].x), half2_of(v[0].y), half2_of(v[0].z), half2_of(v[0].w)};
			if (i < pieces) put_digits((u32*)to + 8 * i, h, times, false);
#pragma unroll
			for (int k = 0; k < kept - 1; k++) v[k] = v[k + 1];
			if (i + 32 * kept < pieces) v[kept - 1] = load(i + 32 * kept);
		}
		__syncwarp();
		return fixed.lowest;
	}

	// digits returns them as a lane reads them, as if those of the whole row were there.
	__device__ StepDigits digits() const { return StepDigits((const u32*)(to - first * part_block), zeros); }
};

// arrived_bits returns the bits of what has been asked for, of which the compiler would else make something as soon as
// it is asked for, and wait.
__device__ inline int arrived_bits(float v) {
	int bits;
	asm volatile("mov.b32 %0, %1;" : "=r"(bits) : "f"(v));
	return bits;
}

// A Factor is factor (link.cuh) of a row, whose squares are on their way between ask and get, which are a warp's.
struct Factor {
	static constexpr int kept = 4;  // squares of a lane: all, of rows of up to 4,096

	float left, squares[kept];

	__device__ void ask(const Link& l, int row = 0) {
		if (!l.squares) return;
		const float* of = l.squares + row * squares_stride;
		left = read_square(of);
#pragma unroll
		for (int k = 0; k < kept; k++) {
			int i = threadIdx.x % 32 + 32 * k;
			squares[k] = i < l.parts ? read_square(of + 1 + i) : 0;
		}
	}

	__device__ float get(const Link& l, int row = 0) const {
		if (!l.squares) return 1;
		float sum = 0, one = __int_as_float((254 << 23) - arrived_bits(left));  // divided by a power of two
#pragma unroll
		for (int k = 0; k < kept; k++) sum += squares[k];
#pragma unroll 1
		for (int i = threadIdx.x % 32 + 32 * kept; i < l.parts; i += 32) sum += read_square(l.squares + row * squares_stride + 1 + i);
		float square = __fdividef(warp_sum(sum), l.cols) + l.eps;
		if (blockIdx.x == 0 && threadIdx.x % 32 == 0) l.powers[row] = power(square);
		return rsqrtf(square) * one;
	}
};
