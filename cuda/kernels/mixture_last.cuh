// The second kernel of a mixture for one row (mixture.cu): down of the chosen experts, and their weighted sum.
#pragma once

#include "link.cuh"
#include "mixture_stage.cuh"
#include "newest.cuh"

// Sum is where the weighted sum of a row goes.
struct Sum {
	float* y;           // [out]
	const half* all;    // [out]: what the expert of all rows has computed, or null
	float scale;
	Link link;          // for the products that read y next
};

// Runs is the units of all chosen experts' matrices in a tile, one expert's after the other's.
template <bool wide>
struct Runs {
	const Table& table;
	const Chosen<32 + wide>& chosen;
	int count, units, tile;  // experts; units of each but the last, or 0 if they differ

	// all returns how many units there are, of which the one that all rows see has so many.
	__device__ int all(int chosen, int units_of_all) const {
		if (wide && units) return units * chosen + units_of_all;
		int n = units * count;
		for (int i = 0; !units && i < count; i++) n += units_of(i);
		return n;
	}
	__device__ int units_of(int k) const { return units && !wide ? units : ((const Matrix*)table.of(chosen.experts[k]))->units128; }

	// find returns the expert of unit i, which is its unit `of`.
	__device__ int find(int i, int& of) const {
		int k = 0;
		of = i;
		if (units) {
			if constexpr (wide) k = min(i / units, count - 1), of = i - k * units;
			else k = i / units, of = i % units;
		} else {
			for (int n; k < count - 1 && of >= (n = units_of(k)); k++) of -= n;
		}
		return k;
	}
	// what returns what unit i is, with its expert, as Feed has it in slots.
	__device__ u32 what(int i) const {
		Listed p = (*this)(i);
		return p.packed & 0xfffff | p.expert << 20;
	}
	__device__ Listed operator()(int i) const {
		int u, k = find(i, u);
		return unit_of(table, table.of(chosen.experts[k]), u, tile, k);
	}
};

// A warp has in shared memory what its units are, as Feed says it, and digits of their rows, behind zeros that all
// warps have (Digits): an even number of both.
constexpr int unit_words = unit_blocks * block_rows, zero_words = unit_words;

// A Staging makes digits of the rows of two units, half of the lanes each, by a power of two of both.
struct Staging {
	const half* from;
	bool there;
	uint4 v;

	// Of the one that all rows see, behind so many that are chosen, there are so many inputs.
	__device__ Staging(const u32* what, const Left& left, int in, int chosen, int in_of_all) {
		int lane = threadIdx.x % 32;
		u32 packed = what[lane / 16];
		int at = digits_row_of(packed) / digit_block * block_rows + lane % 16 * 8, k = packed >> 20;
		from = left.acts + k * left.ld + at, there = at < (k < chosen ? in : in_of_all);
	}
	__device__ void ask() {
		v = make_uint4(0, 0, 0, 0);
		if (there) v = newest(from);
	}
	__device__ void put(u32* to, u32* what) const;
};

// put stores them, and leaves what the lowest digits are in place of what the unit is.
__device__ inline void Staging::put(u32* to, u32* what) const {
	int lane = threadIdx.x % 32;
	half2 most = __float2half2_rn(0);
	measure(most, v);
	FixedPoint fixed(warp_largest(max(__float_as_uint(__low2float(most)), __float_as_uint(__high2float(most)))));
	half2 x[4] = {half2_of(v.x), half2_of(v.y), half2_of(v.z), half2_of(v.w)};
	put_digits(to + lane * 8, x, __float2half2_rn(fixed.to), false);
	if (lane % 16 == 0) what[lane / 16] = __float_as_uint(fixed.lowest);
}

// last_products is the second kernel.
template <Choosing how, bool corrected, bool wide>
__device__ void last_products(const Given& g, const Rule& r, const float* scales, const Left& left, const Sum& to, const Table& table, int times, int units_of_all, int units128, int most, int biased, int in, int out, Slots slots) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float parts[warps * tile_columns], others[most_blocks * tile_columns];
	__shared__ unsigned long long mail_there;
	__shared__ Chosen<32 + wide> chosen;
	__shared__ Listed windows[warps][most_listed];
	int tile = blockIdx.y, part = blockIdx.x, blocks = gridDim.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	asm volatile("" : "+r"(blocks));  // or it is read from the parameters each time
	u32 *zeros = (u32*)memory, *staged = zeros + zero_words + warp * most * unit_words, *what = zeros + zero_words + warps * most * unit_words + warp * most;
	slots.ring = (unsigned char*)(zeros + zero_words + warps * most * unit_words + (warps * most + 31) / 32 * 32);  // at a line
	if (threadIdx.x < zero_words) zeros[threadIdx.x] = 0;
	Mail mail = {&mail_there};
	if (blocks > 1) mail.begin(part == 0, (blocks - 1) * tile_columns * 4);
	bool all_too = wide && times > 0;  // the expert that all rows see is the last one of the table, so many times as wide as the others
	int count = g.chosen + all_too;
	table.ask(g.experts + all_too, blockIdx.y * gridDim.x + blockIdx.x, gridDim.y * gridDim.x);
	int column = tile * tile_columns + lane;
	bool adds = warp == 0 && part == 0, there = column < out;
	Linked linked;
	if (adds && there && to.link.left) linked = Linked(to.link, 0, column);
	if constexpr (how != by_any) choose_by_logits<how, corrected, wide>(chosen, g, r, all_too);
	else {
		choose<true>(chosen, slots.ring, g, r);
		if constexpr (wide) {
			__syncthreads();
			if (all_too && threadIdx.x == 0) chosen.add_all(g.chosen, g.experts, g.gate, g.gate ? __ldcg(g.gate) : 0);
			__syncthreads();
		}
	}
	if (scales && threadIdx.x < g.chosen) chosen.weights[threadIdx.x] *= scales[chosen.experts[threadIdx.x]];  // nobody reads them before the next barrier
	Runs<wide> runs = {table, chosen, count, units128, tile};
	int all = runs.all(g.chosen, units_of_all), from = all * (part * warps + warp) / (blocks * warps), end = all * (part * warps + warp + 1) / (blocks * warps);
	__syncthreads();  // the ring's memory is no longer the choosing's, and zeros are there
	slots.ring += warp * slots.count * slots.bytes;
	Feed<Runs<wide>> feed(slots, windows[warp], runs, from, end);
	feed.begin(slots.count);
	if (most <= most_listed) {
		if (lane < most) what[lane] = from + lane < end ? windows[warp][lane].packed & 0xfffff | windows[warp][lane].expert << 20 : 0;
	} else {
		for (int j = from + lane; j < from + most; j += 32) what[j - from] = j < end ? runs.what(j) : 0;
	}
	__syncwarp();
	float y = 0, bias = 0;
	if (adds && there) y = read_square(to.y + column);  // what has been written of it, and of all, was before the router's kernel began
	if (adds && there && to.all) bias = weight_of_all(g, 0) * __half2float(__ldcg(to.all + column));
	for (int k = 0; adds && there && biased && k < count; k++) bias += chosen.weights[k] * ((const Matrix*)table.of(chosen.experts[k]))->bias[column];
	if (blocks > 1) mail.end();
	Staging staging(what, left, in, g.chosen, wide ? in * times : in);
	after_previous();
	staging.ask();
	Constants constants((u32)in >> 20);
	Digits x(staged, zeros - staged);
	float sums[2][4] = {}, mixed[2][4] = {};
#pragma unroll 1
	for (int j = 0;; staging.ask()) {
		staging.put(staged + j * unit_words, what + j);
		if ((j += 2) >= end - from) break;
		staging = Staging(what + j, left, in, g.chosen, wide ? in * times : in);
	}
	__syncwarp();
#pragma unroll 1
	for (int j = 0; j < end - from; j++) {
		int k = feed.multiply(sums, x, [=](u32) { return 4 * unit_words * j; }, slots.count, constants);
		float weight = chosen.weights[k] * __uint_as_float(what[j]);
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i += 2) mixed[t][i] += weight * sums[t][i], sums[t][i] = 0;
	}
	arrived<0>();
	keep_digits(parts + warp * tile_columns, mixed, 1);
	__syncthreads();
	if (warp > 0) return;
	float sum = total(parts + lane) + bias;
	if (part > 0) mail.send(others + part * tile_columns + lane, sum);
	else if (blocks > 1) mail.wait();
	if (!adds) return;
#pragma unroll
	for (int b = 1; b < most_blocks; b++) sum += b < blocks ? others[b * tile_columns + lane] : 0;  // straight code
	sum = y + to.scale * sum;
	if (there) to.y[column] = sum;
	if (to.link.left) link(to.link, linked, tile, 0, there, sum);
}
