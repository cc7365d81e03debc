// Products of units of an EXL2 matrix with two rows of x, or four, by digits (digits.cuh), of which x lies in
// stored order.
//
// Eight columns of a product of bytes are three digits of two rows each, or two digits of four rows each. A warp always
// multiplies the same rows of the matrices, so nobody else needs what it makes of x there: it asks for fp16, and makes
// digits in its place, without a barrier.
#pragma once

#include "newest.cuh"
#include "products.cuh"
#include "rows_digits.cuh"
#include "step.cuh"

constexpr int four_matrices = 3;  // of one x, that four rows are multiplied by at most, as more cost registers

// A Portion is the first block of x that a warp multiplies, and where it is among all portions, in blocks; the next one's
// place is where it ends.
struct Portion {
	unsigned short first, at;
};

constexpr int portion_block = 2 * 3 * 32;  // bytes, of both rows

// Two rows have three digits each, to the base of 128. What an element loses is up to 2^-20 of the largest of a warp's
// portion, in a product a fifteenth of what fp16 has lost of x before, or less (docs/decoding.md). Eight elements of a row are 24 bytes,
// eight of each digit, the lowest first, in put_digits' order. Before, they are fp16 in the last two thirds of the row's bytes.
struct TwoRows {
	static constexpr int rows = 2, digits = 3, block = portion_block / 2;
	static constexpr bool leaves = true;  // results for those who attend, if they are wanted

	char* to;
	int first, blocks;     // of the portion
	const char* column;    // the lane's, of block 0, if it were there
	int second;            // what the second of two digits is, in lowest ones, or 0
	float lowest;          // and what those are, 64 times

	template <class P>
	__device__ TwoRows(const P& p, char* staged) {
		int warp = threadIdx.x / 32;
		Portion portion = p.portions[warp];
		first = portion.first, blocks = p.portions[warp + 1].at - portion.at, to = staged + portion.at * portion_block;
	}

	__device__ char* halves(int row, int i) const { return to + row * blocks * block + blocks * block_rows + 16 * i; }

	// ask asks for x, and then for what is to come behind it.
	template <class P, class Behind>
	__device__ void ask(const P& p, const Behind& behind) const {
#pragma unroll 1
		for (int i = threadIdx.x % 32; i < 4 * blocks; i += 32) {
			int c = first * block_rows + 8 * i;
			const half* x = (const half*)p.x + (c < p.in ? c : 0);
#pragma unroll
			for (int r = 0; r < rows; r++) copy16(halves(r, i), x + r * p.ldx, c < p.in);
		}
		commit();
		behind();
	}

	// begin waits for x, behind which one batch has been asked for, and makes digits of it.
	__device__ void begin() {
		int lane = threadIdx.x % 32, n = lane / 4;
		column = to + n / 4 * blocks * block - first * block + lane % 4 * 24 + min(n % 4, 2) * 8;
		second = lane % 2 ? 0 : 128;
		arrived<1>();
		half2 most[rows], times[rows];
#pragma unroll
		for (int r = 0; r < rows; r++) most[r] = __float2half2_rn(0);
#pragma unroll 1
		for (int i = lane; i < 4 * blocks; i += 32)
#pragma unroll
			for (int r = 0; r < rows; r++) measure(most[r], *(const uint4*)halves(r, i));
#pragma unroll
		for (int r = 0; r < rows; r++) {
			FixedPoint fixed(measured(most[r]));
			times[r] = __float2half2_rn(fixed.to);
			if (r == lane % 4 / 2) lowest = fixed.lowest * ((lane % 2 ? 128.0f * 128 * 128 : 128.0f) / times_codes);  // than of four digits
		}
#pragma unroll 1
		for (int i = lane; i - lane < 4 * blocks; i += 32) {
			uint4 x[rows];
#pragma unroll
			for (int r = 0; r < rows; r++)
				if (i < 4 * blocks) x[r] = *(const uint4*)halves(r, i);
			__syncwarp();
#pragma unroll
			for (int r = 0; r < rows; r++)
				if (i < 4 * blocks) put(to + r * blocks * block + 24 * i, x[r], times[r]);
		}
		__syncwarp();
	}

	__device__ static void put(char* to, uint4 v, half2 times) {
		u32 d[4][digits], x[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
		for (int i = 0; i < 4; i++) digits_of(d[i], half2_of(x[i]), times);
#pragma unroll
		for (int i = 0; i < digits; i++) *(uint2*)(to + 8 * i) = make_uint2(__byte_perm(d[0][i], d[2][i], 0x6240), __byte_perm(d[1][i], d[3][i], 0x6240));
	}

	// A tile of a matrix has the warp's units one after the other: column_of returns where the lane's of the next is, by what
	// it is, for which others are told in advance.
	__device__ void begin_round() {}
	template <class P, class R>
	__device__ void begin_tile(const P&, R) {}
	__device__ void begin_unit() {}
	__device__ const char* column_of(u32 what) { return column + step_row(what) * (block / block_rows); }
	__device__ float one(const char*) const { return 1; }

	// keep puts a warp's sums of a tile where they are added. Two lanes hand each other what they have of a row's columns,
	// and each keeps half of them.
	__device__ void keep(float* parts, float (&sums)[4]) const {
		int lane = threadIdx.x % 32, odd = lane % 2;
		float* row = parts + lane % 4 / 2 * tile_columns + lane / 4 + 16 * odd;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			float a = sums[i] * lowest, b = sums[2 + i] * lowest;
			row[8 * i] = (odd ? b : a) + __shfl_xor_sync(~0u, odd ? a : b, 1);
		}
	}
};

// An Area is where x of a matrix's units is, in units, and which one it is: matrices whose units begin at the same
// blocks share it.
struct Area {
	short id, at;
};

// FourRows are four rows' digits, made when a warp comes to a unit first. Of eight elements of a row fp16 and digits are the same 16 bytes.
// Behind all units is one whose digits are something times zero, for warps that have none.
struct FourRows : FourDigits {
	static constexpr bool leaves = false;

	char* staged;
	int column, highest;  // in a unit: the lane's column, and what digits of its row are
	int made;             // areas
	bool fresh;           // the tile's is not made
	char* next;           // unit
	int matrix, tiles;    // of the round: where the warp is, and how many are to come
	int blocks[four_matrices];  // of the warp's units, a lane's first one
	u32 units[four_matrices];   // the first of them, and how many, 16 bits each

	template <class P>
	__device__ FourRows(const P& p, char* staged) : staged(staged), made(0) {
		int lane = threadIdx.x % 32, n = lane / 4;
		column = n / 2 * 64 + lane % 4 * 16 + n % 2 * 8, highest = unit_blocks * block + lane % 4 * 4;
#pragma unroll
		for (int k = 0; k < four_matrices; k++) {
			units[k] = 0;
			if (k >= p.count || !p.has(k)) continue;
			int all = p.m[k].count, warp = threadIdx.x / 32, warps = blockDim.x / 32, each = steps_of_warp(all, warps), from = all * warp / warps;
			blocks[k] = step_block(__ldg((const u32*)p.m[k].places + 4 * (warp * each + min(lane, each - 1)))), units[k] = from | (all * (warp + 1) / warps - from) << 16;
		}
		if (threadIdx.x < rows) *(float*)(none(p) + unit_blocks * block + threadIdx.x * 4) = 0;
	}

	// none returns the unit that is behind all.
	template <class P>
	__device__ char* none(const P& p) const { return staged + p.areas[most_matrices].at * four_unit; }

	// ask brings x, by loads, which do not wait for words that copies have asked for before, as copies would; behind
	// the first ones it asks for what is to come.
	template <class P, class Behind>
	__device__ void ask(const P& p, const Behind& behind) const {
		constexpr int together = 3;  // units
		int asked = 0;
		bool begun = false;
#pragma unroll
		for (int k = 0; k < four_matrices; k++) {
			u32 mine = units[k];
			int from = mine & 0xffff, count = mine >> 16;
			if (count == 0 || asked >> p.areas[k].id & 1) continue;
			asked |= 1 << p.areas[k].id;
#pragma unroll 1
			for (int j = 0; j < count; j += together) {
				uint4 v[together][2];
#pragma unroll
				for (int n = 0; n < together; n++) load(v[n], p, __shfl_sync(~0u, blocks[k], min(j + n, 31)), j + n < count);
				if (!begun) behind(), begun = true;
				char* to = staged + (p.areas[k].at + from + j) * four_unit;
#pragma unroll
				for (int n = 0; n < together; n++)
#pragma unroll
					for (int i = 0; i < 2; i++)
						if (j + n < count) *(uint4*)(to + n * four_unit + part(i)) = v[n][i];
			}
		}
		if (!begun) behind();
	}

	// load reads a unit from block `first` of x on, if it is there. A lane has eight elements of a row and of another: of
	// block lane/8, rows 8q to 8q+7 with q = lane%4.
	template <class P>
	__device__ static void load(uint4 (&v)[2], const P& p, int first, bool there) {
		int lane = threadIdx.x % 32, c = (first + lane / 8) * block_rows + lane % 4 * 8;
#pragma unroll
		for (int i = 0; i < 2; i++) {
			v[i] = make_uint4(0, 0, 0, 0);
			if (there && c < p.in) v[i] = newest((const uint4*)((const half*)p.x + min(2 * i + lane / 4 % 2, p.rows - 1) * p.ldx + c));
		}
	}

	__device__ void begin() const { __syncwarp(); }

	__device__ void begin_round() { matrix = -1, tiles = 0; }
	template <class P, class R>
	__device__ void begin_tile(const P& p, R round) {
		if (tiles == 0) {
			do tiles = max(in(p.m[++matrix], round).size(), 0);
			while (tiles == 0);
		}
		tiles--;
		Area a = p.areas[matrix];
		u32 mine = matrix == 0 ? units[0] : matrix == 1 ? units[1] : units[2];
		bool some = mine >> 16;
		next = some ? staged + (a.at + (mine & 0xffff)) * four_unit : none(p);
		fresh = some && !(made >> a.id & 1);
		made |= some << a.id;
	}
	__device__ void begin_unit() {
		if (fresh) make(next);
	}
	__device__ const char* column_of(u32) {
		const char* at = next + column;
		next += four_unit;
		return at;
	}
	__device__ float one(const char* at) const { return *(const float*)(at + (highest - column)); }

	__device__ void keep(float* parts, float (&sums)[4]) const {
		float* row = parts + threadIdx.x % 4 * tile_columns + threadIdx.x % 32 / 4;
#pragma unroll
		for (int i = 0; i < 4; i++) row[8 * i] = sums[i] * (1.0f / base / times_codes);
	}
};

// multiply_rows_narrow is multiply_rows_of by what a step is, of up to four bits; multiply_rows_wide is that of more.
template <int blocks, class X, class Codes, class Units>
__device__ inline void multiply_rows_narrow(u32 what, float (&sums)[4], const uint4* words, const X& x, const char* column, const Codes& codes, const Units& units, const Constants& c) {
	if (what & 2 << first_width) multiply_rows_of<4, blocks>(sums, words, x, column, codes, units, c);
	else if (what & 1 << first_width) multiply_rows_of<3, blocks>(sums, words, x, column, codes, units, c);
	else multiply_rows_of<2, blocks>(sums, words, x, column, codes, units, c);
}

template <int blocks, class X, class Codes, class Units>
__device__ inline void multiply_rows_wide(u32 what, float (&sums)[4], const uint4* words, const X& x, const char* column, const Codes& codes, const Units& units, const Constants& c) {
	if (what & 1 << first_width) multiply_rows_of<6, blocks>(sums, words, x, column, codes, units, c);
	else if (what & 2 << first_width) multiply_rows_of<8, blocks>(sums, words, x, column, codes, units, c);
	else multiply_rows_of<5, blocks>(sums, words, x, column, codes, units, c);
}

// multiply_rows adds the products of a step with digits in the lane's column, likely ones first.
template <class X, class Codes, class Units>
__device__ inline void multiply_rows(u32 what, float (&sums)[4], const uint4* words, const X& x, const char* column, const Codes& codes, const Units& units, const Constants& c) {
	if (!(what & (many_groups | wide))) {
		multiply_rows_narrow<4>(what, sums, words, x, column, codes, units, c);
	} else if (!(what & (four_groups | wide))) {
		multiply_rows_narrow<2>(what, sums, words, x, column, codes, units, c);
	} else if (!(what & many_groups)) {
		multiply_rows_wide<4>(what, sums, words, x, column, codes, units, c);
	} else if (!(what & four_groups)) {
		multiply_rows_wide<2>(what, sums, words, x, column, codes, units, c);
	} else {
		if (what & wide) multiply_rows_wide<1>(what, sums, words, x, column, codes, units, c);
		else multiply_rows_narrow<1>(what, sums, words, x, column, codes, units, c);
	}
}
