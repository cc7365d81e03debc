// How blocks that run at the same time join what all of them have found: each leaves it in
// memory, in words that are zero until somebody has left something, and that their only reader
// clears, and joins some columns of it. So nobody waits for a fence or a counter, or is the last.
#pragma once

#include "decode.cuh"

constexpr int part_words = 8;  // of four sums

#if __CUDA_ARCH__ >= 900

// A float is left as the bits that it has not, so that no word of it is zero: the one number
// whose bits are all set, a NaN, is left as another.
__device__ inline unsigned left_word(float v) {
	unsigned w = ~__float_as_uint(v);
	return w ? w : 1u;
}
__device__ inline float left_float(unsigned word) { return __uint_as_float(~word); }

// leave_words leaves four numbers.
__device__ inline void leave_words(unsigned* to, float a, float b, float c, float d) {
	asm volatile("st.relaxed.gpu.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(to), "r"(left_word(a)), "r"(left_word(b)), "r"(left_word(c)), "r"(left_word(d)) : "memory");
}

// look_at_words reads four words that others may be writing.
__device__ inline uint4 look_at_words(const unsigned* p) {
	uint4 v;
	asm volatile("ld.relaxed.gpu.global.v4.u32 {%0, %1, %2, %3}, [%4];" : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w) : "l"(p) : "memory");
	return v;
}

// there reports whether all four have been left.
__device__ inline bool there(const uint4& w) { return w.x && w.y && w.z && w.w; }

// leave_part leaves four sums.
__device__ inline void leave_part(unsigned* to, const Part& p) {
	leave_words(to, p.out.x, p.out.y, p.out.z, p.out.w);
	leave_words(to + 4, p.top, p.sum, 0, 0);
}

// part_of is the part that has been left.
__device__ inline Part part_of(const uint4& a, const uint4& b) {
	return {left_float(b.x), left_float(b.y), make_float4(left_float(a.x), left_float(a.y), left_float(a.z), left_float(a.w))};
}

// take_part waits for four sums, and clears their words.
__device__ inline Part take_part(unsigned* at) {
	uint4 a, b;
	do a = look_at_words(at), b = look_at_words(at + 4);
	while (!(there(a) && there(b)));
	*(uint4*)at = *(uint4*)(at + 4) = make_uint4(0, 0, 0, 0);
	return part_of(a, b);
}

// take_parts takes n parts at most, `count` of them, which are so many words apart, and joins them.
template <int n>
__device__ inline Part take_parts(unsigned* at, int64 apart, int count) {
	uint4 a[n], b[n];
	bool all;
	do {
		all = true;
#pragma unroll
		for (int i = 0; i < n; i++)
			if (i < count) a[i] = look_at_words(at + i * apart), b[i] = look_at_words(at + i * apart + 4);
#pragma unroll
		for (int i = 0; i < n; i++) all &= i >= count || there(a[i]) && there(b[i]);
	} while (!all);
	Part p[n];
#pragma unroll
	for (int i = 0; i < n; i++) {
		p[i] = i < count ? part_of(a[i], b[i]) : Part{no_score, 0, make_float4(0, 0, 0, 0)};
		if (i < count) *(uint4*)(at + i * apart) = *(uint4*)(at + i * apart + 4) = make_uint4(0, 0, 0, 0);
	}
	return join(p);
}

// join_lanes joins the parts of so many lanes that follow one another, for all of them.
__device__ inline Part join_lanes(Part p, int lanes) {
	float top = p.top;
	for (int step = 1; step < lanes; step *= 2) top = fmaxf(top, __shfl_xor_sync(~0u, top, step));
	float f = exp2f(p.top - top);
	p = {top, f * p.sum, make_float4(f * p.out.x, f * p.out.y, f * p.out.z, f * p.out.w)};
	for (int step = 1; step < lanes; step *= 2) {
		p.sum += __shfl_xor_sync(~0u, p.sum, step);
		p.out.x += __shfl_xor_sync(~0u, p.out.x, step), p.out.y += __shfl_xor_sync(~0u, p.out.y, step);
		p.out.z += __shfl_xor_sync(~0u, p.out.z, step), p.out.w += __shfl_xor_sync(~0u, p.out.w, step);
	}
	return p;
}

// join_words joins the block's columns of what the blocks of a row, or of rows of which y is the last, have left, whose words
// begin at `words`, those of a part after each other. A lane joins up to `most` of them.
template <int warps, bool full, int most = 1>
__device__ inline void join_words(unsigned* words, const Attend& a, const Heads& h, half* y, int part, int parts) {
	int vectors = (a.dim + 3) / 4, all = h.slots() * vectors, each = (all + parts - 1) / parts;
	int lanes = parts <= 2 ? 2 : parts <= 4 ? 4 : parts <= 8 ? 8 : parts <= 16 ? 16 : 32;
	int warp = threadIdx.x / 32, lane = threadIdx.x % 32, together = 32 / lanes;
	for (int first = warp * together; first < each; first += warps * together) {
		int mine = first + lane / lanes, vector = part * each + mine, from = lane % lanes;
		int slot = vector / vectors, at = vector % vectors * 4;
		bool is_there = mine < each && vector < all;
		Part p = {no_score, 0, make_float4(0, 0, 0, 0)};
		unsigned* own = words + ((int64)from * all + vector) * part_words;
		if constexpr (most > 1) {
			if (is_there) p = take_parts<most>(own, (int64)lanes * all * part_words, (parts - from + lanes - 1) / lanes);
		} else if (is_there && from < parts) p = take_part(own);
		__syncwarp();
		p = join_lanes(p, lanes);
		if (is_there && from == 0) put_result<full>(a, y - h.back(slot) * a.ldy, Spot(a, h.head(slot) * a.dim + at), p, h.head(slot), at);
	}
}

// Leave is what join_warps gives to, of a block that has a part of `all` vectors.
struct Leave {
	unsigned* own;
	__device__ Leave(unsigned* row, int part, int all) : own(row + (int64)part * all * part_words) {}
	__device__ void operator()(int vector, int, int, const Part& p) const { leave_part(own + vector * part_words, p); }
};

#endif
