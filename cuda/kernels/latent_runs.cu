// What is in front of latent attention of runs of rows that multiplies what the cache has to keys and values of heads again
// (attend_latent_hopper.cu): queries and keys turn, keys are stored, and those of whole sequences gathered.
#include "latent.cuh"
#include "order.cuh"

constexpr int threads = 128;
constexpr int most_pairs = 32;
constexpr int gathered = 8;  // positions of a block

// latent_runs_turn turns what has positions of a row's queries, in place, and stores its key: a block a row.
extern "C" __global__ void __launch_bounds__(threads) latent_runs_turn(
	half* q,  // [rows, heads·(nope + beside)], rows ldq elements apart
	const half* kv, half* pages, const float* scale, const float* freqs, const int* pos, const int* seq, const int* table, int* fault,
	int heads, int nope, int beside, int latent, int pairs, int interleaved, int sequences, int table_cols, int count, int page_rows,
	int64 ldq, int64 ldkv, float turn_scale, float eps, float offset) {
	__shared__ float2 of[most_pairs];
	after_previous();
	int row = blockIdx.x;
	Turns turns = {freqs, pairs, interleaved, turn_scale};
	for (int i = threadIdx.x; i < pairs; i += threads) of[i] = turns.at(i, pos[row]);
	Newest newest = {kv, scale, pos, seq, table, pages, fault, latent, sequences, table_cols, count, page_rows, ldkv, eps, offset};
	newest.put<threads>(row, beside, turns);  // all threads meet there
	for (int i = threadIdx.x; i < heads * pairs; i += threads) {
		half* head = q + row * ldq + i / pairs * (nope + beside) + nope;
		turns.put(head, head, i % pairs, of[i % pairs]);
	}
}

// latent_runs_gather copies latents, and what is beside them, of all positions of the sequences of some runs.
extern "C" __global__ void __launch_bounds__(threads) latent_runs_gather(
	half* latents,      // [runs·ahead, latent]
	half* shared,       // [runs·ahead, beside]
	const half* pages,  // [pages·page_rows, beside + latent]
	const int* pos, const int* seq, const int* table, int span, int ahead, int latent, int beside, int table_cols, int page_rows) {
	after_previous();
	int run = blockIdx.y, first = run * span, end = pos[first] + span, of = seq[first], chunks = (beside + latent) / 8;
	Cache c = {pages, pages, table, table_cols, page_rows, beside + latent};
	for (int p = blockIdx.x * gathered + threadIdx.x / 32; p < min(end, (int)(blockIdx.x + 1) * gathered); p += threads / 32) {
		const half* from = c.k + c.row(of, p);
		int64 to = (int64)run * ahead + p;
		for (int i = threadIdx.x % 32; i < chunks; i += 32) {
			uint4 v = *(const uint4*)(from + i * 8);
			if (i * 8 < beside)
				*(uint4*)(shared + to * beside + i * 8) = v;
			else
				*(uint4*)(latents + to * latent + i * 8 - beside) = v;
		}
	}
}
