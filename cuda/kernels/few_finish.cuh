// What is done with the sums of products of few rows, and of one.
#pragma once

#include "act.cuh"
#include "digits.cuh"
#include "few_rows.cuh"
#include "join_row.cuh"

// total adds the warps' sums of a column and row.
template <int warps>
__device__ inline float total(const float* parts, int step) {
	float sums[4] = {};  // that do not wait for each other
#pragma unroll
	for (int k = 0; k < warps; k++) sums[k % 4] += parts[k * step];
	return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

// A Late is what a thread needs for the first of its results beside the sums, where it is
// activated or added: where its column goes, what is added to, and what is left.
struct Late {
	int to;
	float y;
	Linked linked;

	__device__ Late() : to(0), y(0) {}
	__device__ Late(const Product& p, int row, int column, bool links) : to(0), y(0) {
		const Matrix& m = p.m[0];
		if (p.then == store || column >= m.out) return;
		if (p.to) to = __half_as_ushort(p.to[column]);
		if (p.then == add) y = __ldcg((const float*)m.y + row * m.ldy + column);
		if (links && p.link.left) linked = Linked(p.link, row, column);
	}
};

// first_of returns it for a thread's first result.
template <int most_rows, bool links>
__device__ inline Late first_of(const Product& p, Range round) {
	int rows = most_rows > 1 ? p.rows : 1, t = threadIdx.x / tile_columns;
	if (t >= round.size() * rows) return Late();
	return Late(p, t % rows, (round.from + t / rows) * tile_columns + threadIdx.x % tile_columns, links);
}

// finish does with a round of tiles what is to be done; late is there.
template <int warps, int most_rows, bool links>
__device__ inline void finish(const Product& p, const float* parts, Range round, int rows, Late late, const float* factors) {
	constexpr int step = tile_columns * most_rows, sums = warps * step;
	for (int i = threadIdx.x; i < round.size() * tile_columns * rows; i += blockDim.x) {
		int column = i % tile_columns, t = i / tile_columns, row = 0;
		if (rows > 1) row = t % rows, t /= rows;
		const float* mine = parts + t * sums + row * tile_columns + column;
		float sum = total<warps>(mine, step);
		int k = 0, tile = round.from + t;
		while (k < p.count - 1 && p.then != gate && tile >= p.m[k + 1].base) k++;
		const Matrix& m = p.m[k];
		column += (tile - m.base) * tile_columns;
		bool there = column < m.out;
		if (there) {
			if (links) sum *= factors[row];
			if (m.bias) sum += m.bias[column];
			if (p.then >= gate) {
				float other = p.then == self_gate ? sum : 1;
				if (p.then == gate) {
					other = total<warps>(mine + round.size() * sums, step);
					if (links) other *= factors[row];
					if (p.m[1].bias) other += p.m[1].bias[column];
				}
				sum = activate(p.act, sum) * other;
			}
			if (i >= blockDim.x && p.then != store) late = Late(p, row, column, links);
			int64 at = row * m.ldy + (p.to ? late.to : column);
			if (p.then == add) {
				((float*)m.y)[at] = sum += late.y;
			} else if (p.wide) {
				((float*)m.y)[at] = sum;
			} else {
				((half*)m.y)[at] = __float2half_rn(sum);
			}
		}
		if (links && p.link.left) link(p.link, late.linked, tile, row, there, sum);
	}
}

// touch brings what a kernel is told to the cache that it is read through: each read of a line that is not there
// takes as long as one of memory.
template <class P>
__device__ inline void touch(const P& p) {
	constexpr int lines = (sizeof(P) + 63) / 64;
	u32 v = ((const u32*)&p)[min((int)threadIdx.x % 32, lines - 1) * 16];
	asm volatile("{.reg .pred p; setp.eq.u32 p, %0, 0x9e3779b9; @p nanosleep.u32 1;}" ::"r"(v) : "memory");
}

// Kept is what a thread has in shared memory to store a column of a row's products, beside the sums. What a kernel is told is far away
// when nobody has read it for a while, and here nothing else is done meanwhile.
struct Kept {
	static constexpr int leaves = 1, wide = 2, acts = 4, linked = 8, pair = 16, self = 32, act = 64;

	void* at;          // where it goes, or is left; or null: there is no such column
	half* left;        // of the stream (link.cuh), or null
	float* squares;    // of the stream that is left, of the tile in front
	float plus;        // what is added
	union {
		struct { float weight, power; };
		struct { int more, step; };  // how often it is left, and how far apart
	};
	int how;           // what is done, and the activation
	float other;       // what is added to the other one of a gate's two; or the factor of what joins the stream
	float old;         // what that joins
};

static_assert(sizeof(Kept) == 48, "as cuda/packed.go has it");

// A Result is what is known of that when words are on their way: as it is in memory, as arithmetic would wait for it.
struct Result {
	void* at;           // the row that it goes to, or where it is left; or null: there is no such column
	int to;             // of that row; or how far apart it is left
	float bias, other;  // the latter of a gate's second matrix, or a factor
	float y;            // what it is added to
	float weight, power;
	int place;          // of the stream that is left; or whether it is of queries
	int how = 0;        // as in Kept

	__device__ Result() : at(nullptr), to(0), bias(0), other(0), y(0), weight(0), power(1), place(0) {}

	// Of a column of a tile of all, and a row, what no kernel writes is asked for, and the rest is worked out.
	template <bool links, bool several = false, class P = Product>
	__device__ void find(const P& p, int tile, int column, int row = 0) {
		int k = 0;
		bool wide = p.then == add || p.wide, linked = links && p.link.left;
		how = kept_as(p.leaves * Kept::leaves | wide * Kept::wide | (p.then >= gate) * Kept::acts | linked * Kept::linked | (p.then == gate) * Kept::pair | (p.then == self_gate) * Kept::self | p.act * Kept::act);
		while (k < p.count - 1 && p.then != gate && tile >= p.m[k + 1].base) k++;
		const Matrix& m = p.m[k];
		column += (tile - m.base) * tile_columns;
		at = nullptr;
		if (column >= m.out) return;
		if (m.bias) bias = m.bias[column];
		if (p.then == gate && p.m[1].bias) other = p.m[1].bias[column];
		if (p.leaves) {
			at = p.leaving.column(row, k, column), place = kept_as(k == 0), to = kept_as(p.leaving.apart(k));
			return;
		}
		at = m.y, to = column;
		if constexpr (several) at = (char*)at + row * m.ldy * (wide ? 4 : 2);
		if (p.to) to = __half_as_ushort(p.to[column]);
		if constexpr (P::joins) {
			if (p.link.left) place = __half_as_ushort(p.link.places[column]), weight = p.link.scale ? p.link.scale[column] : 1, other = p.join.factor(column);
		} else {
			if (links && p.link.left) place = __half_as_ushort(p.link.places[column]), weight = p.link.scale[column];
		}
	}

	// come asks for what kernels write, behind the wait for them.
	template <bool links, class P = Product>
	__device__ void come(const P& p, int row = 0) {
		if constexpr (P::joins) {
			if (!p.link.left || !at) return;
			y = read_square(p.join.stream + to);
		} else {
			if (p.then != add || !at) return;
			y = read_square((const float*)at + to);
		}
		if (links && p.link.left && p.link.powers) power = read_square(p.link.powers + row);
	}

	// kept returns what is kept of it in shared memory. Of what is left for those who attend, `readers` are of queries.
	template <class P = Product>
	__device__ Kept kept(const P& p, int tile, int readers, int row = 0) const {
		bool wide = how & Kept::wide, linked = how & Kept::linked;
		Kept k;
		k.at = at, k.left = nullptr, k.squares = nullptr, k.plus = bias + (P::joins ? 0 : y), k.power = power, k.other = other, k.how = how;
		if constexpr (P::joins) k.old = y;
		if (how & Kept::leaves) {
			k.more = place ? readers : p.leaving.sets, k.step = to;
		} else {
			k.weight = weight + p.link.offset;
			if (at) {
				k.at = (char*)at + (int64)to * (wide ? 4 : 2);
				if (linked) k.left = p.link.left + (int64)row * p.link.cols + place;
			}
		}
		if (linked) k.squares = p.link.left_squares + row * squares_stride + tile;
		return k;
	}
};

template <bool links, bool several = false, class P = Product>
__device__ inline Kept result_of(const P& p, int tile, int column, int readers, int row = 0) {
	Result r;
	r.find<links, several>(p, tile, column, row), r.come<links>(p, row);
	return r.kept(p, tile, readers, row);
}

// finish_row does with a round of tiles of rows what is to be done, by a warp for each row of each.
template <int warps, bool links, int rows = 1, class P = Product>
__device__ inline void finish_row(const P& p, const float* parts, Range round, const Kept& k, const float* factor) {
	constexpr int step = rows * tile_columns, sums = warps * step;
	int t = threadIdx.x / 32 / rows, lane = threadIdx.x % 32;
	const float* mine = parts + t * sums + threadIdx.x / 32 % rows * tile_columns + lane;
	float sum = total<warps>(mine, step), by = links ? *factor : 1;
	int how = k.how;
	sum = fmaf(sum, by, k.plus);
	if (how & Kept::acts) {
		float other = how & Kept::self ? sum : 1;
		if (how & Kept::pair) other = fmaf(total<warps>(mine + round.size() * sums, step), by, k.other);
		sum = activate(how / Kept::act, sum) * other;
	}
	if (k.at) {
		half v = __float2half_rn(sum);
		if (how & Kept::leaves) {
			leave((unsigned*)k.at, v);
			for (int r = 1; r < k.more; r++) leave((unsigned*)k.at + r * k.step, v);
		} else if (how & Kept::wide) {
			*(float*)k.at = sum;
		} else {
			*(half*)k.at = v;
		}
	}
	if constexpr (P::joins) {
		if (how & Kept::linked) p.join.leave(p.link, k, round.from + t, sum);
	} else if (links && how & Kept::linked) {
		if (k.left) *k.left = __float2half_rn(fminf(fmaxf(sum * k.weight * k.power, -65504), 65504));
		float square = warp_sum(k.at ? sum * sum : 0);
		if (lane == 0) {
			k.squares[1] = square;
			if (round.from + t == 0) k.squares[0] = k.power;
		}
	}
}

// keep_lane is keep_digits (digits.cuh), of a lane that knows where what it keeps goes, and what its lowest digits are.
__device__ inline void keep_lane(float* to, const float (&sums)[2][4], float digit) {
	bool second = threadIdx.x & 2, odd = threadIdx.x & 1;
	float v[2];
#pragma unroll
	for (int i = 0; i < 2; i++) {
		float a = sums[0][2 * i] * digit, b = sums[1][2 * i] * digit;
		v[i] = (second ? b : a) + __shfl_xor_sync(~0u, second ? a : b, 2);
	}
	*to = (odd ? v[1] : v[0]) + __shfl_xor_sync(~0u, odd ? v[0] : v[1], 1);
}
