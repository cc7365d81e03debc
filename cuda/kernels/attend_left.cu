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

static_assert(most_parts <= 32, "as join_words has it");

struct Given {
	Attend attend;
	Cache cache;
	Leaving leaving;
	unsigned* found;  // [rows, sets, blocks of a set, 8·dim/4, part_words]
};

static_assert(sizeof(Given) == 288, "as cuda/attend_left.go has it");

#if __CUDA_ARCH__ >= 900

// bring_left is bring of a head that has been left.
template <int D>
__device__ inline void bring_left(half* to, unsigned* words, const float* weights, const Attend& a, const float2* turns) {
	constexpr int n = D / 64;
	Pairs<D, true> p(a);
	unsigned* at[2 * n];
	half v[2 * n];
#pragma unroll
	for (int j = 0; j < n; j++) at[2 * j] = words + p.x[j], at[2 * j + 1] = words + p.y[j];
	take(v, at);
#pragma unroll
	for (int j = 0; j < n; j++) p.u[j] = widen(v[2 * j]), p.v[j] = widen(v[2 * j + 1]);
	if (weights) p.normalize(weights, a);
	p.rotate(a, [&](int, int i) { return turns[i]; });
	p.put(to);
}

// prepare_left brings what has been left to shared memory.
template <int D>
__device__ inline void prepare_left(Shared<warps, D, 1>& m, const Attend& a, const Leaving& l, const Share& share, const Place& b, const Heads& h) {
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	unsigned *queries = l.set(b.row, b.set) + b.part * l.queries, *newest = l.newest(b.row, b.set);
	for (int head = warp; head < h.count; head += warps) bring_left<D>(m.q[head], queries + head * D, a.norms.q, a, m.turns);
	if (share.newest && warp == warps - 1) bring_left<D>(m.k, newest, a.norms.k, a, m.turns);
	if (share.newest && warp == warps - 2) {
		unsigned* at[D / 32];
		half v[D / 32];
#pragma unroll
		for (int i = 0; i < D / 32; i++) at[i] = newest + D + lane + 32 * i;
		take(v, at);
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

template <int D>
__device__ void attend(const Given& g) {
	extern __shared__ uint4 memory[];
	Shared<warps, D, 1>& m = *(Shared<warps, D, 1>*)memory;
	const Attend& a = g.attend;
	const Cache& c = g.cache;
	let_next();
	Place b = {own_row(), (int)blockIdx.x, (int)blockIdx.z, (int)gridDim.z};
	int pos = current(a.pos + b.row), seq = current(a.seq + b.row);
	Heads h(b.set, g.leaving.queries / D, g.leaving.sets);
	int thread = min((int)threadIdx.x, h.count * (D / 4) - 1);
	Spot first(a, (h.first + thread / (D / 4)) * D + thread % (D / 4) * 4);
	Walk<D, true> walk = {c.k + h.kv * D, c.v + h.kv * D, c.cols, D};
	float freq = threadIdx.x < a.pairs ? a.freqs[threadIdx.x] : 0;
	Share share(a, b.part, attending(pos, a.window, b.parts), max(pos, 0), seq);
	if (b.part >= share.parts) return;
	for (int i = threadIdx.x; i < 8 * (D + 8) / 2; i += 32 * warps) ((unsigned*)m.q)[i] = 0;  // for heads that there are not
	Begun begun = {0, 0};
	bool there = a.there(c, pos, seq);
	if (there) begun = begin<warps, D, 1, true>(m, walk, a, c, share, freq);
	else if (b.part == 0 && threadIdx.x == 0) report(a.fault, position_fault, pos, c.table_cols * c.page_rows);
	__syncthreads();
	prepare_left<D>(m, a, g.leaving, share, b, h);
	if (!there) return;
	{
		State<D, 1> state;
		attend_share<warps, D, 1, true>(state, m, walk, a, c, share, begun.first);
		state.put(m, h.count);
	}
	__syncthreads();
	keep_newest<warps, D, 1, true>(m, a, c, share, h, begun.newest);
	half* y = a.y + own_row() * a.ldy;
	unsigned* row = g.found + (own_row() * (int)gridDim.x + b.set) * b.parts * (8 * D / 4 * part_words);
	join_warps<warps, D, 1, true>(m, a, h, y, first, share.parts == 1, Leave(row, b.part, h.count * (D / 4)));
	if (share.parts > 1) join_words<warps, true>(row, a, h, y, b.part, share.parts);
	wait_for_previous();  // so that this kernel finishes after all before it
}

#else  // the kernels of attend_decode.cu are for other GPUs

template <int D>
__device__ void attend(const Given&) {}

#endif

#define ATTEND(name, D) \
	extern "C" __global__ void __launch_bounds__(32 * warps, blocks) name(const __grid_constant__ Given given) { attend<D>(given); }

ATTEND(attend_left_64, 64)
ATTEND(attend_left_128, 128)
