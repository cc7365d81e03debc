// What products of one x with several EXL2 matrices are told (qmatmul.cu, qmatmul_rows.cu).
#pragma once

#include "exl2.cuh"

constexpr int most_matrices = 4;

// Matrix is one of several of one x; cuda/packed.go has the same.
struct Matrix {
	const uint4* words;   // [tiles, chunks, 32]
	const uint4* scales;  // [tiles, groups]
	const u32* units;     // [groups]
	const uint2* places;  // [count], as Place
	void* y;              // [rows, out], rows ldy elements apart
	const float* bias;    // [out] or null
	int64 ldy;
	int chunks, groups, tiles, count, out;  // count: units of a tile
	int base;                               // tiles of the matrices before
};

// What is done with the products: device.Then. Those from gate on are activated, but for turn, which kernels of these products do not do.
enum Then { store, add, gate, turn, activated, self_gate };
