// Rows that are multiplied by the matrices of experts (qmatmul_group.cu): how they are brought to shared memory, and units
// multiplied by them. Up to eight are multiplied by codes as they are (rows_codes.cuh), or, where there are no tensor cores that can, by numbers; up to
// four by digits (rows_digits.cuh), in half as many instructions.
#pragma once

#include "group_feed.cuh"
#include "limited.cuh"
#include "newest.cuh"
#include "rows_codes.cuh"
#include "rows_digits.cuh"

constexpr int behind = 3;         // blocks behind a row past which a unit may go
constexpr int block_vectors = 4;  // of a row, of 16 bytes

static_assert(behind == unit_blocks - 1, "a unit has a block of the row");

// Inputs are the rows: x, or, where there is up, units of x and up, at 16 bytes and in order.
struct Inputs {
	const half *x, *up;  // rows ldx and ldu elements apart
	const int* rows;     // which of x, or null
	int64 ldx, ldu;
	Unit unit;
	int in;
};

// Taken is eight numbers of a row in stored order.
template <bool acts>
struct Taken {
	Eight<half> x, up;

	__device__ void ask(const Segment& s, const Inputs& from, int row, int column) {
		if constexpr (acts) {
			x.words[0] = newest(from.x + row * from.ldx + column), up.words[0] = newest(from.up + row * from.ldu + column);
		} else {
			Eight<half> at;
			at.words[0] = __ldg((const uint4*)(s.order + column));
			const half* of = from.x + (from.rows ? from.rows[row] : row) * from.ldx;
#pragma unroll
			for (int j = 0; j < 8; j++) x.v[j] = of[__half_as_ushort(at.v[j])];
		}
	}
	__device__ void clear() { x.words[0] = up.words[0] = make_uint4(0, 0, 0, 0); }

	__device__ uint4 get(const Unit& unit) {
		if constexpr (acts) unit.eight(x, up);
		return x.words[0];
	}
};

// Codes of up to eight rows.
struct ByCodes {
	static constexpr int most = 8, vectors = 2;  // rows; of 16 bytes, a lane's sums of a tile
#if __CUDA_ARCH__ >= 800
	static constexpr bool as_codes = true;
#else
	static constexpr bool as_codes = false;
#endif

	// A row in shared memory begins 64 bytes behind a multiple of 128 from the one before, so that lanes that read
	// eight rows at a time do not collide.
	__device__ static int stride(int in) { return (in / block_rows + behind | 1) * block_vectors; }
	__device__ static int bytes(int in, int, int rows) { return rows * stride(in) * (int)sizeof(uint4); }

	// prepare puts zeros behind so many rows, past whose end a unit may go.
	__device__ static void prepare(unsigned char* staged, int in, int rows) {
		int there = in / 8, rest = stride(in) - there;
		for (int i = threadIdx.x; i < rows * rest; i += blockDim.x) ((uint4*)staged)[i / rest * stride(in) + there + i % rest] = make_uint4(0, 0, 0, 0);
	}

	// bring puts the rows of a segment in shared memory, by so many threads of which this is one.
	template <bool acts>
	__device__ static void bring(unsigned char* to, const Segment& s, const Inputs& from, int thread, int threads) {
		int eights = from.in / 8, all = eights * s.rows;
#pragma unroll 1
		for (int i = thread; i < all; i += 2 * threads) {
			Taken<acts> taken[2];
			int row[2], eight[2];
#pragma unroll
			for (int k = 0; k < 2; k++) {
				int at = min(i + k * threads, all - 1);
				row[k] = quotient(at, eights), eight[k] = at - row[k] * eights;
				taken[k].ask(s, from, s.from + row[k], eight[k] * 8);
			}
#pragma unroll
			for (int k = 0; k < 2; k++) {
				uint4 v = taken[k].get(from.unit);
				((uint4*)to)[row[k] * stride(from.in) + eight[k]] = as_codes ? make_uint4(v.x, v.z, v.y, v.w) : v;
			}
		}
	}

	float sums[2][4];
	const uint4* x;  // the lane's, of block 0
	Exponent e;

	__device__ explicit ByCodes(const Inputs&) {}
	// begin is told where the rows are, and the first of a tile's units that is to be multiplied.
	__device__ void begin(const unsigned char* staged, const Segment& s, const Inputs& from, int) {
		int lane = threadIdx.x % 32;
		x = (const uint4*)staged + min(lane / 4, s.rows - 1) * stride(from.in) + lane % 4;
	}
	__device__ void multiply(u32 u, const uint4* words, const PairedCodes& codes, const GroupUnits& units) {
		const uint4* mine = x + block_of(u) * block_vectors;
		if constexpr (as_codes) {
			if (has_one_group(u)) multiply_codes_bits<4>(bits_of_unit(u), sums, words, mine, block_vectors, codes, units, shift_of(u), e);
			else multiply_codes_bits<1>(bits_of_unit(u), sums, words, mine, block_vectors, codes, units, shift_of(u), e);
		} else {
			u32 all[unit_blocks];
#pragma unroll
			for (int i = 0; i < unit_blocks; i++) all[i] = has_one_group(u) && i > 0 ? 0 : units[i];
			multiply_unit<most>(bits_of_unit(u), has_one_group(u), sums, words, mine, codes, all, shift_of(u), e);
		}
	}
	// Of sum i the row, and which of the lane's columns it is; what all are to be multiplied by.
	__device__ float& sum(int i) { return sums[i / 4][i % 4]; }
	__device__ static int row(int i) { return threadIdx.x % 4 * 2 + i % 2; }
	__device__ static constexpr int column_of(int i) { return i / 2; }
	static constexpr float times = as_codes ? 1 << codes_down : 1;
};

// Digits of up to four. A unit's lie together, units as they follow each other in a tile.
struct ByDigits {
	static constexpr int most = FourDigits::rows, vectors = 1;

	__device__ static int bytes(int, int units, int) { return units * four_unit; }
	__device__ static void prepare(unsigned char*, int, int) {}

	template <bool acts>
	__device__ static void bring(unsigned char* to, const Segment& s, const Inputs& from, int thread, int threads) {
		int lane = threadIdx.x % 32;
#pragma unroll 1
		for (int u = thread / 32; u < s.each; u += threads / 32) {
			Taken<acts> taken[2];
			uint4 x[2];
			int column = (block_of(__ldg(&s.places[u].y)) + lane / 8) * block_rows + lane % 4 * 8;
#pragma unroll
			for (int i = 0; i < 2; i++) {
				int row = 2 * i + lane / 4 % 2;
				taken[i].clear();
				if (row < s.rows && column < from.in) taken[i].ask(s, from, s.from + row, column);
			}
#pragma unroll
			for (int i = 0; i < 2; i++) x[i] = taken[i].get(from.unit);
			FourDigits::make((char*)to + u * four_unit, x);
		}
	}

	float sums[4];
	const char* next;  // unit, at the lane's column
	int column, highest;
	Constants c;

	struct Unit {
		static constexpr int block = FourDigits::block, second = FourDigits::second;
		int highest;  // behind the lane's column
		__device__ float one(const char* column) const { return *(const float*)(column + highest); }
	};

	__device__ explicit ByDigits(const Inputs& from) : c((u32)from.in >> 20) {
		int lane = threadIdx.x % 32, n = lane / 4;
		column = n / 2 * 64 + lane % 4 * 16 + n % 2 * 8, highest = unit_blocks * FourDigits::block + lane % 4 * 4 - column;
	}
	__device__ void begin(const unsigned char* staged, const Segment&, const Inputs&, int unit) { next = (const char*)staged + unit * four_unit + column; }

	template <int blocks>
	__device__ void multiply_by(u32 u, const uint4* words, const PairedCodes& codes, const GroupUnits& units) {
		Unit x = {highest};
		int bits = bits_of_unit(u);
		if (bits == 4) multiply_rows_of<4, blocks>(sums, words, x, next, codes, units, c);
		else if (bits == 3) multiply_rows_of<3, blocks>(sums, words, x, next, codes, units, c);
		else if (bits == 5) multiply_rows_of<5, blocks>(sums, words, x, next, codes, units, c);
		else if (bits == 6) multiply_rows_of<6, blocks>(sums, words, x, next, codes, units, c);
		else if (bits == 2) multiply_rows_of<2, blocks>(sums, words, x, next, codes, units, c);
		else multiply_rows_of<8, blocks>(sums, words, x, next, codes, units, c);
	}
	__device__ void multiply(u32 u, const uint4* words, const PairedCodes& codes, const GroupUnits& units) {
		if (has_one_group(u)) multiply_by<4>(u, words, codes, units);
		else if (shift_of(u) == 1) multiply_by<2>(u, words, codes, units);
		else multiply_by<1>(u, words, codes, units);
		next += four_unit;
	}
	__device__ float& sum(int i) { return sums[i]; }
	__device__ static int row(int) { return threadIdx.x % 4; }
	__device__ static constexpr int column_of(int i) { return i; }
	static constexpr float times = 1.0f / FourDigits::base / times_codes;
};
