// A mixture of experts for one row, behind the logits of its router and the digits of the
// normed row (choose.cu), in two kernels (device.Fuser.Mixture): gate and up of the chosen,
// with the activation, and down with the weighted sum.
//
// Every block chooses for itself. In the first kernel it has some tiles of one of an
// expert's matrices, and where there are clusters the two blocks of gate and of up are one,
// of which that of up sends its sums to the other. What comes out lies in the order of down.
// In the second, a block, or a cluster, has a tile of columns, and the units of all the
// chosen experts' matrices in it are shared among its warps: no sums pass through memory.
// Its words are asked for before gate and up are done: it may, because the first kernel, as the
// router's, lets the next one start only after it has waited itself (arrive.cuh).
#include "act.cuh"
#include "barrier.cuh"
#include "choice.cuh"
#include "cluster.cuh"
#include "expert_alike.cuh"
#include "expert_feed.cuh"
#include "link.cuh"

constexpr int most_blocks = 8;  // of a cluster

// Left is what the router's kernel leaves of the row, and the first kernel of its results.
struct Left {
	const u32* words;  // [in] digits, an element's in a word, and what the lowest are
	half* acts;        // [chosen, width], ld apart, in down's order
	int64 ld;
};

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

// other_activation is not in line, as code that is jumped over makes what is behind it come late.
__device__ __noinline__ float other_activation(int act, float x) { return activate(act, x); }

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

// first_products is the first kernel. It is plain where up to `ranked` experts are chosen by their logits alone:
// code for other choices, though jumped over, would cost it 2 % of a step.
template <bool plain>
__device__ void first_products(
	const Given& g, const Rule& r, const Left& left, const Table& gate, const Table& up, const Table& down, int k, int part,
	int which,    // of both matrices, or both of them
	int each,     // blocks of a matrix
	int units128, // units of a tile, if all matrices have as many, or 0
	int tiles, int in, int out, int act, Slots slots) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ Listed windows[warps][most_listed];
	__shared__ unsigned long long mail_there;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, run = (tiles + each - 1) / each;
	Span span = {tiles * part / each, 0};
	span.count = tiles * (part + 1) / each - span.from;
#if __CUDA_ARCH__ >= 900
	constexpr bool both = false;
#else
	constexpr bool both = true;
#endif
	u32 *words = (u32*)memory, *staged = words + in;
	float *parts = (float*)(staged + stride(in)), *others = parts + (both ? 2 : 1) * run * warps * tile_columns;
	slots.ring = (unsigned char*)(others + run * tile_columns);
	Mail mail = {&mail_there};
	if (!both) mail.begin(which == 0, span.count * tile_columns * 4);
	bool second = which == 1;
	Table mine = {second ? up.words : gate.words, second ? up.stride : gate.stride, second ? up.places : gate.places};
	int asking = both ? 1 : 2;  // of the cluster, for a table each
	mine.ask(g.experts, blockIdx.x / asking, gridDim.x / asking);
	zero_behind(staged, in);
	for (int i = threadIdx.x; i < (both ? 2 : 1) * run * warps * tile_columns; i += blockDim.x) parts[i] = 0;
	Share share(units128, span);
	int apart = lane * ((u32)in >> 30);  // 0. The compiler would wait for what it knows that all lanes ask for as soon as it is asked for
	share.keep();
	asm volatile("" : "+r"(apart));
	if (!both) mail.end();
	wait_for_previous();
	let_next();
	int expert;
	float lowest;
	if constexpr (plain) {
		__shared__ int found;
		uint4 none = {};
		Keys keys = warp == 0 ? Keys(left.words + in + keys_behind) : Keys(none);
		Own own(left.words, in);
		if (warp == 0) keys.kth(&found, k);  // one warp chooses faster than all do
		own.put(words, left.words, in), lowest = own.lowest;
		__syncthreads();
		expert = (&found)[apart];
	} else {
		__shared__ Chosen chosen;
		Own own(left.words, in);
		choose<false>(chosen, slots.ring, g, r);
		expert = chosen.experts[k];
		own.put(words, left.words, in), lowest = own.lowest;
		__syncthreads();  // the ring's memory is no longer the choosing's
	}
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
		float sum = total(parts + at) + late.bias, other;
		if (second) {
			mail.send(others + i, sum);
			continue;
		}
		sum = act == 0 ? SiLU::of(sum) : other_activation(act, sum);
		if (!both) mail.wait(), other = others[i];
		else other = total(ups + at) + other_late.bias;
		half v = __float2half_rn(sum * other);
		if (there) left.acts[k * left.ld + late.place] = v;
	}
}

// late_alike is late_of of matrices that are alike, given entries of their tables, that of down being null where there are no places. It is not in line, as
// code that is jumped over makes what is behind it come late.
__device__ __noinline__ Late late_alike(const char* entry, const char* down, bool biased, int column) {
	const float* bias = biased ? asked(((const float* const*)entry)[5]) : nullptr;
	return {down ? (int)__half_as_ushort(__ldg(asked(((const half* const*)down)[4]) + column)) : 0, bias ? bias[column] : 0};
}

// first_alike is first_products of one matrix, plain, of experts whose matrices are alike.
__device__ inline void first_alike(const Left& left, const Alike& mine, const Alike& down, int k, int part, bool second, int each, int units, int tiles, int in, int out, int act, bool biased, Slots slots) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ Heads heads;
	__shared__ unsigned long long mail_there;
	__shared__ int found;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, run = (tiles + each - 1) / each;
	Span span = {tiles * part / each, 0};
	span.count = tiles * (part + 1) / each - span.from;
	heads.ask(mine);
	u32 *words = (u32*)memory, *staged = words + in;
	float *parts = (float*)(staged + stride(in)), *others = parts + run * warps * tile_columns;
	slots.ring = (unsigned char*)(others + run * tile_columns) + warp * slots.count * slots.bytes;
	Mail mail = {&mail_there};
	mail.begin(!second, span.count * tile_columns * 4);
	Share share(units, span);
	AlikeFeed feed(mine, slots, units, span.from + share.tile, share.unit, share.to - share.from);
	zero_behind(staged, in);
	for (int i = threadIdx.x; i < run * warps * tile_columns; i += blockDim.x) parts[i] = 0;
	int apart = lane * ((u32)in >> 30);  // 0, as in first_products
	share.keep();
	asm volatile("" : "+r"(apart));
	mail.end();
	wait_for_previous();
	let_next();
	uint4 none = {};
	Keys keys = warp == 0 ? Keys(left.words + in + keys_behind) : Keys(none);
	Own own(left.words, in);
	if (warp == 0) keys.kth(&found, k);
	feed.come(mine);
	own.put(words, left.words, in);
	arrived<0>();  // heads
	__syncthreads();
	int expert = (&found)[apart], i = threadIdx.x * 8, columns = min(span.count * tile_columns, out - span.from * tile_columns);
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
		float sum = total(parts + i / tile_columns * warps * tile_columns + lane) + late.bias;
		if (second) {
			mail.send(others + i, sum);
			continue;
		}
		sum = act == 0 ? SiLU::of(sum) : other_activation(act, sum);
		mail.wait();
		if (there) left.acts[k * left.ld + late.place] = __float2half_rn(sum * others[i]);
	}
}

// Sum is where the weighted sum goes.
struct Sum {
	float* y;           // [out]
	const half* all;    // [out]: what the expert of all rows has computed, or null
	float scale;
	Link link;          // for the products that read y next
};

// Runs is the units of all chosen experts' matrices in a tile, one expert's after the other's.
struct Runs {
	const Table& table;
	const Chosen& chosen;
	int count, units, tile;  // experts; units of each, or 0 if they differ

	// before returns how many units those in front of expert k have.
	__device__ int before(int k) const {
		int n = units * k;
		for (int i = 0; !units && i < k; i++) n += units_of(i);
		return n;
	}
	__device__ int units_of(int k) const { return units ? units : ((const Matrix*)table.of(chosen.experts[k]))->units128; }

	// find returns the expert of unit i, which is its unit `of`.
	__device__ int find(int i, int& of) const {
		int k = 0;
		of = i;
		if (units) k = i / units, of = i % units;
		else for (int n; k < count - 1 && of >= (n = units_of(k)); k++) of -= n;
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

// newest reads what the first kernel has written, behind the wait for it.
__device__ inline uint4 newest(const half* p) {
	uint4 v;
	asm volatile("ld.global.cg.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
	return v;
}

// A Staging makes digits of the rows of two units, half of the lanes each, by a power of two of both.
struct Staging {
	const half* from;
	bool there;
	uint4 v;

	__device__ Staging(const u32* what, const Left& left, int in) {
		int lane = threadIdx.x % 32;
		u32 packed = what[lane / 16];
		int at = digits_row_of(packed) / digit_block * block_rows + lane % 16 * 8;
		from = left.acts + (packed >> 20) * left.ld + at, there = at < in;
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

// last_products is the second kernel, plain as the first.
template <bool plain>
__device__ void last_products(const Given& g, const Rule& r, const Left& left, const Sum& to, const Table& table, int blocks, int units128, int most, int biased, int in, int out, Slots slots) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float parts[warps * tile_columns], others[most_blocks * tile_columns];
	__shared__ unsigned long long mail_there;
	__shared__ Chosen chosen;
	__shared__ Listed windows[warps][most_listed];
	int tile = blockIdx.x / blocks, part = blockIdx.x % blocks, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	u32 *zeros = (u32*)memory, *staged = zeros + zero_words + warp * most * unit_words, *what = zeros + zero_words + warps * most * unit_words + warp * most;
	slots.ring = (unsigned char*)(zeros + zero_words + warps * most * unit_words + (warps * most + 31) / 32 * 32);  // at a line
	if (threadIdx.x < zero_words) zeros[threadIdx.x] = 0;
	Mail mail = {&mail_there};
	if (blocks > 1) mail.begin(part == 0, (blocks - 1) * tile_columns * 4);
	table.ask(g.experts, blockIdx.x, gridDim.x);
	int column = tile * tile_columns + lane;
	bool adds = warp == 0 && part == 0, there = column < out;
	Linked linked;
	if (adds && there && to.link.left) linked = Linked(to.link, 0, column);
	if constexpr (plain) choose_by_logits(chosen, g, r);
	else choose<true>(chosen, slots.ring, g, r);
	Runs runs = {table, chosen, g.chosen, units128, tile};
	int all = runs.before(g.chosen), from = all * (part * warps + warp) / (blocks * warps), end = all * (part * warps + warp + 1) / (blocks * warps);
	__syncthreads();  // the ring's memory is no longer the choosing's, and zeros are there
	slots.ring += warp * slots.count * slots.bytes;
	Feed<Runs> feed(slots, windows[warp], runs, from, end);
	feed.begin(slots.count);
	if (most <= most_listed) {
		if (lane < most) what[lane] = from + lane < end ? windows[warp][lane].packed & 0xfffff | windows[warp][lane].expert << 20 : 0;
	} else {
		for (int j = from + lane; j < from + most; j += 32) what[j - from] = j < end ? runs.what(j) : 0;
	}
	__syncwarp();
	float y = 0, bias = 0;
	if (adds && there) y = read_square(to.y + column);  // what has been written of it was before the router's kernel began
	for (int k = 0; adds && there && biased && k < g.chosen; k++) bias += chosen.weights[k] * ((const Matrix*)table.of(chosen.experts[k]))->bias[column];
	if (blocks > 1) mail.end();
	Staging staging(what, left, in);
	after_previous();
	staging.ask();
	Constants constants((u32)in >> 20);
	Digits x(staged, zeros - staged);
	float sums[2][4] = {}, mixed[2][4] = {};
#pragma unroll 1
	for (int j = 0;; staging.ask()) {
		staging.put(staged + j * unit_words, what + j);
		if ((j += 2) >= end - from) break;
		staging = Staging(what + j, left, in);
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
	if (to.all && there) sum += weight_of_all(g, 0) * __half2float(to.all[column]);
	sum = y + to.scale * sum;
	if (there) to.y[column] = sum;
	if (to.link.left) link(to.link, linked, tile, 0, there, sum);
}

#define MIXTURE_GATE(name, plain)                                                                        \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		half* acts, const int* words, const float* logits, const float* correction, \
		const int* gate_table, const int* up_table, const int* down_table, int experts, int chosen, \
		int words1, int words2, int words3, int places1, int places2, int each, int both, int units, \
		int tiles, int in, int out, int act, int slots, int slot, int pairs, int64 ld, int score, \
		int groups, int top_groups, int group_max, int renorm, float renorm_eps, float factor, \
		float jitter) { \
		Given g = {logits, correction, nullptr, nullptr, 1, experts, chosen, chosen, 0, 0}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter}; \
		int of = both ? blockIdx.x : blockIdx.x / 2, which = both ? 2 : blockIdx.x % 2; \
		Left left = {(const u32*)words, acts, ld}; \
		first_products<plain>(g, r, left, {gate_table, words1, places1}, {up_table, words2, places2}, {down_table, words3, 0}, of / each, of % each, which, each, units, tiles, in, out, act, \
		               {nullptr, slot, slots, pairs}); \
	}

MIXTURE_GATE(mixture_gate, true)
MIXTURE_GATE(mixture_gate_any, false)

// mixture_gate_alike is mixture_gate where there are clusters, and the experts' matrices are alike (expert_alike.cuh).
extern "C" __global__ void __launch_bounds__(32 * warps, 2) mixture_gate_alike(
	half* acts, const int* words, const int* gate_table, const int* up_table, const int* down_table,
	int experts, int gate_chunks, int gate_groups, int up_chunks, int up_groups, int each, int units,
	int tiles, int in, int out, int act, int biased, int slots, int slot, int pairs, int64 ld) {
	int of = blockIdx.x / 2;
	bool second = blockIdx.x % 2;
	Alike mine = {(const char*)(second ? up_table : gate_table), experts, second ? up_chunks : gate_chunks, second ? up_groups : gate_groups};
	first_alike({(const u32*)words, acts, ld}, mine, {(const char*)down_table, experts, 0, 0}, of / each, of % each, second, each, units, tiles, in, out, act, biased, {nullptr, slot, slots, pairs});
}

#define MIXTURE_DOWN(name, plain) \
	extern "C" __global__ void __launch_bounds__(32 * warps, 2) name( \
		float* y, const half* acts, const half* all, const float* logits, \
		const float* gate_logits, const float* correction, const int* table, int experts, \
		int chosen, int words, int places, int blocks, int units, int most, int biased, int in, \
		int out, int slots, int slot, int pairs, int64 ld, float sum_scale, int score, int groups, \
		int top_groups, int group_max, int renorm, float renorm_eps, float factor, float jitter, \
		half* left_row, float* left_squares, const float* left_power, const half* left_places, \
		const float* left_scale, float left_offset) { \
		Given g = {logits, correction, gate_logits, nullptr, 1, experts, chosen, chosen, 0, 0}; \
		Rule r = {score, groups, top_groups, group_max, renorm, renorm_eps, factor, jitter}; \
		Left left = {nullptr, (half*)acts, ld}; \
		Link link = {nullptr, (float*)left_power, left_row, left_squares, left_places, left_scale, left_offset, 0, 0, 0}; \
		last_products<plain>(g, r, left, {y, all, sum_scale, link}, {table, words, places}, blocks, units, most, biased, in, out, \
		              {nullptr, slot, slots, pairs}); \
	}

MIXTURE_DOWN(mixture_down, true)
MIXTURE_DOWN(mixture_down_any, false)
