// The first kernel of a mixture for one row (mixture.cu): gate and up of the chosen experts, with the activation.
#pragma once

#include "barrier.cuh"
#include "expert_alike.cuh"
#include "limited.cuh"
#include "mixture_stage.cuh"

// multiply_matrix leaves the warps' sums of a span of an expert's matrix in parts. `stored` is where
// places in down's order are, or null; the thread has some of the columns.
__device__ inline Late multiply_matrix(float* parts, const Table& table, int expert, Span span, int columns, Share share, float lowest, const u32* words, u32* staged, Listed* window, int in, Slots slots, const half* stored, bool placed) {
	const int* entry = table.of(expert);
	const Matrix& m = *(const Matrix*)entry;
	int warp = threadIdx.x / 32, i = threadIdx.x * 8;
	const half* order = asked(m.order);  // with what Feed asks for: one after the other they take as long each
	const float* bias = asked(m.bias);
	Eight<half> at;
	Late late = {0, 0};
	if (!share.units) share = share_of(m, span);
	Tiling list = {table, entry, share.units, span.from};
	Feed<Tiling> feed(slots, window, list, share.from, share.to);
	if (i < in) at.words[0] = __ldg((const uint4*)(order + i));
	feed.begin(asked_first);
	if (threadIdx.x < columns) {
		if (placed) late.place = __half_as_ushort(__ldg(stored + span.from * tile_columns + threadIdx.x));
		if (bias) late.bias = __ldg(bias + span.from * tile_columns + threadIdx.x);
	}
	if (i < in) octet(staged + i, words, at);
#pragma unroll 1
	for (i += blockDim.x * 8; i < in; i += blockDim.x * 8) {
		at.words[0] = __ldg((const uint4*)(order + i));
		octet(staged + i, words, at);
	}
	feed.begin(slots.count - asked_first);
	__syncthreads();
	Constants constants((u32)in >> 20);
	Digits x(staged, in);
	float sums[2][4] = {};
#pragma unroll 1
	for (int u = share.from, t = share.tile, j = share.unit; u < share.to; u++) {
		feed.multiply(sums, x, digits_row_of, slots.count, constants);
		if (++j < share.units && u < share.to - 1) continue;
		keep_digits(parts + (t * warps + warp) * tile_columns, sums, lowest);
		j = 0, t++;
	}
	arrived<0>();
	__syncthreads();
	return late;
}

// other_activation is not in line, as code that is jumped over makes what is behind it come late; neither is other_unit.
__device__ __noinline__ float other_activation(int act, float x) { return activate(act, x); }
__device__ inline float activation(int act, float x) { return act == 0 ? SiLU::of(x) : other_activation(act, x); }
__device__ __noinline__ float other_unit(Unit unit, float gate, float up) { return unit(gate, up); }

// late_of returns it for another column than the thread's first.
__device__ inline Late late_of(const Table& table, int expert, const half* stored, int column) {
	const float* bias = ((const Matrix*)table.of(expert))->bias;
	return {stored ? (int)__half_as_ushort(__ldg(stored + column)) : 0, bias ? bias[column] : 0};
}

// Mail is sums that blocks of a cluster send to the first one, which waits for them: `there` completes
// when so many bytes have come. Before anything is sent all blocks pass begin and end.
struct Mail {
#if __CUDA_ARCH__ >= 900
	u64* there;

	__device__ void begin(bool receives, int bytes) const {
		if (threadIdx.x == 0) {
			barrier_init(there, 1);
			asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
			if (receives) barrier_expect(there, bytes);
		}
		asm volatile("barrier.cluster.arrive.relaxed.aligned;" ::: "memory");  // the other kind is a fence of the GPU
	}
	__device__ void end() const { cluster_wait(); }
	__device__ void send(float* to, float v) const {
		asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(of_block(to, 0)), "r"(__float_as_uint(v)), "r"(of_block(there, 0)) : "memory");
	}
	__device__ void wait() const { barrier_wait(there, 0); }
#else  // there are no clusters
	unsigned long long* there;
	__device__ void begin(bool, int) const {}
	__device__ void end() const {}
	__device__ void send(float*, float) const {}
	__device__ void wait() const {}
#endif
};

// Found is where a block's expert is found, which it seeks behind the wait.
template <Choosing how>
struct Found {
	int expert;
};
template <>
struct Found<by_keys> : Ranking {};

template <Choosing how>
struct Sought {
	Keys keys;

	__device__ Sought(const u32* all, int) : keys(make_uint4(0, 0, 0, 0)) {
		if (threadIdx.x < 32) keys = Keys(all);
	}
	__device__ void choose(Found<how>& to, int k) const {
		if (threadIdx.x < 32) keys.kth(&to.expert, k);  // one warp chooses faster than all do
	}
	// there returns it behind a barrier. `apart` is 0.
	__device__ int there(const Found<how>& to, int apart) const {
		__syncthreads();
		return (&to.expert)[apart];
	}
};
template <>
struct Sought<by_keys> {
	Keys keys;
	const u32* all;
	int experts, k;

	__device__ Sought(const u32* all, int experts) : keys(make_uint4(0, 0, 0, 0)), all(all), experts(experts) {
		if (threadIdx.x / 32 < warps_of(experts)) keys = Keys(all);
	}
	__device__ void choose(Found<by_keys>& to, int k) {
		this->k = k;
		to.first(keys, experts, k);
	}
	__device__ int there(Found<by_keys>& to, int apart) const {
		__syncthreads();
		to.second(experts, k);
		__syncthreads();
		to.third(keys, all, experts);
		__syncthreads();
		return (&to.found)[apart];
	}
};

// span_of returns the tiles of a block, which is one of each matrix's. The expert that all rows see is the last one of the table, and has parts of as many
// tiles as others have, which are numbered behind those that are chosen: of those, `out` becomes where the part ends.
template <bool wide>
__device__ inline Span span_of(int tiles, int part, int each, int k, int chosen, int& out) {
	Span span = {tiles * part / each, 0};
	span.count = tiles * (part + 1) / each - span.from;
	int behind = wide ? max(k - chosen, 0) * tiles : 0;
	span.from += behind, out += behind * tile_columns;
	return span;
}

// acts_of returns where the block's row has its results, or, of wide kernels, the block.
template <bool wide>
__device__ inline half* acts_of(half* acts, int chosen, int64 ld) {
	return wide ? acts + (blockIdx.z * gridDim.y + min(blockIdx.y, chosen)) * ld : acts + (int64)blockIdx.z * chosen * ld;
}

// first_products is the first kernel. What is not gated is its own gate. `wide` ones are told in mixture.cu.
template <Choosing how, bool gated, bool wide>
__device__ void first_products(
	const Given& g, const Rule& r, const Left& left, const Table& gate, const Table& up, const Table& down, int k, int part,
	int which,    // of both matrices, or both of them
	int each,     // blocks of a matrix
	int units128, // units of a tile, if all matrices have as many, or 0
	int tiles, int in, int out, const Unit& unit, Slots slots) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ Listed windows[warps][most_listed];
	__shared__ unsigned long long mail_there;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, run = (tiles + each - 1) / each;
	Span span = span_of<wide>(tiles, part, each, k, g.chosen, out);
#if __CUDA_ARCH__ >= 900
	constexpr bool both = false, paired = gated;
#else
	constexpr bool both = gated, paired = false;
#endif
	u32 *words = (u32*)memory, *staged = words + in;
	float *parts = (float*)(staged + stride(in)), *others = parts + (both ? 2 : 1) * run * warps * tile_columns;
	slots.ring = (unsigned char*)(others + run * tile_columns);
	Mail mail = {&mail_there};
	if (paired) mail.begin(which == 0, span.count * tile_columns * 4);
	bool second = paired && which == 1;
	Table mine = {second ? up.words : gate.words, second ? up.stride : gate.stride, second ? up.places : gate.places};
	int asking = paired ? 2 : 1;  // of the cluster, for a table each
	mine.ask(g.experts + (wide && g.chosen < gridDim.y), (blockIdx.y * gridDim.x + blockIdx.x) / asking, gridDim.y * gridDim.x / asking);
	zero_behind(staged, in);
	for (int i = threadIdx.x; i < (both ? 2 : 1) * run * warps * tile_columns; i += blockDim.x) parts[i] = 0;
	Share share(units128, span);
	int apart = lane * ((u32)in >> 30);  // 0. The compiler would wait for what it knows that all lanes ask for as soon as it is asked for
	bool of_all = wide && k >= g.chosen;
	share.keep();
	asm volatile("" : "+r"(apart));
	if (paired) mail.end();
	wait_for_previous();
	let_next();
	int expert;
	float lowest;
	if constexpr (how != by_any) {
		__shared__ Found<how> found;
		Sought<how> sought(left.words + in + keys_behind, g.experts);
		Own own(left.words, in);
		sought.choose(found, k);
		own.put(words, left.words, in), lowest = own.lowest;
		expert = sought.there(found, apart);
	} else {
		__shared__ Chosen<32 + wide> chosen;
		Own own(left.words, in);
		choose<false>(chosen, slots.ring, g, r);
		expert = chosen.experts[wide ? min(k, g.chosen - 1) : k];
		own.put(words, left.words, in), lowest = own.lowest;
		__syncthreads();  // the ring's memory is no longer the choosing's
	}
	if (of_all) expert = g.experts;
	slots.ring += warp * slots.count * slots.bytes;
	float* ups = parts + run * warps * tile_columns;
	const half* stored = asked(((const Matrix*)down.of(expert))->stored);
	int columns = min(span.count * tile_columns, out - span.from * tile_columns);
	Late late = {0, 0}, other_late = {0, 0};
#pragma unroll 1
	for (int m = 0; m < 1 + both; m++) {
		Late l = multiply_matrix(m ? ups : parts, m ? up : mine, expert, span, columns, share, lowest, words, staged, windows[warp], in, slots, stored, !second);
		(m ? other_late : late) = l;
	}
#pragma unroll 1
	for (int i = threadIdx.x; i < span.count * tile_columns; i += blockDim.x) {
		int at = i / tile_columns * warps * tile_columns + lane, column = span.from * tile_columns + i;
		bool there = i < columns;
		if (there && i >= blockDim.x) late = late_of(mine, expert, second ? nullptr : stored, column), other_late = late_of(both ? up : mine, expert, nullptr, column);
		float sum = total(parts + at) + late.bias, other = sum;
		if (second) {
			mail.send(others + i, sum);
			continue;
		}
		float acted = wide ? SiLU::of(sum) : activation(unit.act, sum);
		if (paired) mail.wait(), other = others[i];
		else if (both) other = total(ups + at) + other_late.bias;
		half v = __float2half_rn(!wide || unit.act == 0 ? acted * other : other_unit(unit, sum, other));
		if (there) left.acts[(wide ? 0 : k * left.ld) + late.place] = v;
	}
}

// late_alike is late_of of matrices that are alike, given entries of their tables, that of down being null where there are no places. It is not in line, as
// code that is jumped over makes what is behind it come late.
__device__ __noinline__ Late late_alike(const char* entry, const char* down, bool biased, int column) {
	const float* bias = biased ? asked(((const float* const*)entry)[5]) : nullptr;
	return {down ? (int)__half_as_ushort(__ldg(asked(((const half* const*)down)[4]) + column)) : 0, bias ? bias[column] : 0};
}

// first_alike is first_products of one matrix, of experts whose matrices are alike.
template <Choosing how, bool gated, bool wide>
__device__ inline void first_alike(const Left& left, const Alike& mine, const Alike& down, int k, int chosen, int part, bool second, int each, int units, int tiles, int in, int out, const Unit& unit, bool biased, Slots slots) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ Heads<most_of(how) + wide> heads;
	__shared__ unsigned long long mail_there;
	__shared__ Found<how> found;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, run = (tiles + each - 1) / each;
	Span span = span_of<wide>(tiles, part, each, k, chosen, out);
	heads.ask(mine);
	u32 *words = (u32*)memory, *staged = words + in;
	float *parts = (float*)(staged + stride(in)), *others = parts + run * warps * tile_columns;
	slots.ring = (unsigned char*)(others + run * tile_columns) + warp * slots.count * slots.bytes;
	Mail mail = {&mail_there};
	if (gated) mail.begin(!second, span.count * tile_columns * 4);
	Share share(units, span);
	AlikeFeed feed(mine, slots, units, span.from + share.tile, share.unit, share.to - share.from);
	zero_behind(staged, in);
	for (int i = threadIdx.x; i < run * warps * tile_columns; i += blockDim.x) parts[i] = 0;
	int apart = lane * ((u32)in >> 30), of_all = wide && k >= chosen;  // 0, as in first_products
	share.keep();
	asm volatile("" : "+r"(apart));
	if constexpr (wide) asm volatile("" : "+r"(of_all));
	if (gated) mail.end();
	wait_for_previous();
	let_next();
	Sought<how> sought(left.words + in + keys_behind, mine.experts - (wide && chosen < gridDim.y));
	Own own(left.words, in);
	sought.choose(found, k);
	feed.come(mine);
	own.put(words, left.words, in);
	arrived<0>();  // heads
	int expert = sought.there(found, apart);
	if (wide && of_all) expert = mine.experts - 1 + apart;
	int i = threadIdx.x * 8, columns = min(span.count * tile_columns, out - span.from * tile_columns);
	const uint4(&head)[2] = heads.v[expert];
	const half* order = (const half*)address(head[1].z, head[1].w);
	Eight<half> at;
	if (i < in) at.words[0] = order_of(order + i);
	const half* stored = asked(((const half* const*)down.of(expert))[4]);
	const float* bias = biased ? asked(((const float* const*)mine.of(expert))[5]) : nullptr;
	feed.of(head);
	feed.ask(asked_first);
	if (i < in) octet(staged + i, words, at);
#pragma unroll 1
	for (i += blockDim.x * 8; i < in; i += blockDim.x * 8) {
		at.words[0] = order_of(order + i);
		octet(staged + i, words, at);
	}
	int column = span.from * tile_columns + threadIdx.x;
	Late late = {0, 0};
	if (threadIdx.x < columns) {
		if (!second) late.place = __half_as_ushort(__ldg(stored + column));
		if (bias) late.bias = __ldg(bias + column);
	}
	feed.ask(slots.count - asked_first);
	__syncthreads();
	Constants constants((u32)in >> 20);
	Digits x(staged, in);
	float sums[2][4] = {};
#pragma unroll 1
	for (int u = share.from, t = share.tile, j = share.unit; u < share.to; u++) {
		feed.multiply(sums, x, slots.count, constants);
		if (++j < share.units && u < share.to - 1) continue;
		keep_digits(parts + (t * warps + warp) * tile_columns, sums, own.lowest);
		j = 0, t++;
	}
	arrived<0>();
	__syncthreads();
#pragma unroll 1
	for (i = threadIdx.x; i < span.count * tile_columns; i += blockDim.x) {
		bool there = i < columns;
		if (there && i >= blockDim.x) late = late_alike(mine.of(expert), second ? nullptr : down.of(expert), biased, span.from * tile_columns + i);
		float sum = total(parts + i / tile_columns * warps * tile_columns + lane) + late.bias, other = sum;
		if (second) {
			mail.send(others + i, sum);
			continue;
		}
		float acted = wide ? SiLU::of(sum) : activation(unit.act, sum);
		if (gated) mail.wait(), other = others[i];
		if (there) left.acts[(wide ? 0 : k * left.ld) + late.place] = __float2half_rn(!wide || unit.act == 0 ? acted * other : other_unit(unit, sum, other));
	}
}
