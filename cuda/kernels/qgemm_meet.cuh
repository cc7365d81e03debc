// How sums of products of some rows (qgemm_hopper.cu) meet, and where they go.
#pragma once

#include "qgemm_some.cuh"

#ifdef __CUDA_ARCH_FEAT_SM90_ALL

// Parts are sums of blocks, of rows that this one finishes: of eight rows after another, of every block, of 32 columns the first half and the other, of every lane.
struct Parts {
	u32 at, there, taken;  // addresses: of the parts, and of what tells that they have arrived, and that they have been read everywhere

	// of is where a tile's parts of a block are, of the first eight rows.
	__device__ u32 of(int tile, int rank) const { return at + rank * part_bytes + tile * 1024 + threadIdx.x % 32 * 16; }

	// expect says how much is to come from others, of so many eights.
	__device__ void expect(const Cluster& c, int eights) const {
		int owned = max(0, (eights - c.rank + c.size - 1) / c.size);
		barrier_expect(there, owned * (c.size - 1) * part_bytes);
	}

	// send sends a tile's sums to those who finish their rows: eights from one on. A lane itself reads what it leaves here.
	template <int n, int from>
	__device__ __forceinline__ void send(const float (&sums)[2][n / 2], const Cluster& c, int tile, int eights) const {
		int owner = 0;
		u32 own = of(tile, c.rank);
#pragma unroll
		for (int j = from; j < min(n / 8, from + eights_at_once); j++) {
			if (j - from >= eights) break;
			u32 to = of_block(own, owner), barrier = of_block(there, owner);
#pragma unroll
			for (int t = 0; t < 2; t++) {
				const float* v = sums[t] + 4 * j;
				if (owner == c.rank) asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};" ::"r"(own + 512 * t), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]) : "memory");
				else asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(to + 512 * t), "f"(v[0]), "f"(v[1]), "f"(v[2]), "f"(v[3]), "r"(barrier) : "memory");
			}
			if (++owner == c.size) owner = 0, own += c.size * part_bytes;
		}
	}

	// total adds the parts of eight rows and a half.
	__device__ __forceinline__ float4 total(u32 from, int size) const {
		float4 v[most_blocks], sum = make_float4(0, 0, 0, 0);
#pragma unroll
		for (int r = 0; r < most_blocks; r++)
			if (r < size) asm volatile("ld.shared.v4.f32 {%0, %1, %2, %3}, [%4];" : "=f"(v[r].x), "=f"(v[r].y), "=f"(v[r].z), "=f"(v[r].w) : "r"(from + r * part_bytes) : "memory");
#pragma unroll
		for (int r = 0; r < most_blocks; r++)
			if (r < size) sum.x += v[r].x, sum.y += v[r].y, sum.z += v[r].z, sum.w += v[r].w;
		return sum;
	}
};

// together waits for all warps that multiply.
__device__ inline void together() { asm volatile("bar.sync 1, 256;" ::: "memory"); }

// Results are where a lane's sums go: pairs of columns of a row, eight further and so on. Sums come by lanes as wgmma has them, of two rows and a column; neighbours
// exchange them.
struct Results {
	char* y;
	int64 row_bytes;
	int rows, columns;  // that there are, from the lane's first on
	int bytes;          // of an element
	bool adds, pairs;   // pairs are at a multiple of their size, and all there

	__device__ Results(const Product& p, const Matrix& m, int tile) {
		int lane = threadIdx.x % 32, odd = lane / 4 % 2, column = tile * tile_columns + lane / 8 * 2, row = lane % 4 * 2 + odd;
		bytes = p.wide ? 4 : 2, adds = p.adds;
		row_bytes = m.ldy * bytes, y = (char*)m.y + row * row_bytes + (int64)column * bytes;
		rows = p.rows - row, columns = m.out - column;
		pairs = ((size_t)m.y | row_bytes) % (2 * bytes) == 0 && (tile + 1) * tile_columns <= m.out;
	}

	// put stores eight rows' sums of sixteen columns from one on.
	__device__ __forceinline__ void put(float4 v, int eight, int from) const {
		bool odd = threadIdx.x & 4;
		float a = __shfl_xor_sync(~0u, odd ? v.x : v.y, 4), b = __shfl_xor_sync(~0u, odd ? v.z : v.w, 4);
		if (8 * eight >= rows) return;
		float4 w = odd ? make_float4(a, v.y, b, v.w) : make_float4(v.x, a, v.z, b);
		char* to = y + 8 * eight * row_bytes + from * bytes;
		if (!pairs) {
			one(to, w.x, from), one(to + bytes, w.y, from + 1), one(to + 8 * bytes, w.z, from + 8), one(to + 9 * bytes, w.w, from + 9);
		} else if (adds) {
			asm volatile("red.global.add.v2.f32 [%0], {%1, %2};\nred.global.add.v2.f32 [%0+32], {%3, %4};" ::"l"(to), "f"(w.x), "f"(w.y), "f"(w.z), "f"(w.w) : "memory");
		} else if (bytes == 4) {
			*(float2*)to = make_float2(w.x, w.y), *(float2*)(to + 32) = make_float2(w.z, w.w);
		} else {
			*(half2*)to = __floats2half2_rn(w.x, w.y), *(half2*)(to + 16) = __floats2half2_rn(w.z, w.w);
		}
	}
	__device__ __noinline__ void one(char* to, float v, int column) const {
		if (column >= columns) return;
		if (adds) asm volatile("red.global.add.f32 [%0], %1;" ::"l"(to), "f"(v) : "memory");
		else if (bytes == 4) *(float*)to = v;
		else *(half*)to = __float2half_rn(v);
	}
};

// Finisher has sums meet, pass after pass.
struct Finisher {
	const Cluster& cluster;
	Parts parts;
	int pass;

	// finish does so with eights of rows from one on, as many as there are and meet at a time, and those behind.
	template <int n, int from>
	__device__ __forceinline__ void finish(const float (&sums)[2][n / 2], const Results& results, int all) {
		int eights = min(eights_at_once, all - from), tile = threadIdx.x / 32;
		if (eights <= 0) return;
		if (pass > 0) barrier_wait(parts.taken, (pass - 1) & 1);
		if (threadIdx.x == 0) parts.expect(cluster, eights);
		parts.send<n, from>(sums, cluster, tile, eights);
		barrier_wait(parts.there, pass & 1);
		u32 own = parts.of(tile, 0);
#pragma unroll 1
		for (int eight = cluster.rank; eight < eights; eight += cluster.size, own += cluster.size * part_bytes)
#pragma unroll
			for (int t = 0; t < 2; t++) results.put(parts.total(own + 512 * t, cluster.size), from + eight, 16 * t);
		together();
		if (threadIdx.x < cluster.size) arrive_at(of_block(parts.taken, threadIdx.x));
		pass++;
		if constexpr (from + eights_at_once < n / 8) finish<n, from + eights_at_once>(sums, results, all);
	}
};

#endif
