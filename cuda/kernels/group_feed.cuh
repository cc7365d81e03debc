// Which rows and tiles of the matrices of experts a block multiplies (qmatmul_group.cu), and how their units come to its warps.
#pragma once

#include "expert.cuh"
#include "unit.cuh"

constexpr int most_segments = 8;  // that a block knows of at once
constexpr int listed = 32;        // units that a warp has listed

// Choice says whose rows are multiplied.
struct Choice {
	const int* first;  // [count + 1]: of each expert, in rows
	int count;         // experts
};

// Range is some of something, from one to another.
struct Range {
	int from, to;
	__device__ int size() const { return to - from; }
};

// quotient returns n / by, of numbers below 2^20.
__device__ inline int quotient(int n, int by) { return (int)__fdividef(n + 0.5f, by); }

// Sets are the rows of each expert, so many together: in shared memory, where the sets of an expert end, and where its rows begin.
struct Sets {
	int *ends, *firsts;  // [count], [count + 1]
	int count, together;

	// fill counts them. All threads call it.
	template <int warps>
	__device__ void fill(const Choice& c) const {
		__shared__ int totals[warps];
		int warp = threadIdx.x / 32, lane = threadIdx.x % 32, before = 0;
#pragma unroll 1
		for (int base = 0; base < count; base += 32 * warps) {
			int e = base + threadIdx.x, begin = c.first[min(e, count)], end = c.first[min(e + 1, count)], n = quotient(end - begin + together - 1, together);
#pragma unroll
			for (int step = 1; step < 32; step *= 2) {
				int other = __shfl_up_sync(~0u, n, step);
				if (lane >= step) n += other;
			}
			if (lane == 31) totals[warp] = n;
			__syncthreads();
			int all = 0;
#pragma unroll
			for (int w = 0; w < warps; w++) n += w < warp ? totals[w] : 0, all += totals[w];
			if (e < count) ends[e] = before + n, firsts[e] = begin;
			if (e == count - 1) firsts[count] = end;
			before += all;
			__syncthreads();
		}
	}
	__device__ int all() const { return ends[count - 1]; }

	// expert returns whose set it is.
	__device__ int expert(int set) const {
		int low = 0, high = count - 1;
#pragma unroll 1
		while (low < high) {
			int middle = (low + high) / 2;
			if (ends[middle] > set) high = middle;
			else low = middle + 1;
		}
		return low;
	}
	__device__ int before(int expert) const { return expert ? ends[expert - 1] : 0; }
};

// Pair is two matrices of each expert, of as many inputs, or one.
struct Pair {
	Table one, two, reader;  // reader is whose inputs results are, or null
	int tiles, others;       // of each; the second may be none
	bool same;               // they take x in one order

	__device__ int all() const { return tiles + others; }
	__device__ int matrices() const { return others ? 2 : 1; }
	// segment returns which one a tile of all sets is in, where each set has one of each matrix.
	__device__ int segment(int tile) const {
		int set = tile / all();
		return set * matrices() + (tile - set * all() >= tiles);
	}
};

// A Segment is tiles of a matrix by which a set of rows is multiplied. Warps share its units.
struct alignas(16) Segment {
	const uint4 *words, *scales;
	const u32* units;
	const half *order, *stored;  // stored is where columns go, or null
	const float* bias;
	const uint2* places;
	int chunks, groups, each, tile;   // each: units of a tile; the first tile
	int all, from, rows, number;      // units; the first row, how many; number: expert's matrix times two, and one if x is to be brought for it

	__device__ bool second() const { return number & 2; }
	__device__ bool brings() const { return number & 1 && all > 0; }
	template <int warps>
	__device__ Range run(int warp) const { return {all * warp / warps, all * (warp + 1) / warps}; }

	// fill makes it segment q of the tiles in range.
	__device__ void fill(int q, Range range, const Sets& sets, const Pair& pair, bool begins) {
		int m = pair.matrices(), set = q / m, which = q - set * m, base = set * pair.all() + which * pair.tiles;
		int begin = max(range.from, base), end = min(range.to, base + (which ? pair.others : pair.tiles));
		all = each = 0;
		if (begin >= end) return;
		int e = sets.expert(set), rows_from = sets.firsts[e] + (set - sets.before(e)) * sets.together;
		Table table = {which ? pair.two.words : pair.one.words, which ? pair.two.stride : pair.one.stride, which ? pair.two.places : pair.one.places};
		const int* entry = table.of(e);
		const Matrix& matrix = *(const Matrix*)entry;
		words = matrix.words, scales = matrix.scales, units = matrix.units, order = matrix.order, bias = matrix.bias;
		places = (const uint2*)(entry + table.places);
		stored = pair.reader.words ? ((const Matrix*)pair.reader.of(e))->stored : nullptr;
		chunks = matrix.chunks, groups = matrix.groups, each = matrix.units128, tile = begin - base;
		all = words ? (end - begin) * each : 0;
		from = rows_from, rows = min(sets.together, sets.firsts[e + 1] - rows_from);
		number = which * 2 + (begins || which == 0 || !pair.same);
	}
};

// Ring is a warp's slots in shared memory. A slot has, for each lane, of each group of a unit a word of scales and, every other
// word, the group's unit, and behind them its words.
struct Ring {
	u32 at;  // of the warp
	int bytes, groups;  // of a slot; of a unit, at most
};

// copy_group_unit asks for a lane's words of a unit, for a word of scales, and for the unit of its first group. (With a policy of the
// L2 cache that is made here ptxas 12.9 gives an odd register where there are many, which is an illegal instruction.)
__device__ inline void copy_group_unit(u32 to, const uint4* words, u32 side, const u32* scales, const u32* units, int bits) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p;"
		"cp.async.ca.shared.global [%2], [%3], 4;"
		"cp.async.ca.shared.global [%2+128], [%4], 4;"
		"cp.async.cg.shared.global [%0], [%1], 16;"
		"cp.async.cg.shared.global [%0+512], [%1+512], 16;"
		"setp.gt.s32 p, %5, 2;"
		"@p cp.async.cg.shared.global [%0+1024], [%1+1024], 16;"
		"setp.gt.s32 p, %5, 3;"
		"@p cp.async.cg.shared.global [%0+1536], [%1+1536], 16;}"
		::"r"(to), "l"(words), "r"(side), "l"(scales), "l"(units), "r"(bits) : "memory");
	if (bits > 4)
		asm volatile(
			"{.reg .pred p;"
			"cp.async.cg.shared.global [%0+2048], [%1+2048], 16;"
			"setp.gt.s32 p, %2, 5;"
			"@p cp.async.cg.shared.global [%0+2560], [%1+2560], 16;"
			"setp.gt.s32 p, %2, 6;"
			"@p cp.async.cg.shared.global [%0+3072], [%1+3072], 16;"
			"@p cp.async.cg.shared.global [%0+3584], [%1+3584], 16;}"
			::"r"(to), "l"(words), "r"(bits) : "memory");
#else
	copy_unit(to, words, side, scales, bits, 0);
	*(u32*)__cvta_shared_to_generic(side + lane_bytes) = *units;
#endif
}

// Feed brings a warp its units of some segments, through so many slots.
template <int warps, int slots>
struct Feed {
	const Segment* segments;
	uint4* window;        // [listed]: of a unit where in its matrix words and scales are, what it is, and its segment
	u32 first, end, bytes;  // where in shared memory the lane's words in the first slot are, and would be in one behind the last; bytes of a slot
	u32 side;             // how far in front of its words the lane's scales are
	u32 slot, asked;      // the lane's words of the next unit, and of the next that is asked for
	int next, all;        // units asked for, of the warp
	u32 what[slots];      // those on their way are
	uint4 ahead;          // what the window has of the next that is asked for
	const uint4* words;   // of the segment that is asked for, at this lane, as scales
	const u32 *scales, *units;
	u32 asking;           // segment
	uint2 place;          // of a unit that is to be listed
	int segment, tile;

	__device__ Feed(const Segment* segments, uint4* window, const Ring& ring)
		: segments(segments), window(window), bytes(ring.bytes), next(0), all(0), asking(~0u) {
		int lane = threadIdx.x % 32;
		side = ring.groups * 2 * lane_bytes + lane * 12, first = ring.at + ring.groups * 2 * lane_bytes + lane * 16;
		end = first + slots * bytes, slot = asked = first;
	}

	// begin finds the first units of so many segments, and begun lists them.
	__device__ void begin(int count) {
#pragma unroll 1
		for (int k = 0; k < count; k++) all += segments[k].template run<warps>(threadIdx.x / 32).size();
		look(0);
	}
	__device__ void begun() {
		list(0, listed);
		ahead = window[0];
	}

	// look finds the units from one on, one for each lane, and asks for their places.
	__device__ void look(int from) {
		int i = from + threadIdx.x % 32, k = 0;
		if (i >= all) return;
		Range run = segments[0].template run<warps>(threadIdx.x / 32);
#pragma unroll 1
		while (i >= run.size()) i -= run.size(), run = segments[++k].template run<warps>(threadIdx.x / 32);
		int u = run.from + i, each = segments[k].each, t = u / each;
		place = __ldg(segments[k].places + (u - t * each));
		segment = k, tile = segments[k].tile + t;
	}

	// list lists so many of them.
	__device__ void list(int from, int units) {
		int lane = threadIdx.x % 32;
		if (lane < units && from + lane < all) {
			const Segment& s = segments[segment];
			window[(from + lane) % listed] = make_uint4(((u32)tile * s.chunks + place.x) * 32, ((u32)tile * s.groups + group_of(place.y)) * 4, place.y, segment);
		}
		__syncwarp();
	}

	// relist makes half of the list anew when the other half is come to; places are not there at once, so it is listed some
	// units later, of which none is in that half any more.
	__device__ void relist() {
		constexpr int half_listed = listed / 2, later = 4;
		static_assert(slots < later, "units on their way are not in the half");
		if ((next & (half_listed - 1 - later)) != 0 || next < half_listed) return;
		int in_half = next % half_listed, from = next - in_half + half_listed;
		if (in_half == 0) look(from);
		else list(from, half_listed);
	}

	// open has the segment be the one of which units are asked for.
	__device__ void open(u32 k) {
		int lane = threadIdx.x % 32;
		const Segment& s = segments[k];
		words = s.words + lane, scales = (const u32*)s.scales + lane / 8, units = s.units, asking = k;
	}

	// ask asks for a unit, if there is one.
	__device__ void ask() {
		if (next < all) {
			uint4 u = ahead;
			if (asking != u.w) open(u.w);
			int group = group_of(u.z);
			const u32 *scale = scales + u.y, *unit = units + group;
			copy_group_unit(asked, words + u.x, asked - side, scale, unit, bits_of_unit(u.z));
			if (!has_one_group(u.z))
#pragma unroll 1
				for (int i = 1; i < unit_blocks >> shift_of(u.z); i++) {
					int g = min(i, segments[u.w].groups - 1 - group);
					copy4(at(asked - side + 2 * i * lane_bytes), scale + g * 4, true);
					copy4(at(asked - side + (2 * i + 1) * lane_bytes), unit + g, true);
				}
			what[slots - 1] = u.z;
			next++;
			relist();
			ahead = window[(u32)next % listed];
		}
		commit();
		asked = after(asked);
	}
	__device__ static u32* at(u32 shared) { return (u32*)__cvta_shared_to_generic(shared); }
	__device__ u32 after(u32 slot) const { return slot + bytes == end ? first : slot + bytes; }

	// fill asks for units in slots from one on, which begin the queue.
	template <int from, int to>
	__device__ void fill() {
#pragma unroll
		for (int i = from; i < to; i++) {
			ask();
			what[i] = what[slots - 1];
		}
	}

	// come waits for the next unit, and returns what it is.
	__device__ u32 come() const {
		arrived<slots - 1>();
		return what[0];
	}
	__device__ const u32* beside() const { return at(slot - side); }
	__device__ const uint4* here() const { return (const uint4*)at(slot); }

	// leave has its slot be the next one's.
	__device__ void leave() {
#pragma unroll
		for (int i = 0; i < slots - 1; i++) what[i] = what[i + 1];
		ask();
		slot = after(slot);
	}
};

// GroupCodes and GroupUnits are where a lane finds codes of scales, and units.
struct GroupCodes {
	const u32* words;
	u32 select;
	__device__ u32 operator()(int group) const { return spread(words[group * 2 * lane_words], select); }
};
struct GroupUnits {
	const u32* words;
	__device__ u32 operator[](int group) const { return words[(group * 2 + 1) * lane_words]; }
};
