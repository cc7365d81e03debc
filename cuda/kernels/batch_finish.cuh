// How sums of products of several rows meet, and what is done with them.
#pragma once

#include "act.cuh"
#include "barrier.cuh"
#include "batch_rows.cuh"

#if __CUDA_ARCH__ >= 900

// Parts are what blocks have of tiles that this one finishes: of tile `local`, those of a block behind each
// other, as many as counts says.
template <int eights>
struct Parts {
	static constexpr int vectors = eights * 2 * 32;  // of a part: lanes' sums, 16 bytes each
	float4* at;
	unsigned char* counts;
	u64* arrival;  // of all parts of a round

	// fill counts, and says how much is to arrive.
	__device__ void fill(const Product& p, Range round) const {
		int all = 0;
		int tiles = p.then == gate ? 2 * p.owned : p.owned, rank = rank_in_cluster();
#pragma unroll 1
		for (int i = threads - 1 - threadIdx.x; i < tiles * p.blocks; i += threads) {  // the last warp: the first one waits for the cluster
			int local = divided(i, p.per_block), b = i - local * p.blocks, k = 0, begin = 0, n = 0;
			bool second = local >= p.owned;
			int item = (second ? local - p.owned : local) * p.blocks + rank + round.from;
			if (item < round.to) {
				if (p.then == gate) {
					k = second;
					if (second) begin = round.size() * units_of(p, 0, b).size();
				} else {
#pragma unroll 1
					for (; k < p.count - 1 && item >= p.m[k + 1].base; k++) begin += in(p.m[k], round).size() * units_of(p, k, b).size();
				}
				n = units_of(p, k, b).size();
				begin += (item - p.m[k].base - in(p.m[k], round).from) * n;
			}
			n = n > 0 ? divided(begin + n - 1, p.per_each) - divided(begin, p.per_each) + 1 : 0;
			counts[i] = n, all += n;
		}
		if (all > 0) asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(shared_address(arrival)), "r"(all * vectors * (int)sizeof(float4)) : "memory");
	}

	// send sends a warp's sums, and begins new ones.
	__device__ void send(float (&sums)[eights][2][4], int part, int owner) const {
		u32 there = of_block(at + part * vectors + threadIdx.x % 32, owner), barrier = of_block(arrival, owner);
#pragma unroll
		for (int n = 0; n < eights; n++)
#pragma unroll
			for (int t = 0; t < 2; t++) {
				float(&s)[4] = sums[n][t];
				asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(there + (2 * n + t) * 32 * (int)sizeof(float4)), "f"(s[0]), "f"(s[1]), "f"(s[2]), "f"(s[3]), "r"(barrier) : "memory");
				s[0] = s[1] = s[2] = s[3] = 0;
			}
	}

	// counted returns how many parts of a tile each block has, in a byte.
	__device__ u32 counted(const Product& p, int local) const {
		u32 n = 0;
#pragma unroll
		for (int b = 0; b < most_blocks; b++)
			if (b < p.blocks) n |= counts[local * p.blocks + b] << 8 * b;
		return n;
	}

	// total adds the parts of a tile, vectors of two, those of two blocks at a time.
	__device__ float2 total(const Product& p, int local, int vector, u32 counted) const {
		constexpr int together = 4;  // of a block, that are loaded
		const float2* from = (const float2*)(at + local * p.blocks * p.parts * vectors) + vector;
		int next = p.parts * 2 * vectors;
		float2 sum = make_float2(0, 0);
#pragma unroll 1
		for (; counted; counted >>= 16, from += 2 * next) {
			int n = counted & 255, m = counted >> 8 & 255;
			const float2* at = from;
#pragma unroll 1
			for (int w = 0; w < max(n, m); w += together, at += together * 2 * vectors) {
				float2 v[together], u[together];
#pragma unroll
				for (int j = 0; j < together; j++) {
					v[j] = w + j < n ? at[j * 2 * vectors] : make_float2(0, 0);
					u[j] = w + j < m ? at[next + j * 2 * vectors] : make_float2(0, 0);
				}
#pragma unroll
				for (int j = 0; j < together; j++) sum.x += v[j].x + u[j].x, sum.y += v[j].y + u[j].y;
			}
		}
		return sum;
	}
};

// opened is activate, once in the code.
__device__ __noinline__ float opened(int act, float x) { return activate(act, x); }

// Results are two of y: of row and the one behind it, of one column.
template <int eights>
struct Results {
	static constexpr int of_tile = Parts<eights>::vectors * 2;
	int local, vector, part, item, row, column, to, k;
	u32 counted, gated;
	float bias, other, y[2];
	float weight, power[2];
	int left;

	__device__ bool there(const Product& p, int r) const { return row + r < p.rows && column < p.m[k].out; }

	// Two lanes have what was one's of the products: of its columns, one each.
	__device__ Results(const Product& p, const Parts<eights>& parts, Range round, int i) {
		local = i / of_tile, item = round.from + local * p.blocks + rank_in_cluster();
		int lane = i % 32, eight = i % of_tile / 32, quad = eight / 2, pair = eight % 2 * 2 + lane % 2, second = lane / 2 % 2;
		vector = 2 * (quad * 32 + lane / 4 * 4 + pair) + second;
		part = item * 2 + quad % 2, row = quad / 2 * 8 + pair * 2, k = 0;
		if (item >= round.to) return;
		counted = parts.counted(p, local), gated = p.then == gate ? parts.counted(p, p.owned + local) : 0;
#pragma unroll 1
		while (k < p.count - 1 && p.then != gate && item >= p.m[k + 1].base) k++;
		const Matrix& m = p.m[k];
		column = (item - m.base) * tile_columns + quad % 2 * 16 + lane / 4 + second * 8;
		bool in_row = column < m.out, links = p.link.left && in_row;
		to = p.to && in_row ? __half_as_ushort(p.to[column]) : column;
		bias = m.bias && in_row ? m.bias[column] : 0;
		other = p.then == gate && p.m[1].bias && in_row ? p.m[1].bias[column] : 0;
		left = links ? __half_as_ushort(p.link.places[column]) : 0, weight = links ? p.link.scale[column] + p.link.offset : 0;
#pragma unroll
		for (int r = 0; r < 2; r++) {
			y[r] = p.then == add && there(p, r) ? read_square((const float*)m.y + (row + r) * m.ldy + to) : 0;
			power[r] = p.link.left && p.link.powers && row + r < p.rows ? read_square(p.link.powers + row + r) : 1;
		}
	}

	__device__ void store(const Product& p, const Parts<eights>& parts, const float* factors) const {
		float2 all = parts.total(p, local, vector, counted), second = make_float2(0, 0);
		if (p.then == gate) second = parts.total(p, p.owned + local, vector, gated);
		const float *sums = &all.x, *others = &second.x;
		const Matrix& m = p.m[k];
		float squares[2] = {};
#pragma unroll
		for (int r = 0; r < 2; r++) {
			if (!there(p, r)) continue;
			float factor = factors[row + r], v = sums[r] * factor + bias;
			int64 at = (row + r) * m.ldy + to;
			if (p.then >= gate) v = opened(p.act, v) * (p.then == gate ? others[r] * factor + other : p.then == self_gate ? v : 1);
			if (p.then == add) ((float*)m.y)[at] = v += y[r];
			else if (p.wide) ((float*)m.y)[at] = v;
			else ((half*)m.y)[at] = __float2half_rn(v);
			if (p.link.left) {
				squares[r] = v * v;
				p.link.left[(int64)(row + r) * p.link.cols + left] = __float2half_rn(fminf(fmaxf(v * weight * power[r], -65504), 65504));
			}
		}
		if (p.link.left) leave(p, squares);
	}

	// leave adds up the squares of half a tile, and leaves them.
	__device__ void leave(const Product& p, float (&squares)[2]) const {
		int lane = threadIdx.x % 32;
#pragma unroll
		for (int r = 0; r < 2; r++) {
#pragma unroll
			for (int step = 2; step < 32; step *= 2) squares[r] += __shfl_xor_sync(~0u, squares[r], step);
			if (lane >= 2 || row + r >= p.rows) continue;
			float* to = p.link.left_squares + (row + r) * squares_stride;
			to[1 + part] = squares[r];
			if (part == 0) to[0] = power[r];
		}
	}
};

#endif
