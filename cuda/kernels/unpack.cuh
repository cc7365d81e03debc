// Units of an EXL2 matrix (exl2.cuh) to fp16 weights, transposed.
#pragma once

#include "exl2.cuh"

// decode_block gives a lane's columns of block j of a unit, eight rows each, of the words
// that word returns.
template <int bits, class Word>
__device__ inline void decode_block(uint4 (&columns)[4], Word word, int j, u32 codes, u32 unit, Exponent e) {
	u32 words[bits];
	half2 v[16], scales[2];
#pragma unroll
	for (int i = 0; i < bits; i++) words[i] = word(j * bits + i);
	numbers<bits>(v, words, e);
	scales_of(scales, codes, unit, e);
#pragma unroll
	for (int c = 0; c < 4; c++) {
		half2 scale = __half2half2(scale_of(scales, c));
		u32* to = (u32*)&columns[c];
#pragma unroll
		for (int i = 0; i < 4; i++) to[i] = bits_of(__hmul2(v[4 * c + i], scale));
	}
}

// Unpacking is units of a matrix that are to be decoded, those of a tile after each other;
// cuda/unpack.go has the same.
struct Unpacking {
	const uint4* words;            // [tiles, chunks, 32]
	const unsigned short* scales;  // [tiles, groups, 8]
	const u32* units;              // [groups]
	const uint2* places;           // [count], as Place of qmatmul.cu
	half* to;                      // [out, in]
	const half* rows;              // [out]: row of to of each column, a 16-bit number, or null
	int chunks, groups, count, out, in;
	int first, end, unused;        // units, of all tiles
};

template <int bits>
__device__ inline void unpack_unit(const Unpacking& p, int tile, uint2 place, int end, int lane) {
	int block = place.y >> 7 & 0x1fff, shift = place.y >> 5 & 3, group = place.y >> 20, blocks = min(unit_blocks, end - block);
	const uint4* from = p.words + ((int64)tile * p.chunks + place.x) * 32 + lane;
	const unsigned short* scales = p.scales + (int64)tile * p.groups * 8 + lane / 4;
	uint4 words[bits];
	u32 codes[unit_blocks], units[unit_blocks];
#pragma unroll
	for (int i = 0; i < bits; i++) words[i] = __ldcs(from + i * 32);
	half* to[4];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		int g = min(group + (j >> shift), p.groups - 1);
		codes[j] = __ldg(scales + g * 8), units[j] = __ldg(p.units + g);
		int column = tile * tile_columns + lane / 4 + 8 * j;
		bool there = column < p.out;
		int row = there && p.rows ? __half_as_ushort(p.rows[column]) : column;
		to[j] = there ? p.to + (int64)row * p.in + block * block_rows + lane % 4 * 8 : nullptr;
	}
	Exponent e;
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		if (j >= blocks) break;
		uint4 v[4];
		decode_block<bits>(v, [&](int i) { return ((const u32*)&words[i / 4])[i % 4]; }, j, codes[j], units[j], e);
#pragma unroll
		for (int c = 0; c < 4; c++)
			if (to[c]) __stcs((uint4*)(to[c] + j * block_rows), v[c]);
	}
}

// unpack decodes a unit, with a warp.
__device__ inline void unpack(const Unpacking& p, int i) {
	int lane = threadIdx.x % 32, tile = i / p.count, unit = i - tile * p.count;
	uint2 place = __ldg(p.places + unit);
	int end = unit + 1 < p.count ? __ldg(&p.places[unit + 1].y) >> 7 & 0x1fff : p.in / block_rows;  // where its region may end
	switch (place.y >> 1 & 15) {
		case 2: return unpack_unit<2>(p, tile, place, end, lane);
		case 3: return unpack_unit<3>(p, tile, place, end, lane);
		case 4: return unpack_unit<4>(p, tile, place, end, lane);
		case 5: return unpack_unit<5>(p, tile, place, end, lane);
		case 6: return unpack_unit<6>(p, tile, place, end, lane);
		case 8: return unpack_unit<8>(p, tile, place, end, lane);
	}
}
