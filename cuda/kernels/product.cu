// Products of float32-class accuracy on any GPU (product.cuh). Names end in the
// number of planes of a and of b.
//
// Eight warps compute 64 x 32 of a tile each. Tiles of both operands are contiguous;
// copies bring them to shared memory some steps ahead.
#include "mma.cuh"
#include "product.cuh"

constexpr int threads = 256, warp_m = 64, warp_n = 32, span = 4;
constexpr int slot = tile_rows * block_m;  // halves: two tiles of an operand
constexpr int stage = 4 * slot;

template <int pa, int pb>
constexpr int depth = pa + pb == 2 ? 2 : 1;

// fetch copies the tiles of a step.
template <int pa, int pb>
__device__ inline void fetch(const Product& p, const Part& part, half* to, int step) {
	constexpr int as = pa * depth<pa, pb>, bs = pb * depth<pa, pb>, chunks = slot / 8;
	int64 k = part.first + step * depth<pa, pb>;
	const half* a = p.a + (k * p.a_tiles + part.m / tile_cols) * tile_halves;
	const half* b = p.b + (k * p.b_tiles + part.n / tile_cols) * tile_halves;
	int64 a_next = pa == 2 ? p.a_plane : (int64)p.a_tiles * tile_halves, b_next = pb == 2 ? p.b_plane : (int64)p.b_tiles * tile_halves;
#pragma unroll
	for (int i = 0; i < as + bs; i++)
#pragma unroll
		for (int c = 0; c < chunks / threads; c++) {
			int at = (threadIdx.x + c * threads) * 8;
			copy16(to + i * slot + at, (i < as ? a + i * a_next : b + (i - as) * b_next) + at, true);
		}
}

// within returns where eight columns of a row are in a slot.
__device__ inline int within(int k, int column) {
	return column / tile_cols * tile_halves + k * tile_cols + ((column / 8 ^ k) % 8) * 8;
}

template <int pa, int pb>
__device__ inline void multiply(float (&sums)[4][4][4], const half* from) {
	constexpr int as = pa * depth<pa, pb>, bs = pb * depth<pa, pb>;
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32, m = warp / 4 * warp_m, n = warp % 4 * warp_n;
#pragma unroll
	for (int k = 0; k < tile_rows; k += 16) {
		u32 b[bs][2][4];
#pragma unroll
		for (int j = 0; j < bs; j++)
#pragma unroll
			for (int c = 0; c < 2; c++)
				ldmatrix_trans(b[j][c], from + (as + j) * slot + within(k + lane / 8 % 2 * 8 + lane % 8, n + 16 * c + lane / 16 * 8));
#pragma unroll
		for (int i = 0; i < as; i++)
#pragma unroll
			for (int r = 0; r < 4; r++) {
				u32 a[4];
				ldmatrix_trans(a, from + i * slot + within(k + lane / 16 * 8 + lane % 8, m + 16 * r + lane / 8 % 2 * 8));
#pragma unroll
				for (int j = 0; j < bs; j++) {
					if (depth<pa, pb> == 2 ? i != j : i + j == 2) continue;
#pragma unroll
					for (int c = 0; c < 4; c++) {
						u32 pair[2] = {b[j][c / 2][c % 2 * 2], b[j][c / 2][c % 2 * 2 + 1]};
						mma(sums[r][c], a, pair);
					}
				}
			}
	}
}

template <int pa, int pb>
__device__ void product(const Product* list, int stages) {
	extern __shared__ uint4 memory[];
	half* base = (half*)memory;
	after_previous();
	const Product p = list[blockIdx.y];
	const Part part(p, blockIdx.x);
	if (part.empty) return;
	int steps = (part.steps + depth<pa, pb> - 1) / depth<pa, pb>;
	for (int s = 0; s < stages - 1; s++) {
		if (s < steps) fetch<pa, pb>(p, part, base + s * stage, s);
		commit();
	}
	float all[4][4][4] = {}, sums[4][4][4] = {};
	for (int s = 0; s < steps; s++) {
		arrived_but(stages - 2);
		__syncthreads();
		int ahead = s + stages - 1;
		if (ahead < steps) fetch<pa, pb>(p, part, base + ahead % stages * stage, ahead);
		commit();
		multiply<pa, pb>(sums, base + s % stages * stage);
		if (s % span != span - 1 && s + 1 != steps) continue;
#pragma unroll
		for (int i = 0; i < 64; i++) {
			float& sum = sums[i / 16][i / 4 % 4][i % 4];
			all[i / 16][i / 4 % 4][i % 4] += sum;
			sum = 0;
		}
	}
	int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
	int row = part.m + warp / 4 * warp_m + lane / 4, column = part.n + warp % 4 * warp_n + lane % 4 * 2;
	float factor = multiplier(p);
	float2 old[32];
#pragma unroll
	for (int i = 0; i < 32; i++) old[i] = Place(p, factor, row + i / 8 * 16 + i % 2 * 8, column + i / 2 % 4 * 8).read(p);
#pragma unroll
	for (int i = 0; i < 32; i++) {
		float(&v)[4] = all[i / 8][i / 2 % 4];
		Place(p, factor, row + i / 8 * 16 + i % 2 * 8, column + i / 2 % 4 * 8).write(p, old[i], v[i % 2 * 2], v[i % 2 * 2 + 1]);
	}
}

#define PRODUCT(name, pa, pb)                                                                   \
	extern "C" __global__ void __launch_bounds__(threads) name(const void* list, int stages) { \
		product<pa, pb>((const Product*)list, stages);                                          \
	}

PRODUCT(product_11, 1, 1)
PRODUCT(product_12, 1, 2)
PRODUCT(product_21, 2, 1)
PRODUCT(product_22, 2, 2)
