// Attention of a few single rows with many heads of keys on Hopper: the positions of a row
// and set of heads are divided among blocks, and the one that comes last joins what they
// have found, which is in memory. A row has as many blocks as its length wants among the
// others'.
//
// Sets are the fastest dimension of the grid: the first blocks to start are those that work
// where positions are few, and start where the kernel in front has left multiprocessors
// early.
#include "attend_row.cuh"
#include "join_parts.cuh"

constexpr int warps = 4;
constexpr int blocks = 3, more_blocks = 4;  // of a multiprocessor: the latter with some registers in memory
constexpr int alone = 3;   // a block does this many rounds of its warps without help
constexpr int found = 32;  // bytes of a thread that joins

static_assert(found == sizeof(Part) && blocks > 0 && more_blocks > 0 && alone > 0, "as cuda/attend_spread.go has it");

#if __CUDA_ARCH__ >= 900

// warp_add adds numbers of all lanes.
__device__ inline int warp_add(int n) { return __reduce_add_sync(~0u, n); }

// Division is of the blocks of a set among rows: each has one, and those that are too long
// for that share the others, so that all have about as many rounds. Number y of the grid is
// the first of row y; others come behind, row by row.
struct Division {
	const Attend& a;
	int limit;   // positions that there may be
	int mine;    // the position of the lane's row, of which there are 32 at most
	Place place;
	int behind;  // which number the second block of the row has

	__device__ Division(const Attend& a, const Cache& c) : a(a), limit(c.table_cols * c.page_rows), mine(0), place{0, (int)blockIdx.x, (int)blockIdx.y, (int)gridDim.y, alone}, behind(1) {}

	__device__ int see() const {
		int lane = threadIdx.x % 32;
		return a.rows > 1 && lane < a.rows ? current(a.pos + lane) : 0;
	}
	__device__ bool stays(int seen) const { return __all_sync(~0u, seen == mine); }

	// blocks_of returns how many blocks the lane's row has.
	__device__ int blocks_of() const {
		Span span(min(max(mine, 0), limit - 1), a.window);
		int rounds = span.units(warps);
		bool is_long = (int)(threadIdx.x % 32) < a.rows && rounds > alone;
		int longs = __popc(__ballot_sync(~0u, is_long)), room = gridDim.y - a.rows + longs;
		if (longs == 0 || room == longs) return 1;
		int each = max(1, (warp_add(is_long ? rounds : 0) + room - 1) / room);
		while (warp_add(is_long ? (unsigned)(rounds + each - 1) / (unsigned)each : 0) > room) each += (each + 7) / 8;
		return is_long ? (unsigned)(rounds + each - 1) / (unsigned)each : 1;
	}

	__device__ const Place& operator()() {
		if (a.rows == 1) return place;
		mine = see();
		int lane = threadIdx.x % 32, blocks = blocks_of(), upto = lane < a.rows ? blocks - 1 : 0;
		int more = upto, at = blockIdx.y;
		for (int step = 1; step < 32; step *= 2) {
			int left = __shfl_up_sync(~0u, upto, step);
			if (lane >= step) upto += left;
		}
		unsigned before = __ballot_sync(~0u, lane < a.rows && upto <= at - a.rows);  // rows whose blocks are in front of this one
		int row = at < a.rows ? at : __popc(before);
		behind = a.rows + __shfl_sync(~0u, upto - more, row % 32);
		place.row = min(row, a.rows - 1), place.part = row < a.rows ? (at < a.rows ? 0 : at - behind + 1) : gridDim.y;
		place.parts = __shfl_sync(~0u, blocks, row % 32);
		return place;
	}

	__device__ int working(const Span& span, int warps) const { return place.working(span, warps); }

	// number returns that of a block of the row.
	__device__ int number(int part) const { return part == 0 ? place.row : behind + part - 1; }
};

template <int D, int N, bool full>
__device__ void attend(const Attend& a, const Cache& c, float* sums, int* counters) {
	extern __shared__ uint4 memory[];
	constexpr int stride = D + padding;
	Shared<warps, D, N>& m = *(Shared<warps, D, N>*)memory;
	let_next();
	Heads h(a, blockIdx.x, 8 * N);
	Division division(a, c);
	const Place& b = division.place;
	auto of = [&](int part, int head) { return sums + (((int64)division.number(part) * gridDim.x + b.set) * 8 * N + head) * stride; };
	auto give = [&](int, int head, int at, const Part& all) {
		*(float4*)(of(b.part, head) + at) = all.out;
		if (at == 0) *(float4*)(of(b.part, head) + D) = make_float4(all.top, all.sum, 0, 0);
	};
	int parts = attend_row<full>(m, a, c, division, h, [] { wait_for_previous(); }, give);
	if (parts <= 1) return;
	int item = b.row * gridDim.x + b.set;
	half* y = a.y + b.row * a.ldy;
	__syncthreads();
	if (threadIdx.x == 0) m.last = count(counters + item, parts);
	__syncthreads();
	if (m.last) join_parts<32 * warps, full>((Part*)m.sums, a, h, y, parts, D, of);
}

#else  // the kernels of attend_decode.cu are for other GPUs

template <int D, int N, bool full>
__device__ void attend(const Attend&, const Cache&, float*, int*) {}

#endif

// Names are of the dimension, and whether there is room for more blocks, as there is with 64 anyway.
#define ATTEND(name, D, N, blocks)                                                                          \
	extern "C" __global__ void __launch_bounds__(32 * warps, blocks)                                \
	name(half* y, const half* places, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const float* q_norm, const float* k_norm,          \
	     const int* pos, const int* seq, const int* table, int* fault, float* sums,                 \
	     int* counters, int rows, int sequences, int table_cols, int pages, int page_rows,          \
	     int heads, int kv_heads, int dim, int pairs, int interleaved, int64 ldy, int64 ldq,        \
	     int64 ldk, int64 ldv, float turn_scale, float scale, float cap, float temperature,         \
	     int temperature_span, int window, int norm, float eps, float offset) {                     \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<D, N, true>(                                                                         \
			{y, places, q, k, v, freqs, sinks, pos, seq, fault, rows, sequences, pages, heads, kv_heads,    \
			 dim, pairs, interleaved, ldy, ldq, ldk, ldv, turn_scale,                               \
			 {scale, cap, temperature, temperature_span}, window,                                   \
			 {q_norm, k_norm, norm, eps, offset}},                                                  \
			c, sums, counters);                                                                     \
	}

ATTEND(attend_spread_64, 64, 1, blocks)
ATTEND(attend_spread_128, 128, 1, blocks)
ATTEND(attend_spread_128_more, 128, 1, more_blocks)
