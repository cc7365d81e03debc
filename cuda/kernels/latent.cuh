// What latent attention brings: how queries and keys turn, and what is stored; and how the positions of a single row are divided
// (attend_latent_rows.cu), and what blocks leave of them for the products behind (gemv_heads.cu).
#pragma once

#include "attend.cuh"
#include "fault.cuh"
#include "reduce.cuh"
#include "rope.cuh"

constexpr int at_once = 64;  // positions that blocks divide
constexpr int alone = 2;     // times as many are one block's without help
constexpr int most_parts = 128;

// Divided is the positions that a row sees, in tiles, and among how many blocks they are divided.
struct Divided : Seen {
	using Seen::Seen;
	__device__ int tiles() const { return (end - start + at_once - 1) / at_once; }
	__device__ int parts(int most) const { return max(1, min(most, (tiles() + alone - 1) / alone)); }
};

// Found is what blocks have found of heads: means of values weighted by 2^(score - top), and sums of the weights.
struct Found {
	half* means;    // [rows, heads, most, latent]
	float* totals;  // [rows, heads, most, 2]: top, sum of weights
	int heads, most, latent;

	__device__ int64 of(int row, int head, int part) const { return ((int64)row * heads + head) * most + part; }
};

// Turns is how the first columns of a key, and of a query, turn.
struct Turns {
	const float* freqs;  // [pairs]
	int pairs, interleaved;
	float scale;

	// at returns the turn of pair i.
	__device__ float2 at(int i, int pos) const {
		float2 t = turn((double)pos * (double)freqs[i]);
		return make_float2(t.x * scale, t.y * scale);
	}

	// put turns pair i of some columns.
	__device__ void put(half* to, const half* from, int i, float2 t) const {
		int a = interleaved ? 2 * i : i, b = interleaved ? 2 * i + 1 : i + pairs;
		float u = widen(from[a]), v = widen(from[b]);
		to[a] = __float2half_rn(u * t.x - v * t.y), to[b] = __float2half_rn(v * t.x + u * t.y);
	}
};

// Newest is what rows bring: latents and, behind them, what has positions, which go to the cache the other way round.
struct Newest {
	const half* kv;      // [rows, latent + beside], rows ld elements apart
	const float* scale;  // of the norm of latents, [latent]
	const int *pos, *seq, *table;
	half* pages;  // [pages·page_rows, beside + latent]
	int* fault;
	int latent, sequences, table_cols, count, page_rows;
	int64 ld;
	float eps, offset;

	// place returns where a row's key goes, or null.
	__device__ half* place(int row, int beside) const {
		int p = pos[row], s = seq[row], page = -1;
		if (s >= 0 && s < sequences && p >= 0 && p / page_rows < table_cols) page = table[s * table_cols + p / page_rows];
		if (page >= 0 && page < count) return pages + ((int64)page * page_rows + p % page_rows) * (beside + latent);
		if (threadIdx.x == 0) report(fault, position_fault, p, table_cols * page_rows);
		return nullptr;
	}

	// put has so many threads store a row's key.
	template <int threads>
	__device__ void put(int row, int beside, const Turns& turns) const {
		const half* from = kv + row * ld;
		half* to = place(row, beside);
		float squares = 0;
		for (int c = threadIdx.x; c < latent; c += threads) squares += widen(from[c]) * widen(from[c]);
		float inverse = 1 / sqrtf(block_sum(squares) / latent + eps);
		if (!to) return;
		for (int c = threadIdx.x; c < latent; c += threads) to[beside + c] = __float2half_rn(widen(from[c]) * inverse * (scale[c] + offset));
		for (int i = threadIdx.x; i < turns.pairs; i += threads) turns.put(to, from + latent, i, turns.at(i, pos[row]));
		for (int c = 2 * turns.pairs + threadIdx.x; c < beside; c += threads) to[c] = from[latent + c];
	}
};
