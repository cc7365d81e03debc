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
constexpr int one_threads = 768, more_threads = 256;  // of a multiprocessor, whose registers they are to share: with one tile, and more
constexpr int chunk_bytes = 512;               // a chunk of words, or eight rows of x of a block
constexpr int side_bytes = 384;                // scales and zeros of a tile in a unit

// Slot is where things of a unit are in a slot, in bytes: chunks of words by tiles, of which a lane has
// 16 bytes each; likewise rows g of x, by blocks and eights; scales of columns g, g+8, g+16, g+24 by
// tiles, blocks and g; zeros likewise.
template <int bits, int eights, int tiles>
struct Slot {
	static constexpr int x = tiles * bits * chunk_bytes, scales = x + unit_blocks * eights * chunk_bytes, zeros = scales + tiles * 256;
	static constexpr int bytes = zeros + tiles * 128;
	static_assert(bytes == tiles * (bits * chunk_bytes + side_bytes) + eights * unit_blocks * chunk_bytes, "as cuda/affine.go has it");
};

// copy copies bytes to shared memory while the thread goes on: words, which are read once, by way of the second
// cache alone, the others by way of the first, too, where they are for the other blocks of a multiprocessor.
__device__ inline void copy_words(u32 to, const uint4* from, unsigned long long once) {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(once) : "memory");
#else
	*(uint4*)__cvta_shared_to_generic(to) = *from;
#endif
}

template <class T>
__device__ inline void copy(u32 to, const T* from, int bytes = sizeof(T)) {
#if __CUDA_ARCH__ >= 800
	asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(sizeof(T)), "r"(bytes) : "memory");
#else
	*(T*)__cvta_shared_to_generic(to) = bytes ? *from : T();
#endif
}

// in_shared reads shared memory.
template <class T>
__device__ inline T in_shared(u32 at) {
	return *(const T*)__cvta_shared_to_generic(at);
}

// kept returns v, which is to stay in a register, where the compiler would work it out for every unit again.
template <class T>
__device__ inline T kept(T v) {
	if constexpr (sizeof(T) == 8) asm volatile("" : "+l"(v));
	else asm volatile("" : "+r"(v));
	return v;
}

// Lane is where a lane has its part of a slot.
struct Lane {
	u32 whole, side, group;  // its 16 bytes; its scales, which are of block q of columns g; those of columns g
	__device__ Lane() {
		int lane = threadIdx.x % 32, g = lane / 4, q = lane % 4;
		whole = kept(lane * 16), side = kept((q * 8 + g) * 8), group = kept(g * 8);
	}
};

// Feed asks for the units of a warp, one after the other.
template <int bits, int eights, int tiles>
struct Feed {
	using At = Slot<bits, eights, tiles>;
	const uint4* words[tiles];  // of the unit, at this lane
	const uint2* scales[tiles];
	const u32* zeros[tiles];
	const half* x;              // of row g, at this lane's part of the unit
	int64 eight;                // from a row to that eight further
	int block, last;            // that the lane has scales of; the last one
	int rows;                   // of x from row g on
	int step;                   // from a unit to the next
	unsigned long long policy;

	__device__ void ask_weights(u32 slot, const Lane& lane, int shift) const {
		int group = (min(block, last) >> shift) * 8;
#pragma unroll
		for (int t = 0; t < tiles; t++) {
#pragma unroll
			for (int i = 0; i < bits; i++) copy_words(slot + lane.whole + (t * bits + i) * chunk_bytes, words[t] + i * 32, policy);
			copy(slot + lane.side + At::scales + t * 256, scales[t] + group);
			copy(slot + lane.side / 2 + At::zeros + t * 128, zeros[t] + group);
		}
	}

	// ask_x stores zeros where there is nothing.
	__device__ void ask_x(u32 slot, const Lane& lane) const {
		int left = last - block / unit_blocks * unit_blocks;
		const half* from = x;
#pragma unroll
		for (int r = 0; r < eights; r++, from += eight)
#pragma unroll
			for (int j = 0; j < unit_blocks; j++)
				copy(slot + lane.whole + At::x + (j * eights + r) * chunk_bytes, (const uint4*)(from + j * block_rows), 8 * r < rows && j <= left ? 16 : 0);
	}

	__device__ void next() {
		block += step * unit_blocks, x += step * (unit_blocks * block_rows);
#pragma unroll
		for (int t = 0; t < tiles; t++) words[t] += step * (bits * 32);
	}
};

// block_words returns a lane's words of a block.
template <int bits>
__device__ inline void block_words(u32 (&w)[bits], u32 at, int j) {
	if constexpr (bits == 2) {
		*(uint2*)w = in_shared<uint2>(at + j / 2 * chunk_bytes + j % 2 * 8);
	} else if constexpr (bits == 3) {
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = in_shared<u32>(at + (j * bits + i) / 4 * chunk_bytes + (j * bits + i) % 4 * 4);
	} else {
#pragma unroll
		for (int i = 0; i < bits / 4; i++) *(uint4*)(w + 4 * i) = in_shared<uint4>(at + (j * (bits / 4) + i) * chunk_bytes);
	}
}

// Sums are a lane's of columns g, g+8 and g+16, g+24 of each tile, and of rows 2q, 2q+1 of each eight.
template <int bits, int eights, int tiles>
struct Sums {
	using At = Slot<bits, eights, tiles>;
	float v[tiles][eights][2][4];

	__device__ void clear() {
#pragma unroll
		for (int i = 0; i < tiles * eights * 8; i++) (&v[0][0][0][0])[i] = 0;
	}

	// multiply adds the products of block j.
	__device__ void multiply(u32 slot, const Lane& lane, int j, const Zeros (&zeros)[tiles], Exponent e) {
		half2 codes[tiles][16];
#pragma unroll
		for (int t = 0; t < tiles; t++) {
			u32 w[bits];
			block_words(w, slot + lane.whole + t * bits * chunk_bytes, j);
			differences<bits>(codes[t], w, zeros[t], e);
		}
#pragma unroll
		for (int r = 0; r < eights; r++) {
			uint4 x = in_shared<uint4>(slot + lane.whole + At::x + (j * eights + r) * chunk_bytes);
			u32 pairs[2][2] = {{x.x, x.y}, {x.z, x.w}};
#pragma unroll
			for (int t = 0; t < tiles; t++)
#pragma unroll
				for (int h = 0; h < 2; h++)
#pragma unroll
					for (int k = 0; k < 2; k++) {
						const half2 *low = codes[t] + 8 * h + 2 * k, *high = low + 4;
						u32 a[4] = {bits_of(low[0]), bits_of(high[0]), bits_of(low[1]), bits_of(high[1])};
						mma(v[t][r][h], a, pairs[k]);
					}
		}
	}

	// add adds the sums of a group, times its scales, which are those of block j.
	__device__ void add(const Sums& group, u32 slot, const Lane& lane, int j) {
#pragma unroll
		for (int t = 0; t < tiles; t++) {
			uint2 both = in_shared<uint2>(slot + lane.group + At::scales + t * 256 + j * 64);
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

	// add_unit adds the products of a unit in groups of so many blocks, a power of two up to four.
	template <bool one_group>
	__device__ void add_unit(u32 slot, const Lane& lane, int each, Exponent e) {
		Sums group;
		Zeros zeros[tiles];
#pragma unroll(one_group ? unit_blocks : 1)
		for (int j = 0; j < unit_blocks; j++) {
			if (one_group ? j == 0 : (j & each - 1) == 0) {
				group.clear();
#pragma unroll
				for (int t = 0; t < tiles; t++) zeros[t] = Zeros(in_shared<u32>(slot + lane.group / 2 + At::zeros + t * 128 + j * 32));
			}
			group.multiply(slot, lane, j, zeros, e);
			if (one_group ? j == unit_blocks - 1 : (j + 1 & each - 1) == 0) add(group, slot, lane, j);
		}
	}
};

template <int bits, int eights, int tiles>
__device__ inline void multiply(
	half* y, float* wide,  // [rows, out], rows ldy elements apart; one of them is null
	const half* x,         // [rows, in], rows ldx elements apart, each at 16 bytes
	const int* words,      // [out/32, units·bits, 128]
	const half* scales,    // [out/32, groups, 32]
	const uint8_t* zeros,  // [out/32, groups, 32]
	const float* bias,     // [out] or null
	int rows, int in, int out, int shift, int64 ldy, int64 ldx) {
	constexpr int slot_bytes = Slot<bits, eights, tiles>::bytes;
	constexpr int width = tiles * tile_columns, stride = width + 4;  // lanes that store sums do not collide
	static_assert(8 * eights * stride * sizeof(float) <= slots * slot_bytes, "a warp's sums fit in its slots");
	static_assert(slots == 2, "as `both` has it");
	extern __shared__ __align__(128) unsigned char memory[];
	let_next();
	int g = threadIdx.x % 32 / 4, q = threadIdx.x % 4, warp = threadIdx.x / 32, warps = blockDim.x / 32;
	int blocks = in / block_rows, units = (blocks + unit_blocks - 1) / unit_blocks, groups = ((blocks - 1) >> shift) + 1;
	Lane lane;
	Feed<bits, eights, tiles> feed;
#pragma unroll
	for (int t = 0; t < tiles; t++) {
		int tile = min((int)blockIdx.x * tiles + t, (out - 1) / tile_columns);
		feed.words[t] = kept((const uint4*)words + ((int64)tile * units + warp) * (bits * 32) + threadIdx.x % 32);
		feed.scales[t] = kept((const uint2*)scales + (int64)tile * groups * 8 + g), feed.zeros[t] = kept((const u32*)zeros + (int64)tile * groups * 8 + g);
	}
	feed.x = kept(x + g * ldx + warp * (unit_blocks * block_rows) + q * 8), feed.eight = 8 * ldx, feed.rows = kept(rows - g);
	feed.block = warp * unit_blocks + q, feed.last = kept(blocks - 1), feed.step = kept(warps), feed.policy = once();
	int column = blockIdx.x * width + threadIdx.x % width;
	float start = bias && column < out ? bias[column] : 0;
	u32 slot = (u32)__cvta_generic_to_shared(memory) + warp * (slots * slot_bytes), both = kept(2 * slot + slot_bytes);
	Exponent e;
	Sums<bits, eights, tiles> sums;
	sums.clear();
	int each = kept(1 << min(shift, 2));
#pragma unroll 1
	for (int left = units - warp + slots * warps; left > 0; left -= warps) {  // units of this warp and those behind, and slots to fill
		if (left <= units - warp) {
			arrived<slots - 1>();
			__syncwarp();
			if (eights == 1 && each == unit_blocks) sums.template add_unit<true>(slot, lane, each, e);
			else sums.template add_unit<false>(slot, lane, each, e);
			__syncwarp();
		}
		bool ask = left > slots * warps, begins = left == units - warp + slots * warps;
		if (ask) feed.ask_weights(slot, lane, shift);
		if (begins) after_previous();
		if (ask) feed.ask_x(slot, lane);
		feed.next();
		commit();
		slot = both - slot;
	}
	arrived<0>();
	__syncwarp();
	float* parts = (float*)(memory + warp * (slots * slot_bytes));
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
		for (int w = 0; w < warps; w++) sum += part[w * (slots * slot_bytes / (int)sizeof(float))];
		if (y) narrow(y[row * ldy + column], sum);
		else wide[row * ldy + column] = sum;
	}
}

#define MULTIPLY(name, bits, eights, tiles, threads)                                                                \
	extern "C" __global__ void __launch_bounds__(threads)                                                              \
	name(half* y, float* wide, const half* x, const int* words, const half* scales, const uint8_t* zeros,              \
	     const float* bias, int rows, int in, int out, int shift, int64 ldy, int64 ldx) {                              \
		multiply<bits, eights, tiles>(y, wide, x, words, scales, zeros, bias, rows, in, out, shift, ldy, ldx);         \
	}

MULTIPLY(affine_qmatmul_8_2, 2, 1, 1, one_threads)
MULTIPLY(affine_qmatmul_8_3, 3, 1, 1, one_threads)
MULTIPLY(affine_qmatmul_8_4, 4, 1, 1, one_threads)
MULTIPLY(affine_qmatmul_8_8, 8, 1, 1, one_threads)
MULTIPLY(affine_qmatmul_16_2, 2, 2, 2, more_threads)
MULTIPLY(affine_qmatmul_16_3, 3, 2, 2, more_threads)
MULTIPLY(affine_qmatmul_16_4, 4, 2, 2, more_threads)
MULTIPLY(affine_qmatmul_16_8, 8, 2, 2, more_threads)
MULTIPLY(affine_qmatmul_32_2, 2, 4, 2, more_threads)
MULTIPLY(affine_qmatmul_32_3, 3, 4, 2, more_threads)
MULTIPLY(affine_qmatmul_32_4, 4, 4, 2, more_threads)
MULTIPLY(affine_qmatmul_32_8, 8, 4, 2, more_threads)
