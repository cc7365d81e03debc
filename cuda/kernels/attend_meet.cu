// Attention of a few single rows, or of runs of a few, on Hopper: as attend_decode.cu, but the positions of a row
// and set of heads are divided among blocks of which there is one a multiprocessor at most,
// so that all of them run at the same time. Each leaves what it has found in memory, and joins
// some columns of what all have found as soon as it is there (join_words.cuh): nobody is the last.
#include "attend_row.cuh"
#include "join_words.cuh"

constexpr int most_parts = 128;    // of a row and set of heads: a lane joins one, or up to four
constexpr int alone = 1;           // a block does this many rounds of its warps without help
constexpr int many = 12, few = 8;  // warps
constexpr int positions = 16;      // that a warp takes at a time
constexpr int left_words = 8;      // of four sums
constexpr int most_run = 16;       // rows of a run

// Of wide heads, one of several blocks has so many columns times 16 positions at least.
constexpr int wide = 128, least_columns = 1024;

static_assert(positions == at_once && left_words == part_words && most_parts == 4 * 32 && alone > 0 && least_columns >= wide, "as cuda/attend_meet.go has it");

#if __CUDA_ARCH__ >= 900

// Fixed is a Place that is known from the start. Of wide heads blocks have fewer positions than a round of their warps, so that more
// multiprocessors read, and are a power of two, as lanes are that join them (join_words.cuh).
template <int D>
struct Fixed {
	Place place;
	__device__ const Place& operator()() const { return place; }
	__device__ int see() const { return 0; }
	__device__ bool stays(int) const { return true; }
	__device__ int working(const Span& span, int warps) const {
		int chunks = span.chunks_end() - span.chunk();
		if (D < wide || chunks <= alone * warps) return place.working(span, warps);
		return min(place.parts, 1 << (32 - __clz((chunks - 1) / (least_columns / D))));
	}
};

// take_rows has a block take as many rows of a run of `span` as it has slots for their heads, and returns the last of them. y of the grid counts these sets of rows.
__device__ inline int take_rows(Heads& h, int span, int slots, int group) {
	int each = min(span, max(1, slots / group)), sets = (span + each - 1) / each, run = blockIdx.y / sets, from = (blockIdx.y - run * sets) * each;
	h.rows = min(each, span - from), h.fresh = from + h.rows;
	return run * span + h.fresh - 1;
}

template <int warps, int D, int N, int sharing, bool full, bool more, int most>
__device__ void attend(const Attend& a, const Cache& c, unsigned* words, const float* v_norm, bool late, bool whole) {
	extern __shared__ uint4 memory[];
	using M = Shared<warps, D, N, sharing, most>;
	M& m = *(M*)memory;
	let_next();
	Heads h(a, blockIdx.x, 8 * N);
	if constexpr (more) h.values = v_norm, h.late = late, h.whole = whole && !M::runs;
	Fixed<D> find = {{(int)blockIdx.y, (int)blockIdx.x, (int)blockIdx.z, (int)gridDim.z, alone}};
	if constexpr (M::runs) find.place.row = take_rows(h, a.rows, 8 * N, a.heads / a.kv_heads);
	const Place& b = find.place;
	int all = h.slots() * ((a.dim + 3) / 4);
	unsigned* row = words + ((int64)blockIdx.y * gridDim.x + b.set) * b.parts * (8 * N * D / 4) * part_words;
	Leave give(row, b.part, all);
	int parts = attend_row<full>(m, a, c, find, h, [] { wait_for_previous(); }, give);
	half* y = a.y + b.row * a.ldy;
	if (parts > 32) join_words<warps, full, 4>(row, a, h, y, b.part, parts);
	else if (parts > 1) join_words<warps, full, 1>(row, a, h, y, b.part, parts);
}

#else  // the kernels of attend_decode.cu are for other GPUs

template <int warps, int D, int N, int sharing, bool full, bool more, int most>
__device__ void attend(const Attend&, const Cache&, unsigned*, const float*, bool, bool) {}

#endif

// Names are of the largest dimension, the heads of a set, whether dimensions may
// be any, and whether positions are to be few, where two warps share a head; and of kernels that do more, which norm values, or queries and keys behind the rotation, or rows of these, if they are told: what they do more
// costs others some tenths of a percent. Kernels of runs are given a run's rows.
#define ATTEND(name, warps, D, N, sharing, full, more, most)                                           \
	extern "C" __global__ void __launch_bounds__(32 * warps, 1)                                     \
	name(half* y, const half* places, const half* q, half* k_pages, half* v_pages, const half* k, const half* v,        \
	     const float* freqs, const float* sinks, const float* q_norm, const float* k_norm,          \
	     const int* pos, const int* seq, const int* table, int* fault, int* words, int rows, int sequences,     \
	     int table_cols, int pages, int page_rows, int heads, int kv_heads, int dim, int pairs,     \
	     int interleaved, int64 ldy, int64 ldq, int64 ldk, int64 ldv, float turn_scale,             \
	     float scale, float cap, float temperature, int temperature_span, int window, int norm,     \
	     float eps, float offset, const float* v_norm, int late, int whole) {                       \
		Cache c = {k_pages, v_pages, table, table_cols, page_rows, kv_heads * dim};                 \
		attend<warps, D, N, sharing, full, more, most>(                                                  \
			{y, places, q, k, v, freqs, sinks, pos, seq, fault, rows, sequences, pages, heads, kv_heads,    \
			 dim, pairs, interleaved, ldy, ldq, ldk, ldv, turn_scale,                               \
			 {scale, cap, temperature, temperature_span}, window,                                   \
			 {q_norm, k_norm, norm, eps, offset}}, c, (unsigned*)words, v_norm, late, whole);       \
	}

ATTEND(attend_meet_64_8, many, 64, 1, 1, true, false, 1)
ATTEND(attend_meet_64_8_more, many, 64, 1, 1, true, true, 1)
ATTEND(attend_meet_64_16, many, 64, 2, 1, true, false, 1)
ATTEND(attend_meet_128_8, many, 128, 1, 1, true, false, 1)
ATTEND(attend_meet_128_8_more, many, 128, 1, 1, true, true, 1)
ATTEND(attend_meet_128_16, few, 128, 2, 1, true, false, 1)
ATTEND(attend_meet_256_8, few, 256, 1, 1, true, false, 1)
ATTEND(attend_meet_256_8_more, few, 256, 1, 1, true, true, 1)
ATTEND(attend_meet_256_8_short, few, 256, 1, 2, true, false, 1)
ATTEND(attend_meet_256_8_short_more, few, 256, 1, 2, true, true, 1)
ATTEND(attend_meet_512_8_more, few, 512, 1, 2, true, true, 1)
ATTEND(attend_meet_64_any, many, 64, 1, 1, false, false, 1)
ATTEND(attend_meet_128_any, few, 128, 1, 1, false, false, 1)
ATTEND(attend_meet_256_any, few, 256, 1, 1, false, false, 1)
ATTEND(attend_meet_64_8_runs, many, 64, 1, 1, true, true, most_run)
ATTEND(attend_meet_64_16_runs, many, 64, 2, 1, true, true, most_run)
ATTEND(attend_meet_128_8_runs, many, 128, 1, 1, true, true, most_run)
ATTEND(attend_meet_128_16_runs, few, 128, 2, 1, true, true, most_run)
ATTEND(attend_meet_256_8_runs, few, 256, 1, 2, true, true, most_run)
