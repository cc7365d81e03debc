// Puts rows of experts in the order in which qgemm_group.cu reads them. Of the last products of a mixture it makes units of gate and up, too.
#include "limited.cuh"
#include "order.cuh"
#include "qgemm_experts.cuh"
#include "qgemm_row.cuh"

constexpr int threads = 256;
constexpr int rows_at_once = 4;  // of an expert

// fours returns of how many blocks so many rows of an expert are.
__device__ inline int fours(int rows) { return (rows + rows_at_once - 1) / rows_at_once; }

// Experts says whose rows there are.
struct Experts {
	const int* first;  // [count + 1]
	int count, n;      // rows of a set, at most
};

// A Four is rows of an expert, and of the set that they are in: from a row of it on.
struct Four {
	Set set;
	int from, rows;

	// Of a number of all, past the last of which there are no rows.
	__device__ Four(const Experts& of, int number) : set{0, 0, 0, 0}, from(0), rows(0) {
		int lane = threadIdx.x % 32;
#pragma unroll 1
		for (int e = lane; e - lane < of.count; e += 32) {
			int begin = of.first[min(e, of.count)], mine = of.first[min(e + 1, of.count)] - begin;
			int own = fours(mine), eights = eights_of(mine), end = own, upto = eights;
#pragma unroll
			for (int step = 1; step < 32; step *= 2) {
				int a = __shfl_up_sync(~0u, end, step), b = __shfl_up_sync(~0u, upto, step);
				if (lane >= step) end += a, upto += b;
			}
			unsigned behind = __ballot_sync(~0u, number < end);
			if (behind) {
				int at = __ffs(behind) - 1, row = (number - __shfl_sync(~0u, end - own, at)) * rows_at_once, before = row / of.n * of.n;
				int all = __shfl_sync(~0u, mine, at);
				set.expert = e - lane + at, set.from = __shfl_sync(~0u, begin, at) + before;
				set.base += __shfl_sync(~0u, upto - eights, at) + before;
				set.rows = min(of.n, all - before), from = row - before, rows = min(rows_at_once, all - row);
				return;
			}
			number -= __shfl_sync(~0u, end, 31), set.base += __shfl_sync(~0u, upto, 31);
		}
	}
};

extern "C" __global__ void __launch_bounds__(threads) qgemm_group_order(
	half* y,           // by sets: [in/32, rows of the set in whole eights, 32], as wgmma reads it
	const half* x,     // rows ldx elements apart, each at 16 bytes
	const half* up,    // likewise; or null. y has units of x and up where it is there.
	const int* rows,   // [·]: of x, or null
	const int* table, const int* first, int count, int n, int words, int in, int act, int64 ldx, int64 ldu, float limit, float most, float alpha, float added) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
	after_previous();
	half* memory = row_in_memory();
	Unit unit = {act, limit, most, alpha, added};
	Four four({first, count, n}, blockIdx.x);
	for (int r = 0; r < four.rows; r++) {
		int64 place = four.set.from + four.from + r, at = rows ? rows[place] : place;
		for (int i = threadIdx.x * 8; i < in; i += threads * 8) {
			Eight<half> v, u;
			v.words[0] = *(const uint4*)(x + at * ldx + i);
			if (up) {
				u.words[0] = *(const uint4*)(up + at * ldu + i);
				unit.eight(v, u);
			}
			*(uint4*)(memory + r * in + i) = v.words[0];
		}
	}
	if (four.rows == 0) return;
	__syncthreads();
	const Matrix& m = *(const Matrix*)Table{table, words, 0}.of(four.set.expert);
	gather<threads, true>({y + (int64)four.set.base * in, m.order, in, four.set.rows8(), four.from}, memory, four.rows);
#endif
}
