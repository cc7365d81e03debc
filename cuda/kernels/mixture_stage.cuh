// What blocks of a mixture's kernels (mixture.cu) have of tiles and units, and how digits of the row come to them.
#pragma once

#include "choice.cuh"
#include "cluster.cuh"
#include "expert_feed.cuh"

constexpr int most_blocks = 8;  // of a cluster

// Left is what the router's kernel leaves of the row, and the first kernel of its results.
struct Left {
	const u32* words;  // [in] digits, an element's in a word, and what the lowest are
	half* acts;        // [chosen, width], ld apart, in down's order
	int64 ld;
};

// row_of returns what the router's kernel leaves of the block's row, worked out here and not behind the wait.
__device__ inline const u32* row_of(const int* words, int in) {
	const u32* row = (const u32*)words + blockIdx.z * row_words(in);
	asm volatile("" : "+l"(row));
	return row;
}

// octet returns the digits of eight stored rows, whose places in x are given, as Digits
// reads them.
__device__ inline void octet(u32* to, const u32* words, const Eight<half>& at) {
	u32 w[8], d[8];
#pragma unroll
	for (int j = 0; j < 8; j++) w[j] = words[__half_as_ushort(at.v[j])];
#pragma unroll
	for (int j = 0; j < 2; j++) {  // rows 0, 4, 1, 5, and 2, 6, 3, 7
		u32 a = w[2 * j], b = w[2 * j + 4], c = w[2 * j + 1], e = w[2 * j + 5];
		u32 low = __byte_perm(a, b, 0x5140), low2 = __byte_perm(c, e, 0x5140), high = __byte_perm(a, b, 0x7362), high2 = __byte_perm(c, e, 0x7362);
		d[j] = __byte_perm(low, low2, 0x5410), d[2 + j] = __byte_perm(low, low2, 0x7632);
		d[4 + j] = __byte_perm(high, high2, 0x5410), d[6 + j] = __byte_perm(high, high2, 0x7632);
	}
	uint4 low = make_uint4(d[0], d[1], d[2], d[3]), high = make_uint4(d[4], d[5], d[6], d[7]);
	bool swap = swaps();
	put_words(to + 4 * swap, swap ? high : low);
	put_words(to + 4 * !swap, swap ? low : high);
}

// zero_behind zeros what is behind a row of digits.
__device__ inline void zero_behind(u32* row, int in) {
	if (threadIdx.x < row_padding) row[in + threadIdx.x] = 0;
}

// A Tiling is the units of some tiles of a matrix, one tile's after the other's.
struct Tiling {
	const Table& table;
	const int* entry;
	int units, first;  // of a tile; tile
	__device__ Listed operator()(int i) const {
		int tile = first;
		for (; i >= units; i -= units) tile++;
		return unit_of(table, entry, i, tile, 0);
	}
};

// Span is a block's tiles of a matrix.
struct Span {
	int from, count;
};

// A Share is a warp's units of a span: numbers among those of all its tiles, and of the first, which tile's unit it is.
struct Share {
	int units, from, to, tile, unit;  // units of a tile

	__device__ Share(int units, Span span) : units(units) {
		int warp = threadIdx.x / 32, all = units * span.count;
		from = all * warp / warps, to = all * (warp + 1) / warps;
		tile = from / max(units, 1), unit = from - tile * units;
	}
	// keep has the compiler know it where it is said to.
	__device__ void keep() { asm volatile("" : "+r"(from), "+r"(to), "+r"(tile), "+r"(unit)); }
};

// share_of is not in line, as code that is jumped over makes what is behind it come late.
__device__ __noinline__ Share share_of(const Matrix& m, Span span) { return Share(m.units128, span); }

// Own is what a thread brings of the row's digits, in the row's order, to shared memory.
struct Own {
	static constexpr int most = 2;
	uint4 v[most];
	float lowest;

	__device__ Own(const u32* row, int in) {
#pragma unroll
		for (int k = 0; k < most; k++)
			if (at(k) < in) v[k] = __ldcg((const uint4*)(row + at(k)));
		lowest = __uint_as_float(__ldcg(row + in));
	}
	__device__ static int at(int k) { return (threadIdx.x + k * blockDim.x) * 4; }
	__device__ void put(u32* to, const u32* row, int in) const {
#pragma unroll
		for (int k = 0; k < most; k++)
			if (at(k) < in) *(uint4*)(to + at(k)) = v[k];
#pragma unroll 1
		for (int k = most; at(k) < in; k++) *(uint4*)(to + at(k)) = __ldcg((const uint4*)(row + at(k)));
	}
};

constexpr int asked_first = 1;  // units of a warp, before the row is put in order: reads wait behind words

// Late is what a thread needs behind the products, and asks for before them: where in down's order its first
// column is, and the column's bias.
struct Late {
	int place;
	float bias;
};

// asked asks for a pointer of the table, here.
template <class T>
__device__ inline const T* asked(const T* const& of) {
	const T* p;
	asm volatile("ld.global.nc.u64 %0, [%1];" : "=l"(p) : "l"(&of));
	return p;
}

// order_of asks for the places of eight stored rows, here.
__device__ inline uint4 order_of(const half* p) {
	uint4 v;
	asm volatile("ld.global.nc.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p));
	return v;
}
