// Products of up to 32 rows with matrices of affine codes: y = x·W + bias, x [rows, in],
// by tensor cores, fp32 sums.
//
// Columns of W are the rows of what tensor cores multiply, code - zero exactly in fp16, and
// rows of x its columns, eight at a time. A group's scales meet its fp32 sums, so weights
// are not rounded.
//
// A block of threads has one tile of 32 columns, or two where there are more than eight
// rows; its warps have every so many units of 128 rows, each with two slots of shared memory,
// where copies bring a unit's words, scales, zeros and rows of x while the one before
// is multiplied. The warps' sums are added in order.
//
// Names end in the rows, in the bits.
#include "affine.cuh"
#include "order.cuh"
#include "packed.cuh"
#include "unit.cuh"

constexpr int slots = 2;
constexpr int one_warps = 16, more_warps = 8;  // of a block at most, with one tile and with more
constexpr int chunk_bytes = 512;               // a chunk of words, or eight rows of x of a block
constexpr int side_bytes = 384;                // scales and zeros of a tile in a unit

// Source is where a lane finds its part of a tile.
struct Source {
	const uint4* words;
	const uint2* scales;
	const u32* zeros;
};

// copy_words asks for 16 bytes that are read once.
__device__ inline void copy_words(uint4* to, const uint4* from, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from), "l"(once) : "memory");
#else
	*to = *from;
#endif
}

// copy_x is copy16 by way of the first-level cache, where the rows are for the other blocks of a multiprocessor.
__device__ inline void copy_x(uint4* to, const half* from, bool there) {
#if __CUDA_ARCH__ >= 800
	int bytes = there ? 16 : 0;
	asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from), "r"(bytes) : "memory");
#else
	copy16(to, from, there);
#endif
}

__device__ inline void copy8(uint2* to, const uint2* from) {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"((u32)__cvta_generic_to_shared(to)), "l"(from) : "memory");
#else
	*to = *from;
#endif
}

// Slot is a unit in shared memory.
template <int bits, int eights, int tiles>
struct Slot {
	uint4 words[tiles][bits][32];         // a lane's 16 bytes of each chunk
	uint4 x[unit_blocks][eights][32];     // of row g, and of what a lane has of a block
	uint2 scales[tiles][unit_blocks][8];  // of columns g, g+8, g+16, g+24
	u32 zeros[tiles][unit_blocks][8];

	// ask_weights asks for a lane's part of a unit; what the lane q has of scales and zeros is block q's.
	__device__ void ask_weights(const Source (&from)[tiles], int unit, int blocks, int shift, unsigned long long once) {
		int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, group = min(unit * unit_blocks + q, blocks - 1) >> shift;
#pragma unroll
		for (int t = 0; t < tiles; t++) {
#pragma unroll
			for (int i = 0; i < bits; i++) copy_words(&words[t][i][lane], from[t].words + (int64)(unit * bits + i) * 32, once);
			copy8(&scales[t][q][g], from[t].scales + group * 8);
			copy4(&zeros[t][q][g], from[t].zeros + group * 8, true);
		}
	}

	// ask_x asks for a lane's part of x, zeros where there is nothing.
	__device__ void ask_x(const half* x, int rows, int64 ldx, int unit, int blocks) {
		int lane = threadIdx.x % 32, g = lane / 4;
#pragma unroll
		for (int r = 0; r < eights; r++) {
			bool there = 8 * r + g < rows;
			const half* from = x + (there ? 8 * r + g : 0) * ldx + unit * unit_blocks * block_rows + lane % 4 * 8;
#pragma unroll
			for (int j = 0; j < unit_blocks; j++) {
				bool in = unit * unit_blocks + j < blocks;
				copy_x(&this->x[j][r][lane], in ? from + j * block_rows : x, there && in);
			}
		}
	}
};

// Sums are a lane's of columns g, g+8 and g+16, g+24 of each tile, and of rows 2q, 2q+1 of each eight.
template <int eights, int tiles>
struct Sums {
	float v[tiles][eights][2][4];

	__device__ void clear() {
#pragma unroll
		for (int i = 0; i < tiles * eights * 8; i++) (&v[0][0][0][0])[i] = 0;
	}

	// add adds the sums of a group, times its scales.
	template <int bits>
	__device__ void add(const Sums& group, const Slot<bits, eights, tiles>& s, int j) {
#pragma unroll
		for (int t = 0; t < tiles; t++) {
			uint2 both = s.scales[t][j][threadIdx.x % 32 / 4];
			float2 one = __half22float2(half2_of(both.x)), two = __half22float2(half2_of(both.y));
			float scales[4] = {one.x, one.y, two.x, two.y};
#pragma unroll
			for (int r = 0; r < eights; r++)
#pragma unroll
				for (int h = 0; h < 2; h++)
#pragma unroll
					for (int i = 0; i < 4; i++) v[t][r][h][i] = fmaf(scales[2 * h + i / 2], group.v[t][r][h][i], v[t][r][h][i]);
		}
	}
};

// multiply_unit adds the products of a unit, in groups of 2^shift blocks.
template <int bits, int eights, int tiles>
__device__ inline void multiply_unit(Sums<eights, tiles>& sums, const Slot<bits, eights, tiles>& s, int shift, Exponent e) {
	int lane = threadIdx.x % 32;
	Sums<eights, tiles> group;
	Zeros zeros[tiles];
	uint4 all[tiles][bits];
#pragma unroll
	for (int t = 0; t < tiles; t++)
#pragma unroll
		for (int i = 0; i < bits; i++) all[t][i] = s.words[t][i][lane];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		if (j == 0 || (j & ((1 << shift) - 1)) == 0) {  // a group begins
			group.clear();
#pragma unroll
			for (int t = 0; t < tiles; t++) zeros[t] = Zeros(s.zeros[t][j][lane / 4]);
		}
		half2 v[tiles][16];
#pragma unroll
		for (int t = 0; t < tiles; t++) {
			u32 w[bits];
#pragma unroll
			for (int i = 0; i < bits; i++) w[i] = ((const u32*)all[t])[j * bits + i];
			differences<bits>(v[t], w, zeros[t], e);
		}
#pragma unroll
		for (int r = 0; r < eights; r++) {
			uint4 x = s.x[j][r][lane];
			u32 pairs[2][2] = {{x.x, x.y}, {x.z, x.w}};
#pragma unroll
			for (int t = 0; t < tiles; t++)
#pragma unroll
				for (int h = 0; h < 2; h++)
#pragma unroll
					for (int k = 0; k < 2; k++) {
						const half2 *low = v[t] + 8 * h + 2 * k, *high = low + 4;
						u32 a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])};
						mma(group.v[t][r][h], a, pairs[k]);
					}
		}
		if (j == unit_blocks - 1 || ((j + 1) & ((1 << shift) - 1)) == 0) sums.add(group, s, j);
	}
}

template <int bits, int eights, int tiles>
__device__ inline void multiply(
	half* y, float* wide,  // [rows, out], rows ldy elements apart; one of them is null
	const half* x,         // [rows, in], rows ldx elements apart, each at 16 bytes
	const int* words,      // [out/32, units·bits, 128]
	const half* scales,    // [out/32, groups, 32]
	const uint8_t* zeros,  // [out/32, groups, 32]
	const float* bias,     // [out] or null
	int rows, int in, int out, int shift, int64 ldy, int64 ldx) {
	using Unit = Slot<bits, eights, tiles>;
	static_assert(sizeof(Unit) == tiles * (bits * chunk_bytes + side_bytes) + eights * unit_blocks * chunk_bytes, "as cuda/affine.go has it");
	constexpr int width = tiles * tile_columns, stride = width + 4;  // lanes that store sums do not collide
	static_assert(8 * eights * stride * sizeof(float) <= slots * sizeof(Unit), "a warp's sums fit in its slots");
	extern __shared__ __align__(128) unsigned char memory[];
	let_next();
	int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	int blocks = in / block_rows, units = (blocks + unit_blocks - 1) / unit_blocks, groups = ((blocks - 1) >> shift) + 1;
	Unit* slot = (Unit*)memory + warp * slots;
	Source from[tiles];
#pragma unroll
	for (int t = 0; t < tiles; t++) {
		int tile = min((int)blockIdx.x * tiles + t, (out - 1) / tile_columns);
		from[t].words = (const uint4*)words + (int64)tile * units * bits * 32 + lane;
		from[t].scales = (const uint2*)scales + (int64)tile * groups * 8 + g, from[t].zeros = (const u32*)zeros + (int64)tile * groups * 8 + g;
	}
	unsigned long long policy = once();
	if (warp < units) slot[0].ask_weights(from, warp, blocks, shift, policy);
	int column = blockIdx.x * width + threadIdx.x % width;
	float start = bias && column < out ? bias[column] : 0;
	after_previous();
#pragma unroll
	for (int s = 0; s < slots; s++) {
		int unit = warp + s * warps;
		if (unit < units) {
			slot[s].ask_x(x, rows, ldx, unit, blocks);
			if (s > 0) slot[s].ask_weights(from, unit, blocks, shift, policy);
		}
		commit();
	}
	Exponent e;
	int within = min(shift, 2);  // a unit has four blocks
	Sums<eights, tiles> sums;
	sums.clear();
	int s = 0;
#pragma unroll 1
	for (int unit = warp; unit < units; unit += warps) {
		arrived<slots - 1>();
		__syncwarp();
		multiply_unit(sums, slot[s], within, e);
		__syncwarp();
		int next = unit + slots * warps;
		if (next < units) {
			slot[s].ask_weights(from, next, blocks, shift, policy);
			slot[s].ask_x(x, rows, ldx, next, blocks);
		}
		commit();
		s = s + 1 == slots ? 0 : s + 1;
	}
	arrived<0>();
	__syncwarp();
	float* parts = (float*)slot;
#pragma unroll
	for (int t = 0; t < tiles; t++)
#pragma unroll
		for (int r = 0; r < eights; r++)
#pragma unroll
			for (int h = 0; h < 2; h++)
#pragma unroll
				for (int i = 0; i < 4; i++) parts[(8 * r + 2 * q + i % 2) * stride + 32 * t + 16 * h + i / 2 * 8 + g] = sums.v[t][r][h][i];
	__syncthreads();
	if (column >= out) return;
	for (int row = threadIdx.x / width; row < rows; row += blockDim.x / width) {
		float sum = start;
		const float* part = (const float*)memory + row * stride + threadIdx.x % width;
		for (int w = 0; w < warps; w++) sum += part[w * (slots * sizeof(Unit) / sizeof(float))];
		if (y) narrow(y[row * ldy + column], sum);
		else wide[row * ldy + column] = sum;
	}
}

#define MULTIPLY(name, bits, eights, tiles, most_warps)                                                                \
	extern "C" __global__ void __launch_bounds__(32 * most_warps)                                                      \
	name(half* y, float* wide, const half* x, const int* words, const half* scales, const uint8_t* zeros,              \
	     const float* bias, int rows, int in, int out, int shift, int64 ldy, int64 ldx) {                              \
		multiply<bits, eights, tiles>(y, wide, x, words, scales, zeros, bias, rows, in, out, shift, ldy, ldx);         \
	}

MULTIPLY(affine_qmatmul_8_2, 2, 1, 1, one_warps)
MULTIPLY(affine_qmatmul_8_3, 3, 1, 1, one_warps)
MULTIPLY(affine_qmatmul_8_4, 4, 1, 1, one_warps)
MULTIPLY(affine_qmatmul_8_8, 8, 1, 1, one_warps)
MULTIPLY(affine_qmatmul_16_2, 2, 2, 2, more_warps)
MULTIPLY(affine_qmatmul_16_3, 3, 2, 2, more_warps)
MULTIPLY(affine_qmatmul_16_4, 4, 2, 2, more_warps)
MULTIPLY(affine_qmatmul_16_8, 8, 2, 2, more_warps)
MULTIPLY(affine_qmatmul_32_2, 2, 4, 2, more_warps)
MULTIPLY(affine_qmatmul_32_3, 3, 4, 2, more_warps)
MULTIPLY(affine_qmatmul_32_4, 4, 4, 2, more_warps)
MULTIPLY(affine_qmatmul_32_8, 8, 4, 2, more_warps)
