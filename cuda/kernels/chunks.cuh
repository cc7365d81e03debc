// What is prepared of chunks of rows for linear attention (delta_chunks.cu), in memory and in shared memory.
#pragma once

#include "delta.cuh"
#include "split_bf16.cuh"

constexpr int rows_of_chunk = 32;

// What is prepared of a chunk: for each head of keys k and q, high parts and low ones; for each head of values T, of the delta rule alone, and P,
// high parts and low ones, and then Γ[i], and D[32][j], with Δ[j] if plain.
constexpr int square_bytes = 2 * rows_of_chunk * rows_of_chunk;
constexpr int side_of_64 = 2 * rows_of_chunk * 2 * 64, side_of_128 = 2 * rows_of_chunk * 2 * 128;
constexpr int image_of_64 = 2 * side_of_64, image_of_128 = 2 * side_of_128;
constexpr int record_of_plain = 2 * square_bytes + 8 * rows_of_chunk, record_of_rule = 4 * square_bytes + 8 * rows_of_chunk;

// Side is k or q of a chunk, high and low parts. Rows' pieces of eight numbers lie in an order in which eight rows' are in different banks.
template <int dims>
struct Side {
	half part[2][rows_of_chunk * dims];
	__device__ half* at(int p, int row, int eight) { return part[p] + row * dims + (eight ^ row % 8) * 8; }
};

template <int dims>
struct Image {
	Side<dims> k, q;
};

// Square is a matrix of a chunk, high and low parts, in such an order.
struct Square {
	half part[2][rows_of_chunk * rows_of_chunk];
	__device__ half* at(int p, int row, int eight) { return part[p] + row * rows_of_chunk + (eight ^ row / 2 % 4) * 8; }
};

template <bool plain>
struct Record;

template <>
struct Record<true> {
	Square reads;  // P
	float front[rows_of_chunk], behind[rows_of_chunk];
};

template <>
struct Record<false> {
	Square solves, reads;  // T, P
	float front[rows_of_chunk], behind[rows_of_chunk];
};

static_assert(sizeof(Image<64>) == image_of_64 && sizeof(Image<128>) == image_of_128, "as the host has it");
static_assert(sizeof(Record<true>) == record_of_plain && sizeof(Record<false>) == record_of_rule, "as the host has it");

// right reads two right sides [16, 8], of 16 rows of a matrix that has results' columns as its rows, and 16 of its columns.
template <class M>
__device__ inline void right(u32 (&to)[4], M& m, int part, int row, int sixteen) {
	int lane = threadIdx.x % 32;
	ldmatrix(to, m.at(part, row + lane / 16 * 8 + lane % 8, 2 * sixteen + lane / 8 % 2));
}

// left_side reads a left side of 16 rows.
template <class M>
__device__ inline void left_side(Left& to, M& m, int row, int sixteen) {
	int lane = threadIdx.x % 32;
	ldmatrix(to.high, m.at(0, row + lane % 16, 2 * sixteen + lane / 16));
	ldmatrix(to.low, m.at(1, row + lane % 16, 2 * sixteen + lane / 16));
}

// Chunks are some of those that each run has.
struct Chunks {
	int first, count;
	__device__ int row(int i) const { return (first + i) * rows_of_chunk; }
	__device__ int rows(const Shape& s, int i) const { return min(rows_of_chunk, s.span - row(i)); }
};
