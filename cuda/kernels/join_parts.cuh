// How the last of the blocks that share heads joins what all of them have found, which is
// in memory.
#pragma once

#include "decode.cuh"

// join_parts joins n parts of every head: of(i, head) is where a part's sums are, and
// `stats` numbers behind there is what they are relative to, and the sum of weights.
// found is shared memory, for a Part a thread; `ahead` parts are asked for at a time.
template <int threads, bool full, int ahead = 8, class Of>
__device__ inline void join_parts(Part* found, const Attend& a, const Heads& h, half* y, int n, int stats, const Of& of) {
	int vectors = (a.dim + 3) / 4, all = h.count * vectors;
	int ways = max(1, threads / all);  // threads of a vector, each of which has every so manyeth part
	for (int i = threadIdx.x; i < all * ways; i += threads) {
		int vector = i % all, head = vector / vectors, at = vector % vectors * 4;
		Part sum = {no_score, 0, make_float4(0, 0, 0, 0)};
		for (int part = i / all; part < n; part += ahead * ways) {
			Part p[ahead + 1];
#pragma unroll
			for (int j = 0; j < ahead; j++) {
				bool counts = part + j * ways < n;
				const float* from = of(min(part + j * ways, n - 1), head);
				p[j].out = __ldcg((const float4*)(from + at));
				float2 s = __ldcg((const float2*)(from + stats));
				p[j].top = counts ? s.x : no_score, p[j].sum = counts ? s.y : 0;
				if (!counts) p[j].out = make_float4(0, 0, 0, 0);
			}
			p[ahead] = sum;
			sum = join(p);
		}
		if (ways == 1)
			put_result<full>(a, y, Spot(a, (h.first + head) * a.dim + at), sum, h.first + head, at);
		else
			found[i] = sum;
	}
	if (ways == 1) return;
	__syncthreads();
	for (int i = threadIdx.x; i < all; i += threads) {
		int head = i / vectors, at = i % vectors * 4;
		Part sum = found[i];
		for (int w = 1; w < ways; w++) {
			Part both[2] = {sum, found[i + w * all]};
			sum = join(both);
		}
		put_result<full>(a, y, Spot(a, (h.first + head) * a.dim + at), sum, h.first + head, at);
	}
}
