// Attention of one row, or of two, on Hopper that begins while q, k and v are being multiplied: as
// attend_spread.cu, but blocks have room beside those of the products (qmatmul.cu), which let
// them start and leave their results word by word (meet.cuh). So everything else is there
// before, nobody waits for the end of a kernel, and the blocks of o find room, too. There is
// one a multiprocessor at most, as they wait for each other (join_words.cuh).
//
// The products let this kernel start when they have waited for those before them. So it need
// not wait for what these have written.
#include "attend_row.cuh"
#include "join_words.cuh"
#include "meet.cuh"

constexpr int warps = attending_warps;
constexpr int blocks = 4;       // of a multiprocessor there is room for; one beside a block of qmatmul_one or qmatmul_two
constexpr int most_parts = 16;  // of a row and its heads: a lane joins one

template <int D>
using Block = Shared<warps, D, 1, (D > attending_columns ? 2 : 1)>;

static_assert(most_parts <= 32, "as join_words has it");

struct Given {
	Attend attend;
	Cache cache;
	Leaving leaving;
	unsigned* found;      // [rows, sets, blocks of a set, 8·dim/4, part_words]
	const float* values;  // [dim]: weights of the norm of values, or null; of kernels that do more, as is late
	int late;             // norms of queries and keys follow the rotation
	int heads;            // of a set; the last one of a head of keys may have fewer
};

static_assert(sizeof(Given) == 304, "as cuda/attend_left.go has it");

#if __CUDA_ARCH__ >= 900

// bring_left is bring of a head that has been left.
template <int D>
__device__ inline void bring_left(half* to, unsigned* words, const float* weights, const Attend& a, const float2* turns, bool late) {
	constexpr int n = D / 64;
	Pairs<D, true> p(a);
	unsigned* at[2 * n];
	half v[2 * n];
#pragma unroll
	for (int j = 0; j < n; j++) at[2 * j] = words + p.x[j], at[2 * j + 1] = words + p.y[j];
	take(v, at);
#pragma unroll
	for (int j = 0; j < n; j++) p.u[j] = widen(v[2 * j]), p.v[j] = widen(v[2 * j + 1]);
	p.finish(to, weights, a, turns, late);
}

// prepare_left brings what has been left to shared memory.
template <int D>
__device__ inline void prepare_left(Block<D>& m, const Attend& a, const Leaving& l, const Share& share, const Place& b, const Heads& h) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned *queries = l.head(b.row, h.kv) + (b.part - h.kv) * l.queries + h.first * D, *newest = l.newest(b.row, h.kv) + (b.set - h.kv * l.sets) * l.apart(1);
	for (int head = warp; head < h.count; head += warps) bring_left<D>(m.q[head], queries + head * D, a.norms.q, a, m.turns, h.late);
	if (share.newest && warp == warps - 1) bring_left<D>(m.k, newest, a.norms.k, a, m.turns, h.late);
	if (share.newest && warp == warps - 2) {
		unsigned* at[D / 32];
		half v[D / 32];
#pragma unroll
		for (int i = 0; i < D / 32; i++) at[i] = newest + D + lane + 32 * i;
		take(v, at);
		if (h.values) normalize(v, h.values, D, a.norms);
#pragma unroll
		for (int i = 0; i < D / 32; i++) m.v[lane + 32 * i] = v[i];
	}
	__syncthreads();
}

// own_row returns the block's row. It is asked for again where it is needed: there is no register to keep it in.
__device__ inline int own_row() {
	int row;
	asm volatile("mov.u32 %0, %%ctaid.y;" : "=r"(row));
	return row;
}

template <int D, bool more>
__device__ void attend(const Given& g) {
	extern __shared__ uint4 memory[];
	Block<D>& m = *(Block<D>*)memory;
	const Attend& a = g.attend;
	const Cache& c = g.cache;
	let_next();
	Place b = {own_row(), (int)blockIdx.x, (int)blockIdx.z, (int)gridDim.z};
	int pos = current(a.pos + b.row), seq = current(a.seq + b.row);
	Heads h(b.set, g.heads, g.leaving.sets, g.leaving.queries / D);
	if constexpr (more) h.values = g.values, h.late = g.late;
	int thread = min((int)threadIdx.x, h.count * (D / 4) - 1);
	Spot first(a, (h.first + thread / (D / 4)) * D + thread % (D / 4) * 4);
	Walk<Block<D>::columns, true> walk = {m.columns_from(c.k + h.kv * D), m.columns_from(c.v + h.kv * D), c.cols, D};
	float freq = threadIdx.x < a.pairs ? a.freqs[threadIdx.x] : 0;
	Share share(a, b.part, attending(pos, a.window, b.parts, D), max(pos, 0), seq);
	if (b.part >= share.parts) return;
	for (int i = threadIdx.x; i < 8 * (D + 8) / 2; i += 32 * warps) ((unsigned*)m.q)[i] = 0;  // for heads that there are not
	Begun begun = {0, 0};
	bool there = a.there(c, pos, seq);
	if (there) begun = begin<true>(m, walk, a, c, share, h, freq);
	else if (b.part == 0 && threadIdx.x == 0) report(a.fault, position_fault, pos, c.table_cols * c.page_rows);
	__syncthreads();
	prepare_left<D>(m, a, g.leaving, share, b, h);
	if (!there) return;
	{
		State<Block<D>::columns, 1> state;
		attend_share<true>(state, m, walk, a, c, share, h, begun.first);
		state.put(m, h.count, m.unit(), m.column());
	}
	__syncthreads();
	keep_newest<true>(m, a, c, share, h, begun.newest);
	half* y = a.y + own_row() * a.ldy;
	unsigned* row = g.found + (own_row() * (int)gridDim.x + b.set) * b.parts * (8 * D / 4 * part_words);
	join_warps<true>(m, a, h, y, first, share.parts == 1, Leave(row, b.part, h.count * (D / 4)));
	if (share.parts > 1) join_words<warps, true>(row, a, h, y, b.part, share.parts);
	wait_for_previous();  // so that this kernel finishes after all before it
}

#else  // the kernels of attend_decode.cu are for other GPUs

template <int D, bool more>
__device__ void attend(const Given&) {}

#endif

#define ATTEND(name, D, more) \
	extern "C" __global__ void __launch_bounds__(32 * warps, blocks) name(const __grid_constant__ Given given) { attend<D, more>(given); }

ATTEND(attend_left_64, 64, false)
ATTEND(attend_left_128, 128, false)
ATTEND(attend_left_256, 256, false)
ATTEND(attend_left_128_more, 128, true)
ATTEND(attend_left_256_more, 256, true)
