// Products of units of an EXL2 matrix with one row by integers, which are exact.
//
// A row of x is scaled by a power of two, by which its largest element is 32 to 64, and
// written with four digits to the base of 128, units first, each rounded to the nearest: bytes
// with a sign of at most 64, which are columns of a matrix of bytes. Tensor cores multiply eight
// columns of bytes at a time by codes, which are bytes, too: as many columns as there are
// anyway, and twice as many rows at once as of fp16. Codes become bytes in one instruction or two
// for four of them (exl2.cuh): with the highest bit turned over, a code in the highest bits of a
// byte is the code less its zero. Codes of two to four bits are multiplied where they are in their bytes,
// as numbers without a sign, some of them with others below them, and what they are too large by, which is so many
// sums of x, is taken off a group's sums.
//
// What an element of fp16 loses is up to 2^-27 of the largest, so a product is wrong by up to
// 2^-27·largest·Σ|w|: less than what sums in fp32 lose where the largest is added. Elements of at
// least 2^-16 of the largest lose nothing.
// A row with an infinity, or what is no number, has products that are no numbers.
#pragma once

#include "packed.cuh"

// kept_as returns v, of which the compiler does not know what it is made of: it is kept as it is. seldom is that of what is
// needed seldom: the compiler does not work out in advance what depends on it.
__device__ inline u32 kept_as(u32 v) {
	asm volatile("" : "+r"(v));
	return v;
}
__device__ inline int seldom(int v) {
	asm volatile("" : "+r"(v));
	return v;
}

// Constants are what products of units need in registers, given zero that the compiler does not know, as it would else make them again
// for each unit. turn is the highest bit of each byte, and -128 of it; exponent and less are 1024 and 64 in both halves. As they follow each other
// they are an operand of tensor cores: columns g have bytes of -128, of columns g+8 nobody reads the sums.
struct Constants {
	u32 turn, exponent, again, less;
	__device__ explicit Constants(u32 nothing) : turn(0x80808080 | nothing), exponent(0x64006400 | nothing), again(0x80808080 + nothing), less(0x54005400 | nothing) {}
};

// How codes of two operands, a column's, become bytes.
enum Bytes {
	at_top,  // in the highest bits, with the highest one turned over: codes less their zero
	below,   // at lower bits: codes
	as_is,   // words as they are: codes of 8 bits less their zero; of 4 bits 16 times a code, and the code of two columns before
};

// bytes_as says it.
template <int bits>
__device__ constexpr Bytes bytes_as(int column) {
	if (bits == 8) return as_is;
	if (bits == 2) return column < 3 ? below : at_top;
	if (bits == 3) return column % 2 ? below : at_top;
	if (bits == 4) return column < 2 ? below : as_is;
	return at_top;
}

// bit_of returns where in bytes codes of a column are.
template <int bits>
__device__ constexpr int bit_of(int column) {
	if (bytes_as<bits>(column) == below) {
		if (bits == 2) return 2 * column;
		if (bits == 3) return column == 1 ? 2 : 0;
		if (bits == 4) return 0;
	}
	return 8 - bits;
}

// masked returns (w & mask) ^ with of a piece of an operand, moved to where its column has its codes.
template <int bits, int operand, int i>
__device__ inline u32 masked(const u32 (&w)[bits], u32 with) {
	constexpr Piece a = piece<bits>(operand, i);
	if constexpr (a.bits == 0) {
		return with;
	} else {
		constexpr int to = a.to + bit_of<bits>(operand / 2);
		return mask_turn(moved<a.at, to>(w[a.word]), ((1u << a.bits) - 1) * 0x01010101u << to, with);
	}
}

// bytes_of returns an operand's bytes.
template <int bits, int operand>
__device__ inline u32 bytes_of(const u32 (&w)[bits], u32 turn) {
	constexpr Bytes as = bytes_as<bits>(operand / 2);
	if constexpr (as == as_is) return w[piece<bits>(operand, 0).word];
	else return masked<bits, operand, 2>(w, masked<bits, operand, 1>(w, masked<bits, operand, 0>(w, as == at_top ? turn : 0)));
}

// mma_bytes is d += a·b for a [16, 32] and b [32, 8] of bytes, of which b have a sign, and a, too, if so said.
// Lane l holds, with g = l/4 and q = l%4, of a rows g and g+8 of columns 4q to 4q+3, and of 4q+16 to 4q+19;
// of b column g of those; of d as mma does.
template <bool with_sign>
__device__ inline void mma_bytes(int (&d)[4], const u32 (&a)[4], uint2 b) {
#if __CUDA_ARCH__ >= 800
#define MMA_BYTES(type)                                                                                                    \
	asm volatile(                                                                                                          \
		"mma.sync.aligned.m16n8k32.row.col.s32." type ".s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"      \
		: "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])                                                                   \
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y))
	if (with_sign) MMA_BYTES("s8");
	else MMA_BYTES("u8");
#else  // the same in four quarters
#define MMA_BYTES(type)                                                                                   \
	asm volatile(                                                                                         \
		"mma.sync.aligned.m8n8k16.row.col.s32." type ".s8.s32 {%0,%1}, {%2}, {%3}, {%0,%1};"               \
		: "+r"(d[2 * r]), "+r"(d[2 * r + 1])                                                              \
		: "r"(a[2 * k + r]), "r"(k == 0 ? b.x : b.y))
#pragma unroll
	for (int k = 0; k < 2; k++)
#pragma unroll
		for (int r = 0; r < 2; r++) {
			if (with_sign) MMA_BYTES("s8");
			else MMA_BYTES("u8");
		}
#endif
#undef MMA_BYTES
}

// Integers are a lane's sums of a group: of columns g, g+8, g+16 and g+24, two digits each, and of -128 times x, by which codes
// of up to four bits lose their zero.
template <int bits>
struct Integers {
	static constexpr bool zeroless = bits > 4;  // as they are multiplied

	int d[2][4], x[4];

	__device__ void begin() {
#pragma unroll
		for (int i = 0; i < 4; i++) d[0][i] = d[1][i] = x[i] = 0;
	}

	// add adds the products of a block.
	__device__ void add(const u32 (&w)[bits], uint2 b, const Constants& c) {
		u32 low[4] = {bytes_of<bits, 0>(w, c.turn), bytes_of<bits, 2>(w, c.turn), bytes_of<bits, 1>(w, c.turn), bytes_of<bits, 3>(w, c.turn)};
		u32 high[4] = {bytes_of<bits, 4>(w, c.turn), bytes_of<bits, 6>(w, c.turn), bytes_of<bits, 5>(w, c.turn), bytes_of<bits, 7>(w, c.turn)};
		mma_bytes<true>(d[0], low, b);
		mma_bytes<bits != 4>(d[1], high, b);
		u32 zeros[4] = {c.turn, c.exponent, c.again, c.less};
		if (!zeroless) mma_bytes<true>(x, zeros, b);
	}

	// sums are those of codes less their zero, times 2^(8-bits); the second digit is so many of the first.
	__device__ void sums(int (&v)[4], int base) const {
#pragma unroll
		for (int i = 0; i < 4; i++) v[i] = d[i / 2][i % 2 * 2] + d[i / 2][i % 2 * 2 + 1] * base;
		int zero = x[0] + x[1] * base;
		if constexpr (bits == 4) {
			v[2] = v[2] - v[0] + zero, v[3] = v[3] - v[1] + zero;
			v[0] = v[0] * 16 + zero, v[1] = v[1] * 16 + zero;
		} else {
#pragma unroll
			for (int i = 0; i < 4; i++)
				if (bytes_as<bits>(i) == below) v[i] = v[i] * (1 << (8 - bits - bit_of<bits>(i))) + zero;
		}
	}
};

// A group's scales are multiplied by 2^(bits-2), and sums of all widths are 64 times what they are: codes of two bits have been
// multiplied by that. Matrices with scales that are too large for it are multiplied otherwise (tooLarge in cuda/exl2.go).
constexpr float times_codes = 64;

template <int bits>
__device__ inline void scales_of_digits(half2 (&s)[2], u32 codes, u32 unit, const Constants& c) {
#pragma unroll
	for (int i = 0; i < 2; i++) {
		half2 v = i == 0 ? __hsub2(half2_of(join(codes, 0x000f000fu, c.exponent)), __float2half2_rn(1023)) : __hsub2(half2_of(join(codes, 0x00f000f0u, c.less)), __float2half2_rn(63));
		s[i] = __hmul2(__hmul2(v, v), half2_of(unit));
		if (bits > 2) s[i] = __hmul2(s[i], __float2half2_rn(1 << (bits - 2)));
	}
}

// scale_digits adds integers, two digits of a lane, to sums: the first of two times 1, the
// second times 128.
template <int bits>
__device__ inline void scale_digits(float (&sums)[2][4], const Integers<bits>& d, u32 codes, u32 unit, const Constants& c) {
	half2 s[2];
	scales_of_digits<bits>(s, codes, unit, c);
	int v[4];
	d.sums(v, 128);
#pragma unroll
	for (int i = 0; i < 4; i++) sums[i / 2][i % 2 * 2] = fmaf(__half2float(scale_of(s, i)), __int2float_rn(v[i]), sums[i / 2][i % 2 * 2]);
}

// Of a row of digits, eight rows of x are 32 bytes: of each digit, the lowest first, those of rows
// 0, 4, 1, 5 and of 2, 6, 3, 7. Behind the last there are zeros, as a unit may go past it.
constexpr int digit_block = 4 * block_rows;  // bytes

// digit_bytes returns the bytes of a row of digits.
__device__ inline int digit_bytes(int in) { return 4 * stride(in); }

// Digits are a row of digits as a lane reads it. Columns of the product that are no digits of one
// half of a unit's rows are those of the other half, where zeros are multiplied for the first: so the
// sums of two groups are made at once, and lanes 4g and 4g+1 have the first's, 4g+2 and 4g+3 the second's.
struct Digits {
	const char *row, *zeros;
	bool second;  // half, of the lane's columns of x
	__device__ Digits(const u32* row, int in) : Digits(row, (const char*)(row + in)) {}
	__device__ Digits(const u32* row, const char* zeros) : row((const char*)row), zeros(zeros) {
		int lane = threadIdx.x % 32;
		this->row += lane % 4 * 32 + lane / 4 % 4 * 8, second = lane / 16;
	}

	// halves returns where digits are that are multiplied with each half of a unit, given how many bytes behind the first its rows begin.
	__device__ void halves(const char*& of_first, const char*& of_second, int behind) const {
		const char* mine = row + behind;
		of_first = second ? zeros : mine, of_second = second ? mine : zeros;
	}
};

// StepDigits are Digits in shared memory of which a unit's rows begin 4·behind bytes behind the first (step_row).
struct StepDigits : Digits {
	u32 at, zeros_at, kept;  // kept: a mask of those halves that are the lane's

	__device__ StepDigits(const u32* row, const char* zeros) : Digits(row, zeros) {}

	// settle works out what there is to be known of row, before it is used.
	__device__ void settle() {
		at = kept_as((u32)__cvta_generic_to_shared(row)), zeros_at = (u32)__cvta_generic_to_shared(zeros), kept = kept_as(second ? ~0u : 0);
	}

	// mixed returns a if the lane's half is the second, or b.
	__device__ u32 mixed(u32 a, u32 b) const {
		u32 v;
		asm("lop3.b32 %0, %1, %2, %3, 0xE4;" : "=r"(v) : "r"(a), "r"(b), "r"(kept));
		return v;
	}
	__device__ void halves(const char*& of_first, const char*& of_second, u32 behind) const {
		u32 mine = at + 4 * behind;
		of_first = (const char*)__cvta_shared_to_generic(mixed(zeros_at, mine)), of_second = (const char*)__cvta_shared_to_generic(mixed(mine, zeros_at));
	}
};

// group_of_lane returns which of the first two groups of a unit a lane has the sums of.
__device__ inline int group_of_lane(u32 packed) { return threadIdx.x % 4 / 2 & ~packed; }

// read_words is *from of shared memory, in the order of what is volatile.
__device__ inline uint4 read_words(const uint4* from) {
	uint4 v;
	asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"((u32)__cvta_generic_to_shared(from)) : "memory");
	return v;
}

// multiply_halves adds a unit's products; `pairs` says how many pairs of groups it has, if it has
// four groups, or one.
template <int bits, int pairs, class X, class Codes, class Units>
__device__ inline void multiply_halves(float (&sums)[2][4], const uint4* words, const X& x, u32 row, const Codes& codes, const Units& units, const Constants& c) {
	const char *first, *second;
	x.halves(first, second, row);
	constexpr int blocks = unit_blocks / pairs;  // of a pair
	Integers<bits> d;
	uint4 all[bits];
#pragma unroll
	for (int i = 0; i < (bits > 4 ? 2 * bits / 4 + 1 : bits); i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		if (bits > 4 && j < 2) {
#pragma unroll
			for (int i = (j + 2) * bits / 4 + 1; i < bits && i < (j + 3) * bits / 4 + 1; i++) all[i] = read_words(words + i * 32);
		}
		u32 w[bits];
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		uint2 b = *(const uint2*)((j % blocks < blocks / 2 ? first : second) + j * digit_block);
		if (j % blocks == 0) d.begin();
		d.add(w, b, c);
		if (j % blocks == blocks - 1) scale_digits(sums, d, codes(j / blocks), units[j / blocks * 2], c);
	}
}

// multiply_wide is multiply_halves by a width that is known at run time, of more than four bits.
template <int pairs, class X, class Codes, class Units>
__device__ inline void multiply_wide(int bits, float (&sums)[2][4], const uint4* words, const X& x, u32 row, const Codes& codes, const Units& units, const Constants& c) {
	if (bits == 5) multiply_halves<5, pairs>(sums, words, x, row, codes, units, c);
	else if (bits == 6) multiply_halves<6, pairs>(sums, words, x, row, codes, units, c);
	else multiply_halves<8, pairs>(sums, words, x, row, codes, units, c);
}

// multiply_width is that of all widths.
template <int pairs, class X, class Codes, class Units>
__device__ inline void multiply_width(int bits, float (&sums)[2][4], const uint4* words, const X& x, u32 row, const Codes& codes, const Units& units, const Constants& c) {
	if (bits <= 4) {
		if (bits == 4) multiply_halves<4, pairs>(sums, words, x, row, codes, units, c);
		else if (bits == 3) multiply_halves<3, pairs>(sums, words, x, row, codes, units, c);
		else multiply_halves<2, pairs>(sums, words, x, row, codes, units, c);
	} else {
		multiply_wide<pairs>(bits, sums, words, x, row, codes, units, c);
	}
}

// multiply_unit_digits adds the products of a unit, of so many bits and 2^shift blocks a group, up to
// four, with the rows of x that begin `row` bytes behind the first. codes gives those of the lane's group
// of each pair (group_of_lane), units is where the lane's of the first is.
template <class X, class Codes, class Units>
__device__ inline void multiply_unit_digits(int bits, int shift, float (&sums)[2][4], const uint4* words, const X& x, u32 row, const Codes& codes, const Units& units, const Constants& c) {
	if (shift > 0) multiply_width<1>(bits, sums, words, x, row, codes, units, c);
	else multiply_width<2>(bits, sums, words, x, row, codes, units, c);
}

// keep_digits puts a warp's sums of a tile where finish adds them, times what the row's lowest digits
// are. Lanes 4g to 4g+3 hand each other what they have of a column, and each keeps one.
__device__ inline void keep_digits(float* parts, float (&sums)[2][4], float lowest) {
	int lane = threadIdx.x % 32, q = lane % 4;
	float digit = lowest * (q % 2 ? 128 * 128 / times_codes : 1 / times_codes), v[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		float a = sums[0][2 * i] * digit, b = sums[1][2 * i] * digit;
		v[i] = (q < 2 ? a : b) + __shfl_xor_sync(~0u, q < 2 ? b : a, 2);
		sums[0][2 * i] = sums[1][2 * i] = 0;
	}
	parts[lane / 4 + q / 2 * 16 + q % 2 * 8] = (q % 2 ? v[1] : v[0]) + __shfl_xor_sync(~0u, q % 2 ? v[0] : v[1], 1);
}

// FixedPoint is the power of two that elements of a row are multiplied by, and what its lowest
// digits are then.
struct FixedPoint {
	float to, lowest;

	// Of the bits of the largest element's absolute value, as a float.
	__device__ FixedPoint(u32 largest) {
		int exponent = max((int)(largest >> 23), 127 - 10);  // below that, fp16 has fewer bits than digits have
		to = __int_as_float((127 + 5 + 127 - exponent) << 23), lowest = __int_as_float((exponent - 5 - 21) << 23);
		if (largest >= 0x7f800000) to = 0, lowest = __int_as_float(0x7fffffff);
	}
};

// digits_of returns n digits, to some base, of two elements times a power of two, the lowest first: in bytes 0 and 2.
template <int n, int base_of = 128>
__device__ inline void digits_of(u32 (&d)[n], half2 x, half2 to) {
	const half2 integers = __float2half2_rn(1536), base = __float2half2_rn(base_of);  // 1536 and a number is an integer
#pragma unroll
	for (int i = n - 1; i >= 0; i--) {
		half2 v = __hfma2(x, to, integers);
		d[i] = bits_of(v);
		if (i > 0) x = __hfma2(x, to, __hneg2(__hsub2(v, integers))), to = base;
	}
}

// put_words stores 16 bytes in shared memory at once. The compiler makes four stores of an assignment whose place
// depends on the lane, which collide.
__device__ inline void put_words(u32* to, uint4 v) {
	asm volatile("st.shared.v4.u32 [%0], {%1, %2, %3, %4};" ::"r"((u32)__cvta_generic_to_shared(to)), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

// put_digits stores the digits of eight rows, two in each of x: where x has rows 4 to 7 first, it is swapped. Lanes begin with one half of
// 32 bytes or the other, by swaps, so that they do not collide.
__device__ inline bool swaps() { return threadIdx.x & 4; }

__device__ inline void put_digits(u32* row, const half2 (&x)[4], half2 to, bool swapped) {
	u32 d[4][4], w[8], select = swapped ? 0x2604 : 0x6240;
#pragma unroll
	for (int i = 0; i < 4; i++) digits_of(d[i], x[i], to);
#pragma unroll
	for (int i = 0; i < 4; i++) w[2 * i] = __byte_perm(d[0][i], d[2][i], select), w[2 * i + 1] = __byte_perm(d[1][i], d[3][i], select);
	uint4 low = make_uint4(w[0], w[1], w[2], w[3]), high = make_uint4(w[4], w[5], w[6], w[7]);
	bool swap = swaps();
	put_words(row + 4 * swap, swap ? high : low);
	put_words(row + 4 * !swap, swap ? low : high);
}

// warp_largest returns the largest of a warp's numbers.
__device__ inline u32 warp_largest(u32 v) {
#if __CUDA_ARCH__ >= 800
	return __reduce_max_sync(~0u, v);
#else
	for (int step = 16; step > 0; step /= 2) v = max(v, __shfl_xor_sync(~0u, v, step));
	return v;
#endif
}

// largest_of returns the larger of absolute values, and what is no number.
__device__ inline half2 largest_of(half2 a, half2 b) {
#if __CUDA_ARCH__ >= 800
	return __hmax2_nan(a, __habs2(b));
#else
	return half2_of(__vmaxu2(bits_of(a), bits_of(b) & 0x7fff7fff));
#endif
}

// measure makes `most` the largest of itself and eight elements.
__device__ inline void measure(half2& most, uint4 v) {
	most = largest_of(largest_of(most, half2_of(v.x)), half2_of(v.y));
	most = largest_of(largest_of(most, half2_of(v.z)), half2_of(v.w));
}
