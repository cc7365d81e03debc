// How x of products of several rows, and its squares, come to shared memory.
#pragma once

#include "batch_rows.cuh"
#include "newest.cuh"

// A row of x in shared memory begins 64 bytes behind a multiple of 128 from the one before, so that lanes that read
// eight rows at a time do not collide.
__device__ inline int stride_of(Range blocks) { return (blocks.size() | 1) * 4; }  // of 16 bytes

// clear puts zeros behind the end of x, past which a unit may go.
__device__ inline void clear(uint4* to, const Product& p, Range blocks) {
	int behind = max(blocks.to - p.in / block_rows, 0) * 4, from = blocks.size() * 4 - behind;
#pragma unroll 1
	for (int i = threadIdx.x; i < behind * p.rows; i += threads) {
		int row = quotient(i, behind);
		to[row * stride_of(blocks) + from + i - row * behind] = make_uint4(0, 0, 0, 0);
	}
}

// A Row is where a row of x is staged: an address of shared memory, which takes fewer instructions, or, where there are no registers for what
// the compiler then has at once, a pointer.
template <bool address>
struct Row {
	u32 at;
	__device__ explicit Row(uint4* row) : at((u32)__cvta_generic_to_shared(row)) {}
	__device__ void put(int i, uint4 v) const {
		asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"(at + i * 16), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
	}
	__device__ void keep() { asm volatile("" : "+r"(at)); }
};

template <>
struct Row<false> {
	uint4* at;
	__device__ explicit Row(uint4* row) : at(row) {}
	__device__ void put(int i, uint4 v) const { at[i] = v; }
	__device__ void keep() { asm volatile("" : "+l"(at)); }
};

// A Stage brings a block's part of x. A warp has a row, or a part of one; turned says that pairs of rows 2 and 3 and of rows 4 and 5 of every eight
// take turns, as they are to be multiplied by codes.
template <bool turned>
struct Stage {
	const uint4* x;
	Row<turned> to;
	int first, there, step;

	__device__ Stage(uint4* staged, const Product& p, Range blocks) : Stage(staged, p, blocks, warps / p.rows, quotient(threadIdx.x / 32, p.rows)) {}

	// Of a row's so many parts, the warp has one.
	__device__ Stage(uint4* staged, const Product& p, Range blocks, int parts, int part) : to(staged + (threadIdx.x / 32 - part * p.rows) * stride_of(blocks)) {
		x = (const uint4*)(p.x + (threadIdx.x / 32 - part * p.rows) * p.ldx + blocks.from * block_rows);
		there = part < parts ? (min(blocks.to, p.in / block_rows) - blocks.from) * 4 : 0;
		first = part * 32 + threadIdx.x % 32, step = 32 * parts;
	}

	// keep has all of it in registers.
	__device__ void keep() {
		asm volatile("" : "+l"(x), "+r"(first), "+r"(there), "+r"(step));
		to.keep();
	}

	__device__ void bring() const {
		constexpr int together = 8;
#pragma unroll 1
		for (int i = first; i < there; i += step * together) {
			uint4 v[together];
#pragma unroll
			for (int j = 0; j < together; j++)
				if (int at = i + j * step; at < there) v[j] = newest(x + at);
#pragma unroll
			for (int j = 0; j < together; j++)
				if (int at = i + j * step; at < there) to.put(at, turned ? make_uint4(v[j].x, v[j].z, v[j].y, v[j].w) : v[j]);
		}
	}
};

// unit_of returns element i of the table of the matrices' units, with zeros behind those of each.
__device__ inline u32 unit_of(const Product& p, int i) {
#pragma unroll 1
	for (int k = 0; k < p.count; k++) {
		int groups = p.m[k].groups;
		if (i < groups) return __ldg(p.m[k].units + i);
		i -= padded_groups(groups);
		if (i < 0) break;
	}
	return 0;
}

// Squares are a lane's squares of a warp's row, which are asked for as they are made.
struct Squares {
	static constexpr int together = 8;
	float left, v[together];

	__device__ Squares() {}
	__device__ Squares(const Link& l, int row) {
		left = read_square(l.squares + row * squares_stride);
		ask(l, row, threadIdx.x % 32);
	}

	__device__ void ask(const Link& l, int row, int first) {
		const float* squares = l.squares + row * squares_stride + 1;
#pragma unroll
		for (int j = 0; j < together; j++) v[j] = first + 32 * j < l.parts ? read_square(squares + first + 32 * j) : 0;
	}

	// factor returns what sums of the row are to be multiplied by.
	__device__ float factor(const Link& l, int row) {
		float sum = 0;
#pragma unroll 1
		for (int first = threadIdx.x % 32;;) {
#pragma unroll
			for (int j = 0; j < together; j++) sum += v[j];
			if ((first += 32 * together) >= l.parts) break;
			ask(l, row, first);
		}
		float square = __fdividef(warp_sum(sum), l.cols) + l.eps;
		if (blockIdx.x == 0 && threadIdx.x % 32 == 0) l.powers[row] = power(square);
		return rsqrtf(square) / left;
	}
};
