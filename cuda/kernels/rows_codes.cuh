// Products of a unit of an EXL2 matrix in shared memory (exl2.cuh) by up to eight rows, with tensor cores, of codes
// as they are: halves of nothing but a code are fp16 below the smallest normal number, which tensor cores multiply
// exactly, so that a mask makes most of them. What codes are too large by, the width's zero, is taken
// from the sums, times the sum of x. All of it, sums too, is 2^-24 of what it stands for.
#pragma once

#include "packed.cuh"
#include "unit.cuh"

constexpr int codes_down = 24;  // sums are to be multiplied by two to this

__device__ constexpr float two_to(int n) { return n < 0 ? 1.0f / (1 << -n) : (float)(1 << n); }

// position returns which bit of halves the codes of an operand begin at, the one where they lie, if they lie in one piece.
template <int bits>
__device__ constexpr int position(int operand) {
	constexpr auto whole = [](int o) { return piece<bits>(o, 1).bits == 0; };
	if (whole(operand)) return piece<bits>(operand, 0).at;
	return whole(operand ^ 1) ? piece<bits>(operand ^ 1, 0).at : 0;
}

// apart reports whether a column's two operands are at different positions, so that each needs sums of its own.
template <int bits>
__device__ constexpr bool apart() {
	for (int c = 0; c < 4; c++)
		if (position<bits>(2 * c) != position<bits>(2 * c + 1)) return true;
	return false;
}

// shifted returns w with bit `from` at bit `to`, if that is not where it is.
template <int from, int to>
__device__ inline u32 shifted(u32 w) {
	if constexpr (from == to) return w;
	else return moved<from, to>(w);
}

// pair_of_codes returns the pair of codes that an operand has in the low or high bytes of halves, at its position.
template <int bits, int operand, int high>
__device__ inline u32 pair_of_codes(const u32 (&w)[bits]) {
	constexpr Piece a = piece<bits>(operand, 0), b = piece<bits>(operand, 1), c = piece<bits>(operand, 2);
	constexpr int at = position<bits>(operand);
	static_assert(at + bits <= 10, "bits of a number below the smallest normal one");
	if constexpr (bits == 8) return (high ? __byte_perm(w[a.word], 0, 0x4341) : w[a.word] & 0x00ff00ff) ^ turned<bits>;
	u32 v = shifted<a.at + 8 * high, a.to + at>(w[a.word]) & ((1u << a.bits) - 1) * 0x10001u << (a.to + at);
	if constexpr (b.bits > 0) v = join(shifted<b.at + 8 * high, b.to + at>(w[b.word]), ((1u << b.bits) - 1) * 0x10001u << (b.to + at), v);
	if constexpr (c.bits > 0) v = join(shifted<c.at + 8 * high, c.to + at>(w[c.word]), ((1u << c.bits) - 1) * 0x10001u << (c.to + at), v);
	return v;
}

// codes returns the pairs of codes of a lane's words of a block, each at its operand's position.
template <int bits, int operand = 0>
__device__ inline void codes(u32 (&v)[16], const u32 (&w)[bits]) {
	v[pair_of(operand, 0)] = pair_of_codes<bits, operand, 0>(w);
	v[pair_of(operand, 1)] = pair_of_codes<bits, operand, 1>(w);
	if constexpr (operand + 1 < operands) codes<bits, operand + 1>(v, w);
}

// read_now is *from of shared memory, in the order of what is volatile.
__device__ inline uint4 read_now(const uint4* from) {
	uint4 v;
	asm volatile("ld.shared.v4.u32 {%0,%1,%2,%3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "r"((u32)__cvta_generic_to_shared(from)) : "memory");
	return v;
}

// product is mma, or mma_first, which the compiler may move.
__device__ inline void product(float (&d)[4], const u32 (&a)[4], const u32 (&b)[2], bool first) {
#if __CUDA_ARCH__ >= 800
	float c[4];
#pragma unroll
	for (int i = 0; i < 4; i++) c[i] = first ? 0 : d[i];
	asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%10,%11,%12,%13};"
		: "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
		: "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(c[0]), "f"(c[1]), "f"(c[2]), "f"(c[3]));
#endif
}

// of_lane returns what a lane of the warp has.
__device__ inline float of_lane(float v, int lane) {
	asm("shfl.sync.idx.b32 %0, %0, %1, 31, 0xffffffff;" : "+f"(v) : "r"(lane));
	return v;
}

// multiply_codes adds a unit's products; sums are those of columns g, g+8 and g+16, g+24. x is of this lane,
// blocks step apart. Groups have `each` blocks, up to four, which meet their scales together; or any number of them, if it is one.
template <int bits, int each, class Scales, class Units>
__device__ inline void multiply_codes(float (&sums)[2][4], const uint4* words, const uint4* x, int step, const Scales& scales, const Units& units, int shift, Exponent e) {
	constexpr int zero_at = position<bits>(0);
	u32 zero = 0x80008000u | Width<bits>::zero * 0x10001u << zero_at;
	asm volatile("" : "+r"(zero));  // in a register
	u32 zeros[2] = {zero, zero};
	float d[2][2][4], z[4];
	uint4 all[bits], early[unit_blocks];
#pragma unroll
	for (int i = 0; i < bits; i++) all[i] = words[i * 32];
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) early[j] = read_now(x + j * step);
#pragma unroll
	for (int j = 0; j < unit_blocks; j++) {
		u32 w[bits], b[4], v[16];
		bool begin = j % each == 0;
#pragma unroll
		for (int i = 0; i < bits; i++) w[i] = ((const u32*)all)[j * bits + i];
		*(uint4*)b = early[j];
		codes(v, w);
		product(z, b, zeros, begin);  // x is the left side: z[0] and z[2] are of row g
#pragma unroll
		for (int o = 0; o < 2; o++)
#pragma unroll
			for (int t = 0; t < 2; t++) {
				const u32 *low = v + 8 * t + o, *high = low + 4;
				u32 a[4] = {low[0], high[0], low[2], high[2]}, pair[2] = {b[2 * o], b[2 * o + 1]};
				product(d[apart<bits>() ? o : 0][t], a, pair, begin && (o == 0 || apart<bits>()));
			}
		if (j % each < each - 1) continue;
		int group = each == 1 ? j >> shift : j / each, of = threadIdx.x % 4 * 8;
		half2 s[2];
		scales_of_spread(s, scales(group), units[group], e);
		float less = z[0] + z[2], of_rows[2] = {of_lane(less, of), of_lane(less, of + 4)};  // 2q and 2q+1
#pragma unroll
		for (int t = 0; t < 2; t++)
#pragma unroll
			for (int i = 0; i < 4; i++) {
				int c = 2 * t + i / 2, even = position<bits>(2 * c), odd = position<bits>(2 * c + 1);
				float scale = __half2float(scale_of(s, c));
				float value = fmaf(of_rows[i % 2], two_to(even - zero_at), d[0][t][i]);
				if (apart<bits>()) value = fmaf(d[1][t][i], two_to(even - odd), value);
				sums[t][i] = fmaf(scale * two_to(-even), value, sums[t][i]);
			}
	}
}

// multiply_codes_bits is multiply_codes by a width that is known at run time, likely ones first.
template <int each, class Scales, class Units>
__device__ inline void multiply_codes_bits(int bits, float (&sums)[2][4], const uint4* words, const uint4* x, int step, const Scales& scales, const Units& units, int shift, Exponent e) {
	if (bits == 4) multiply_codes<4, each>(sums, words, x, step, scales, units, shift, e);
	else if (bits == 3) multiply_codes<3, each>(sums, words, x, step, scales, units, shift, e);
	else if (bits == 5) multiply_codes<5, each>(sums, words, x, step, scales, units, shift, e);
	else if (bits == 6) multiply_codes<6, each>(sums, words, x, step, scales, units, shift, e);
	else if (bits == 2) multiply_codes<2, each>(sums, words, x, step, scales, units, shift, e);
	else multiply_codes<8, each>(sums, words, x, step, scales, units, shift, e);
}
