// A mixture of experts for one row, behind the logits of its router (choose.cu), in two
// kernels (device.Fuser.Mixture): gate and up of the chosen, and down with the weighted
// sum.
//
// Every block ranks the experts for itself, in the order in which they are chosen. In the
// first kernel it has some tiles of one of their matrices. It norms the row while the
// router multiplies: which it may, because the router's kernel lets it start only after
// it has waited itself (arrive.cuh). In the second, a block, or a cluster, has a tile of
// columns, and the units of all the chosen experts' matrices in it are shared among its
// warps: no sums pass through memory. Its words are asked for before gate and up are done,
// by the same promise.
//
// A lane copies what it will read itself, of words and scales, so that it waits for
// nothing else.
#include "act.cuh"
#include "cluster.cuh"
#include "expert.cuh"
#include "norm_row.cuh"
#include "rolled.cuh"
#include "route.cuh"

constexpr int warps = 12;      // of a block
constexpr int most_slots = 6;  // units that a warp has asked for at once
constexpr int most_listed = 32;  // of a warp, in the second kernel
constexpr int most_units = 32 * warps;  // of a tile, in the first
constexpr int most_blocks = 8;  // of a cluster
constexpr int most_experts = 512;

static_assert(most_listed == 32 && most_slots <= 7, "a lane lists a unit; arrived_but takes six");

// Chosen is the experts of the row, and their weights.
struct Chosen {
	int experts[32];
	float weights[32];
};

// A Counting is how a block ranks experts: all at once, each by those before it.
struct Counting {
	unsigned by[most_experts];   // what is ranked by, as ordered
	float score[most_experts];  // logits
};

// score_of returns the score of a logit, of a softmax but for a factor.
__device__ inline float score_of(const Rule& r, float logit, float most) {
	return r.score == softmax_all ? expf(logit - most) : r.score == sigmoids ? sigmoid(logit) : logit;
}

// moments returns the largest logit, and the sum of a softmax, to each lane of a warp.
__device__ inline void moments(const Counting& c, int experts, float& most, float& sum) {
	int lane = threadIdx.x % 32;
	most = never(), sum = 0;
#pragma unroll 4
	for (int e = lane; e < experts; e += 32) most = fmaxf(most, c.score[e]);
#pragma unroll
	for (int step = 16; step > 0; step /= 2) most = fmaxf(most, __shfl_xor_sync(~0u, most, step));
#pragma unroll 4
	for (int e = lane; e < experts; e += 32) sum += expf(c.score[e] - most);
	sum = warp_sum(sum);
}

// count_ranks ranks by counting what is before each expert, two threads an expert; not of
// groups, nor SparseMixer's. Weights are left by the first warp, to itself.
template <bool weighs>
__device__ inline void count_ranks(Chosen& to, Counting& c, const Given& g, const Rule& r) {
	int lane = threadIdx.x % 32, padded = (g.experts + 15) / 16 * 16;
	for (int e = threadIdx.x; e < padded; e += blockDim.x) {
		float v = e < g.experts ? __ldcg(g.logits + e) : never();
		c.score[e] = v, c.by[e] = ordered(v == v ? v : never());
	}
	__syncthreads();
	float most = 0, sum = 1;
	if (r.score == softmax_all && (g.correction || weighs && threadIdx.x < 32)) moments(c, g.experts, most, sum);
	if (g.correction) {
		__syncthreads();
		for (int e = threadIdx.x; e < g.experts; e += blockDim.x) {
			float v = score_of(r, c.score[e], most) / sum + g.correction[e];
			c.by[e] = ordered(v == v ? v : never());
		}
		__syncthreads();
	}
#pragma unroll 1
	for (int i = threadIdx.x; i < 2 * padded; i += blockDim.x) {
		int e = i / 2, rank = 0;
		unsigned mine = c.by[e];
#pragma unroll 4
		for (int j = i % 2 * 4; j < padded; j += 8) {
			uint4 v = *(const uint4*)(c.by + j);
			rank += (v.x + (j < e) > mine) + (v.y + (j + 1 < e) > mine) + (v.z + (j + 2 < e) > mine) + (v.w + (j + 3 < e) > mine);
		}
		rank += __shfl_xor_sync(~0u, rank, 1);
		if (rank < g.chosen && i % 2 == 0) to.experts[rank] = e;
	}
	__syncthreads();
	if (!weighs || threadIdx.x >= 32) return;
	float weight = lane < g.chosen ? score_of(r, c.score[to.experts[lane]], most) : 0;
	if (r.score == softmax_all) weight /= sum;
	float scale = scale_of(r, weight, g.chosen);
	to.weights[lane] = weight * scale;
}

// choose has every block choose. The memory may be used for other things when all threads
// have passed another barrier.
template <bool weighs>
__device__ inline void choose(Chosen& to, void* memory, const Given& g, const Rule& r) {
	if (r.groups > 1 || r.score == sparse_mixer) {
		if (threadIdx.x < 32) {
			float weight;
			int e = rank<most_experts / 32>(g, r, 0, (float*)memory, weight);
			to.experts[threadIdx.x] = e, to.weights[threadIdx.x] = weight;
		}
		__syncthreads();
	} else {
		count_ranks<weighs>(to, *(Counting*)memory, g, r);
	}
}

// A Listed unit is one that a warp multiplies, of a first tile: where it is, and what it is,
// as Place in qmatmul.cu says it.
struct alignas(16) Listed {
	const uint4* words;
	const u32 *scales, *units;
	u32 packed;
	unsigned short behind, expert;  // groups of the matrix behind its first; which of those chosen
};

__device__ inline int bits_of_unit(u32 packed) { return packed >> 1 & 15; }
__device__ inline bool has_one_group(u32 packed) { return packed & 1; }
__device__ inline int shift_of(u32 packed) { return packed >> 5 & 3; }
__device__ inline int row_of(u32 packed) { return (packed >> 7 & 0x1fff) * block_rows; }
__device__ inline int group_of(u32 packed) { return packed >> 20; }

// piece_of returns unit u of a tile of an expert's matrix.
__device__ inline Listed piece_of(const Table& table, const int* entry, int u, int tile, int expert) {
	const Matrix& m = *(const Matrix*)entry;
	uint2 place = __ldg((const uint2*)(entry + table.places) + u);
	int group = group_of(place.y);
	return {m.words + ((int64)tile * m.chunks + place.x) * 32, (const u32*)(m.scales + (int64)tile * m.groups + group), m.units + group,
	        place.y, (unsigned short)(m.groups - 1 - group), (unsigned short)expert};
}

// Slots is a warp's ring in shared memory. In front of the words of a unit each lane has
// the codes of its scales, and the units of its groups.
struct Slots {
	unsigned char* ring;
	int bytes, count, groups;  // of a slot; slots; groups of a unit, at most

	__device__ u32* codes(int s) const { return (u32*)(ring + s * bytes) + threadIdx.x % 32 * (2 * groups + 1); }
	__device__ uint4* words(int s) const { return (uint4*)(ring + s * bytes + 128 * (2 * groups + 1)) + threadIdx.x % 32; }

	// ask asks for a piece of the tile that is so many words and scales behind the first.
	__device__ void ask(int s, const Listed& p, int64 words_on, int64 scales_on) const {
		int lane = threadIdx.x % 32, bits = bits_of_unit(p.packed);
		const uint4* from = p.words + words_on + lane;
		const u32* scales = p.scales + scales_on + lane / 8;
		uint4* to = words(s);
		u32* side = codes(s);
#pragma unroll
		for (int i = 0; i < 8; i++)
			if (i < bits) copy16(to + i * 32, from + i * 32, true);
		copy4(side, scales, true), copy4(side + groups, p.units, true);
		if (has_one_group(p.packed)) return;
#pragma unroll 1
		for (int i = 1; i < unit_blocks >> shift_of(p.packed); i++) {
			int at = min(i, (int)p.behind);
			copy4(side + i, scales + at * 4, true), copy4(side + groups + i, p.units + at, true);
		}
	}
};

// LaneCodes is where a lane finds the codes of its scales: select picks its half of a
// word, twice.
struct LaneCodes {
	const u32* words;
	u32 select;
	__device__ u32 operator()(int group) const { return __byte_perm(words[group], 0, select); }
};

// Work is what a warp multiplies: a run of the pieces of a list, which stands for tiles one
// after the other.
struct Work {
	Slots slots;
	const Listed* list;
	int pieces, left;               // of the list, and how many of the run are to be asked for
	int64 words_step, scales_step;  // from tile to tile
	int piece, tile;                // that is asked for next

	__device__ void begin(int first) {
		piece = first % pieces, tile = first / pieces;
#pragma unroll 1
		for (int s = 0; s < slots.count; s++) next(s);
	}
	__device__ void next(int s) {
		if (left > 0) {
			slots.ask(s, list[piece], tile * words_step, tile * scales_step);
			left--;
			if (++piece == pieces) piece = 0, tile++;
		}
		commit();
	}

	// multiply adds a piece's products, which is in slot s.
	__device__ void multiply(float (&sums)[2][4], int s, int j, const half* x, int stride, Exponent e) {
		u32 packed = list[j].packed, select = threadIdx.x % 32 / 4 % 2 ? 0x3232 : 0x1010;
		int expert = list[j].expert;
		arrived_but(slots.count - 1);
		__syncwarp();
		const u32* codes = slots.codes(s);
		multiply_unit_rolled(bits_of_unit(packed), has_one_group(packed), sums, slots.words(s), (const uint4*)(x + expert * stride + row_of(packed) + threadIdx.x % 4 * 8),
		                 LaneCodes{codes, select}, codes + slots.groups, shift_of(packed), e);
		__syncwarp();
		next(s);
	}
};

// gather copies a row in shared memory to stored order, and zeros behind it.
__device__ inline void gather(half* to, const half* row, const half* order, int in) {
	for (int i = threadIdx.x * 8; i < in; i += blockDim.x * 8) {
		Eight<half> at, v;
		at.words[0] = __ldg((const uint4*)(order + i));
#pragma unroll
		for (int j = 0; j < 8; j++) v.v[j] = row[__half_as_ushort(at.v[j])];
		*(uint4*)(to + i) = v.words[0];
	}
	if (threadIdx.x < row_padding) to[in + threadIdx.x] = __float2half(0);
}

// total adds the warps' sums of a column.
__device__ inline float total(const float* parts) {
	float sum = 0;
#pragma unroll
	for (int w = 0; w < warps; w++) sum += parts[w * tile_columns];
	return sum;
}

// Output is where products with gates, or ups, go.
struct Output {
	half* y;  // [chosen, out], rows ld apart
	int64 ld;
};

__device__ void first_products(
	const Given& g, const Rule& r, const Input& in, const Table& table, const Output& to, int k, int part,
	int each,     // blocks of a matrix
	int units128, // units of a tile, if all matrices have as many, or 0
	int tiles, int out, Slots slots) {
	extern __shared__ uint4 memory[];
	__shared__ Chosen chosen;
	__shared__ Listed list[most_units];
	int warp = threadIdx.x / 32, from = tiles * part / each, count = tiles * (part + 1) / each - from;
	half *staged = (half*)memory, *normed = staged + stride(in.in);
	float* parts = (float*)(normed + in.in);
	slots.ring = (unsigned char*)(parts + (tiles + each - 1) / each * warps * tile_columns);
	table.ask(g.experts, blockIdx.x, gridDim.x);
	Factors factors;
	factors.read<true>(in, threadIdx.x * 8);
	normalize<true>(normed, in, factors);
	for (int i = threadIdx.x; i < count * warps * tile_columns; i += blockDim.x) parts[i] = 0;
	wait_for_previous();
	let_next();
	choose<false>(chosen, slots.ring, g, r);
	const int* entry = table.of(chosen.experts[k]);
	const Matrix& m = *(const Matrix*)entry;
	int n = units128 ? units128 : m.units128, low = n * count * warp / warps, high = n * count * (warp + 1) / warps;
	if (threadIdx.x < n) list[threadIdx.x] = piece_of(table, entry, threadIdx.x, from, 0);
	__syncthreads();  // the row is normed, and the ring's memory is no longer the choosing's
	slots.ring += warp * slots.count * slots.bytes;
	Work work = {slots, list, n, high - low, m.chunks * 32, m.groups * 4};
	work.begin(low);
	gather(staged, normed, m.order, in.in);
	__syncthreads();
	Exponent exponent;
	float sums[2][4] = {};
#pragma unroll 1
	for (int i = low, s = 0, t = low / n, j = low % n; i < high; i++) {
		work.multiply(sums, s, j, staged, 0, exponent);
		if (++s == slots.count) s = 0;
		if (++j < n && i < high - 1) continue;
		keep<1>(parts + (t * warps + warp) * tile_columns, sums);
		j = 0, t++;
	}
	arrived<0>();
	__syncthreads();
	for (int i = threadIdx.x; i < count * tile_columns; i += blockDim.x) {
		int column = from * tile_columns + i;
		if (column >= out) continue;
		float sum = total(parts + i / tile_columns * warps * tile_columns + i % tile_columns) + (m.bias ? m.bias[column] : 0);
		to.y[k * to.ld + column] = __float2half_rn(sum);
	}
}

// Sum is where the weighted sum goes.
struct Sum {
	float* y;           // [out]
	const half* all;    // [out]: what the expert of all rows has computed, or null
	float scale;
};

// Acts are what is multiplied by down.
struct Acts {
	const half *gate, *up;  // [chosen, in], rows ldg and ldu apart, at 16 bytes
	int64 ldg, ldu;
	int in, act;

	// put leaves act(gate)·up of eight columns of an expert where they are to be.
	__device__ void put(half* to, int k, int i, const Eight<half>& at) const {
		Eight<half> a, b;
		a.words[0] = __ldcg((const uint4*)(gate + k * ldg + i)), b.words[0] = __ldcg((const uint4*)(up + k * ldu + i));
		switch (act) {
			case 0: return put<SiLU>(to, a, b, at);
			case 1: return put<GELU>(to, a, b, at);
			case 2: return put<GELUTanh>(to, a, b, at);
			default: return put<ReLU>(to, a, b, at);
		}
	}
	template <class Act>
	__device__ static void put(half* to, const Eight<half>& a, const Eight<half>& b, const Eight<half>& at) {
#pragma unroll
		for (int j = 0; j < 8; j++) to[__half_as_ushort(at.v[j])] = __float2half_rn(Act::of(widen(a.v[j])) * widen(b.v[j]));
	}
};

// A Share is some of the units of all chosen experts' matrices, in their order.
struct Share {
	int from, to;     // of all
	int first, last;  // the experts that the block has to do with
};

// share returns a warp's, and lists its pieces, given how many warps share a tile's.
__device__ inline Share share(Listed* list, const Table& table, const Chosen& chosen, int count, int units128, int tile, int part, int parts) {
	int lane = threadIdx.x % 32, n = units128, end = 0, all = n * count, block = parts / warps;
	if (!units128) {  // lane k has the end of the kth
		end = n = lane < count ? ((const Matrix*)table.of(chosen.experts[lane]))->units128 : 0;
#pragma unroll 1
		for (int step = 1; step < 32; step *= 2) {
			int other = __shfl_up_sync(~0u, end, step);
			if (lane >= step) end += other;
		}
		all = __shfl_sync(~0u, end, 31);
	}
	Share s = {all * part / parts, all * (part + 1) / parts, 0, 0};
	int begin = all * (part / warps) / block, stop = max(all * (part / warps + 1) / block - 1, 0);  // of the block
	int u = min(s.from + lane, all - 1), k = 0, before = 0;
	if (units128) {
		k = u / n, before = k * n, s.first = begin / n, s.last = stop / n;
	} else {
#pragma unroll 1
		for (int i = 0; i < count; i++) {
			int at = __shfl_sync(~0u, end, i);
			if (at <= u) k = i + 1, before = at;
			s.first += at <= begin, s.last += at <= stop;
		}
	}
	if (lane < s.to - s.from) list[lane] = piece_of(table, table.of(chosen.experts[k]), u - before, tile, k);
	__syncwarp();
	return s;
}

// unite adds the sums of a cluster's blocks, which lie in parts, to the first block's, in
// order; a thread has a column. It reports whether the block has the whole sum.
__device__ inline bool unite(float& sum, float* others, int rank, int blocks) {
	if (blocks == 1) return true;
#if __CUDA_ARCH__ >= 900
	if (rank > 0 && threadIdx.x < tile_columns)
		asm volatile("st.shared::cluster.f32 [%0], %1;" ::"r"(of_block(others + rank * tile_columns + threadIdx.x, 0)), "f"(sum) : "memory");
	cluster_arrive();
	if (rank > 0) return false;
	cluster_wait();
	if (threadIdx.x < tile_columns)
		for (int b = 1; b < blocks; b++) sum += others[b * tile_columns + threadIdx.x];
#endif
	return true;
}

__device__ void last_products(const Given& g, const Rule& r, const Acts& x, const Sum& to, const Table& table, int blocks, int units128, int biased, int out, Slots slots) {
	extern __shared__ uint4 memory[];
	__shared__ float parts[warps * tile_columns], others[most_blocks * tile_columns];
	__shared__ Chosen chosen;
	__shared__ Listed list[warps][most_listed];
	int tile = blockIdx.x / blocks, part = blockIdx.x % blocks, warp = threadIdx.x / 32, lane = threadIdx.x % 32, step = stride(x.in);
	half* staged = (half*)memory;
	slots.ring = (unsigned char*)(staged + g.chosen * step);
	table.ask(g.experts, blockIdx.x, gridDim.x);
	choose<true>(chosen, slots.ring, g, r);
	Share mine = share(list[warp], table, chosen, g.chosen, units128, tile, part * warps + warp, blocks * warps);
	__syncthreads();  // the ring's memory is no longer the choosing's
	slots.ring += warp * slots.count * slots.bytes;
	Work work = {slots, list[warp], most_listed, mine.to - mine.from};
	work.begin(0);
	int column = tile * tile_columns + lane, vectors = x.in / 8, all = (mine.last - mine.first + 1) * vectors;
	bool adds = warp == 0 && part == 0 && column < out;
	float y = 0, bias = 0;
	for (int k = 0; adds && biased && k < g.chosen; k++) bias += chosen.weights[k] * ((const Matrix*)table.of(chosen.experts[k]))->bias[column];
	Eight<half> at[2];  // where the first columns are to be
#pragma unroll
	for (int j = 0; j < 2; j++)
		if (int i = threadIdx.x + j * blockDim.x; i < all) at[j].words[0] = __ldg((const uint4*)(((const Matrix*)table.of(chosen.experts[mine.first + i / vectors]))->stored + i % vectors * 8));
	for (int i = threadIdx.x; i < g.chosen * row_padding; i += blockDim.x) staged[i / row_padding * step + x.in + i % row_padding] = __float2half(0);
	after_previous();
	if (adds) y = to.y[column];
#pragma unroll 1
	for (int i = threadIdx.x; i < all; i += blockDim.x) {
		int k = mine.first + i / vectors;
		if (i >= 2 * blockDim.x) at[0].words[0] = __ldg((const uint4*)(((const Matrix*)table.of(chosen.experts[k]))->stored + i % vectors * 8));
		x.put(staged + k * step, k, i % vectors * 8, at[0]);
		at[0] = at[1];
	}
	__syncthreads();
	Exponent exponent;
	float sums[2][4] = {}, mixed[2][4] = {};
#pragma unroll 1
	for (int j = 0, s = 0, n = mine.to - mine.from; j < n; j++) {
		work.multiply(sums, s, j, staged, step, exponent);
		if (++s == slots.count) s = 0;
		int k = list[warp][j].expert;
		if (j + 1 < n && list[warp][j + 1].expert == k) continue;
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i++) mixed[t][i] += chosen.weights[k] * sums[t][i], sums[t][i] = 0;
	}
	arrived<0>();
	keep<1>(parts + warp * tile_columns, mixed);
	__syncthreads();
	float sum = warp == 0 ? total(parts + lane) + bias : 0;
	if (!unite(sum, others, part, blocks) || !adds) return;
	if (to.all) sum += weight_of_all(g, 0) * __half2float(to.all[column]);
	to.y[column] = y + to.scale * sum;
}

extern "C" __global__ void __launch_bounds__(32 * warps, 2) mixture_gate(
	half* gates, half* ups, const float* logits, const float* correction,
	const int* gate_table, const int* up_table, const float* x, const float* scale,
	const float* shift, int experts, int chosen, int words1, int words2, int places1,
	int places2, int each, int units, int tiles, int in, int out, int slots, int slot,
	int unit_groups, int64 ldg, int64 ldu, int centred, float eps, float offset, int score,
	int groups, int top_groups, int group_max, int renorm, float renorm_eps, float factor,
	float jitter) {
	Given g = {logits, correction, nullptr, nullptr, 1, experts, chosen, chosen, 0, 0};
	Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter};
	Input from = {x, scale, shift, in, centred, eps, offset};
	int of = blockIdx.x / each;
	bool up = of % 2;
	Table table = {up ? up_table : gate_table, up ? words2 : words1, up ? places2 : places1};
	Output to = {up ? ups : gates, up ? ldu : ldg};
	first_products(g, r, from, table, to, of / 2, blockIdx.x % each, each, units, tiles, out,
	               {nullptr, slot, slots, unit_groups});
}

extern "C" __global__ void __launch_bounds__(32 * warps, 2) mixture_down(
	float* y, const half* gates, const half* ups, const half* all, const float* logits,
	const float* gate_logits, const float* correction, const int* table, int experts,
	int chosen, int words, int places, int blocks, int units, int biased, int in, int out,
	int act, int slots, int slot, int unit_groups, int64 ldg, int64 ldu, float sum_scale,
	int score, int groups, int top_groups, int group_max, int renorm, float renorm_eps,
	float factor, float jitter) {
	Given g = {logits, correction, gate_logits, nullptr, 1, experts, chosen, chosen, 0, 0};
	Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter};
	Acts from = {gates, ups, ldg, ldu, in, act};
	last_products(g, r, from, {y, all, sum_scale}, {table, words, places}, blocks, units, biased, out,
	              {nullptr, slot, slots, unit_groups});
}
