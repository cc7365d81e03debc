// Products of up to eight rows of x with EXL2 matrices, up to four of one x: y = x·W +
// bias, or y += x·W + bias, or y = act(x·W + bias), times x·W' + bias' or x·W + bias or
// not, with x as it is or normalized.
//
// A grid has as many blocks as there are multiprocessors. A block has a run of tiles,
// whose units are shared among its warps (packed.cuh). The sums of the warps are added
// at the end of the run, in order. x is brought to shared memory in stored order, which
// costs nothing but the places where its elements are put; of one row that lies in that order already,
// each warp brings what it multiplies.
//
// Units come to shared memory several steps ahead, each lane's part for itself, so that
// only the lane waits for it. The first ones are asked for before the kernel in front of
// this one is done: weights depend on nothing. What a multiprocessor reads waits behind all
// words that it has asked for, so these are not all that there is room for (docs/decoding.md).
// Products by digits let the next kernel start behind the wait, which is faster than at once (there).
#include "digit_part.cuh"
#include "digit_row.cuh"
#include "digit_rows.cuh"
#include "few_feed.cuh"
#include "few_finish.cuh"
#include "few_stage.cuh"
#include "order.cuh"

constexpr int product_bytes = (80 * most_matrices + 120 + 40 + 64 + 4 * (most_matrices + 1) + 4 * (many_warps + 2) + 7) / 8 * 8;
static_assert(sizeof(Product) == product_bytes, "as cuda/packed.go has it");

// How a row comes: it is put in order; or warps bring what they need, in order.
enum Way { placed, parted };

// qmatmul_row is the product of one row by digits.
template <int warps, int slots, Way way, class P = Product>
__device__ inline void qmatmul_row(const P& p) {
	constexpr bool links = way == parted;
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float norm;   // its factor
	__shared__ Found found;  // of a row that is joined, instead
	bool leaves = p.leaves;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	float* parts = (float*)(base + warps * slots * p.slot);
	Kept* results = (Kept*)(parts + p.round * warps * tile_columns);
	u32* staged = (u32*)(results + p.round * tile_columns);

	// Tiles are worked out in front of the first unit: behind it the compiler would do so once more (docs/decoding.md).
	Range run = run_of(p), round = {run.from, min(run.from + span_of(p), run.to)};
	bool stores = warp < round.size();
	StepFeed<warps, slots> feed(p, first_byte + warp * slots * p.slot + lane * 4, run);
	u32 select = lane / 4 % 2 ? spread_high : spread_low;
	Constants constants((u32)p.count >> 8);
	float lowest;  // of digits
	int pos = 0;
	StepDigits row(staged, (const char*)(staged + p.in));
	if constexpr (way == parted) {
		Result result;
		Part part(p, (char*)staged);
		if (warp >= warps - 4) touch(p);  // one of each scheduler's
		if (stores) result.find<links>(p, round.from + warp, lane);
		if (threadIdx.x < row_padding) ((u32*)part.zeros)[threadIdx.x] = 0;
		row = part.digits();
		row.settle();
		wait_for_previous();
		let_next();
		Joint joint;
		if constexpr (P::joins) joint.ask(p.join, part);
		else part.ask();
		Factor f;
		bool last = !P::joins && warp == warps - 1;
		if (last) f.ask(p.link);
		if (leaves && stores) pos = look_at(p.leaving.pos);
		__syncthreads();  // all have asked for x, behind which words may wait
		if (stores) result.come<links>(p);  // which waits for where it is: the others need not
		feed.ask(), feed.look();
		if constexpr (P::joins) joint.join(p.join, part, found);
		lowest = part.make();
		if (stores) results[threadIdx.x] = result.kept(p, round.from + warp, leaves ? p.leaving.readers(pos) : 0);
		if (last) {
			float v = f.get(p.link);
			if (lane == 0) norm = v;
		}
	} else {
		row.settle();
		Ahead ahead(p);
		wait_for_previous();
		let_next();
		if (leaves && stores) pos = look_at(p.leaving.pos);
		lowest = stage_digits(staged, p, ahead, [&] { feed.ask(), feed.look(); });
		__syncthreads();
		if (stores) results[threadIdx.x] = result_of<links>(p, round.from + warp, lane, leaves ? p.leaving.readers(pos) : 0);
	}
	float digit = lowest * (lane % 2 ? 128 * 128 / times_codes : 1 / times_codes);
	float* keep = parts + warp * tile_columns + lane / 4 + lane % 4 / 2 * 16 + lane % 2 * 8;
	int of_each = p.then == gate ? 2 : 1;  // matrices
	for (;;) {
		float* to = keep;
		int tiles = seldom(round.size() * of_each);
		for (int t = 0; t < tiles; t++, to += warps * tile_columns) {
			float sums[2][4] = {};
			u32 what;
			do {
				what = feed.coming[0];
				const u32* slot = (const u32*)(base + (feed.next_unit() - first_byte));
				multiply_step(what, sums, (const uint4*)((const char*)slot + feed.words_at), row, StepCodes{slot, select}, StepUnits{high_twice(what), slot}, constants);
				if (!feed.ahead) feed.ask();
				feed.look();
			} while (!(what & last_step));
			keep_lane(to, sums, digit);
		}
		__syncthreads();
		if (warp < round.size()) {
			if constexpr (P::joins) {
				float factor = factor_of(p, found);
				finish_row<warps, links>(p, parts, round, results[threadIdx.x], &factor);
			} else {
				finish_row<warps, links>(p, parts, round, results[threadIdx.x], &norm);
			}
		}
		if (round.to == run.to) break;
		__syncthreads();
		round = {round.to, min(round.to + span_of(p), run.to)};
		if (warp < round.size()) results[threadIdx.x] = result_of<links>(p, round.from + warp, lane, leaves ? p.leaving.readers(pos) : 0);
	}
	arrived<0>();
}

// qmatmul is the product of some rows by fp16.
template <int warps, int slots, int most_rows>
__device__ inline void qmatmul(const Product& p) {
	constexpr bool links = most_rows > 1;
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float factors[most_rows];
	let_next();
	constexpr int sums_of = tile_columns * most_rows;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	float* parts = (float*)(base + warps * slots * p.slot);
	u32* units = (u32*)(parts + p.round * warps * sums_of);
	half* staged = (half*)(units + p.units);

	Feed<warps, slots> feed(p, first_byte + warp * slots * p.slot + lane * 4);
	u32 select = lane / 4 % 2 ? spread_high : spread_low;
	Exponent e;
	Range run = run_of(p);
	Ahead ahead(p);
	u32 unit = unit_of(p, threadIdx.x);
	wait_for_previous();
	keep_units(units, p, unit);
	stage(staged, p, ahead, p.rows);
	if (most_rows > 1) {
		for (int row = warp; row < p.rows; row += warps) {
			float f = factor<4>(p.link, row);
			if (lane == 0) factors[row] = f;
		}
	}
	if (!p.places) arrived<0>();
	__syncthreads();
	const char* x = (const char*)(staged + min(lane / 4, p.rows - 1) * stride(p.in) + lane % 4 * 8);
	int span = span_of(p);
	for (Range round = {run.from, run.from}; round.to < run.to;) {
		round = {round.to, min(round.to + span, run.to)};
		Late late = first_of<most_rows, links>(p, round);
		float* mine = parts + warp * sums_of;
		const u32* of = units;
		for (int k = 0; k < p.count; k++) {
			const Matrix& m = p.m[k];
			int tiles = in(m, round).size(), n = units_of<warps>(m).size();
			for (int t = 0; t < tiles; t++, mine += warps * sums_of) {
				float sums[2][4] = {};
				for (int j = 0; j < n; j++) {
					const u32* slot = (const u32*)(base + (feed.next_unit() - first_byte));
					u32 u = *slot;
					const uint4* words = (const uint4*)(slot + (1 + p.groups) * lane_words + lane * 3);
					LaneCodes codes = {slot + lane_words, select};
					multiply_unit<most_rows>(bits_of_unit(u), has_one_group(u), sums, words, (const uint4*)(x + row_of(u)), codes, of + group_of(u), shift_of(u), e);
					feed.ask();
				}
				keep<most_rows>(mine, sums);
			}
			of += padded_groups(m.groups);
		}
		__syncthreads();
		finish<warps, most_rows, links>(p, parts, round, p.rows, late, factors);
		if (round.to < run.to) __syncthreads();
	}
	arrived<0>();
}

// qmatmul_digits is qmatmul of some rows of x, in stored order, by digits (digit_rows.cuh).
template <int warps, int slots, class X>
__device__ inline void qmatmul_digits(const Product& p) {
	extern __shared__ __align__(128) uint4 memory[];
	__shared__ float factors[X::rows];
	bool leaves = X::leaves && p.leaves;
	constexpr int sums_of = tile_columns * X::rows;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned char* base = (unsigned char*)memory;
	u32 first_byte = (u32)__cvta_generic_to_shared(memory);
	float* parts = (float*)(base + warps * slots * p.slot);
	Kept* results = (Kept*)(parts + p.round * warps * sums_of);

	Range run = run_of(p), round = {run.from, min(run.from + span_of(p), run.to)};
	X x(p, (char*)results + p.results);
	StepFeed<warps, slots, true> feed(p, first_byte + warp * slots * p.slot + lane * 4, run);
	if (warp >= warps - 4) touch(p);  // one of each scheduler's
	int mine = warp / X::rows, row = warp % X::rows;  // the tile of a round, and the row, that the warp stores
	bool has_row = row < p.rows, stores = has_row && mine < round.size();
	Result result;
	if (stores) result.find<true, true>(p, round.from + mine, lane, row);
	u32 select = lane / 4 % 2 ? spread_high : spread_low;
	Constants constants((u32)p.count >> 8);
	int pos = 0;  // of the row
	wait_for_previous();
	let_next();
	Factor f;
	int factors_of = warps - 1 - warp;
	x.ask(p, [&] {
		if (factors_of < p.rows) f.ask(p.link, factors_of);
		if (leaves && stores) pos = look_at(p.leaving.pos + row);
		__syncthreads();  // all have asked for x, behind which words may wait
		if (stores) result.come<true>(p, row);
		feed.ask();
	});
	x.begin();
	if (stores) results[threadIdx.x] = result.kept(p, round.from + mine, leaves ? p.leaving.readers(pos) : 0, row);
	if (factors_of < p.rows) {
		float v = f.get(p.link, factors_of);
		if (lane == 0) factors[factors_of] = v;
	}
	int of_each = p.then == gate ? 2 : 1;  // matrices
	for (;;) {
		float* to = parts + warp * sums_of;
		int tiles = seldom(round.size() * of_each);
		x.begin_round();
		for (int t = 0; t < tiles; t++, to += warps * sums_of) {
			float sums[4] = {};
			u32 what;
			x.begin_tile(p, round);
			do {
				x.begin_unit();
				what = feed.coming[0];
				u32 units = feed.units[0];
				const u32* slot = (const u32*)(base + (feed.next_unit() - first_byte));
				multiply_rows(what, sums, (const uint4*)((const char*)slot + feed.words_at), x, x.column_of(what), LaneCodes{slot, select},
					GroupUnits{units, slot}, constants);
				if (!feed.ahead) feed.ask();
			} while (!(what & last_step));
			x.keep(to, sums);
		}
		__syncthreads();
		if (has_row && mine < round.size()) finish_row<warps, true, X::rows>(p, parts, round, results[threadIdx.x], factors + row);
		if (round.to == run.to) break;
		__syncthreads();
		round = {round.to, min(round.to + span_of(p), run.to)};
		if (has_row && mine < round.size()) results[threadIdx.x] = result_of<true, true>(p, round.from + mine, lane, leaves ? p.leaving.readers(pos) : 0, row);
	}
	arrived<0>();
}

// Beside a block there is room for as many registers as so many warps more would have: of
// one row and of two, for a block of attend_left.cu.
constexpr int warps_beside = 4;

#define QMATMUL_ROW(name, slots, way, P)                                                   \
	extern "C" __global__ void __launch_bounds__(32 * many_warps + 32 * warps_beside, 1)    \
	name(const __grid_constant__ P product) {                                              \
		qmatmul_row<many_warps, slots, way>(product);                                      \
	}

QMATMUL_ROW(qmatmul_one, 3, parted, Product)
QMATMUL_ROW(qmatmul_one_wide, 2, parted, Product)
QMATMUL_ROW(qmatmul_one_joined, 3, parted, JoinProduct)  // or leaves what is to be joined
QMATMUL_ROW(qmatmul_placed, 3, placed, Product)
QMATMUL_ROW(qmatmul_placed_wide, 2, placed, Product)  // where shared memory has no room for three slots

#define QMATMUL(name, warps, slots, most_rows)                        \
	extern "C" __global__ void __launch_bounds__(32 * warps, 1)       \
	name(const __grid_constant__ Product product) {                   \
		qmatmul<warps, slots, most_rows>(product);                    \
	}

QMATMUL(qmatmul_halves, many_warps, 2, 1)  // where shared memory has no room for a row of digits
QMATMUL(qmatmul_more, many_warps, 2, most)
QMATMUL(qmatmul_few, few_warps, 1, most)

#define QMATMUL_DIGITS(name, slots, X, beside)                                          \
	extern "C" __global__ void __launch_bounds__(32 * many_warps + 32 * beside, 1)     \
	name(const __grid_constant__ Product product) {                                    \
		qmatmul_digits<many_warps, slots, X>(product);                                 \
	}

QMATMUL_DIGITS(qmatmul_two, 3, TwoRows, warps_beside)
QMATMUL_DIGITS(qmatmul_two_wide, 2, TwoRows, warps_beside)  // as qmatmul_one_wide
QMATMUL_DIGITS(qmatmul_four, 2, FourRows, 0)
