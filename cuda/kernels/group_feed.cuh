// Which rows and tiles of the matrices of experts a block multiplies (qmatmul_group.cu), and how their units come to its warps.
#pragma once

#include "expert_slot.cuh"
#include "range.cuh"
#include "unit.cuh"

constexpr int most_segments = 8;  // that a block knows of at once
constexpr int listed = 32;        // units that a warp has listed

// Choice says whose rows are multiplied.
struct Choice {
	const int* first;  // [count + 1]: of each expert, in rows
	int count;         // experts
};

// Sets are the rows of each expert, so many together: in shared memory, where the sets of an expert end, and where its rows begin.
struct Sets {
	int *ends, *firsts;  // [count], [count + 1]
	int count, together;

	// fill counts them, four experts a lane at a time, of which as many as there mostly are at most are asked for at once. A warp calls it.
	__device__ void fill(const Choice& c) const {
		constexpr int each = 4, passes = 4;
		int lane = threadIdx.x % 32, before = 0;
#pragma unroll 1
		for (int base = 0; base < count; base += 32 * each * passes) {
			int from[passes][each + 1];
#pragma unroll
			for (int p = 0; p < passes; p++)
#pragma unroll
				for (int j = 0; j <= each; j++) from[p][j] = c.first[min(base + (p * 32 + lane) * each + j, count)];
#pragma unroll
			for (int p = 0; p < passes; p++) {
				int e = base + (p * 32 + lane) * each, n[each], mine = 0;
				if (base + p * 32 * each >= count) break;
#pragma unroll
				for (int j = 0; j < each; j++) mine += n[j] = quotient(from[p][j + 1] - from[p][j] + together - 1, together);
				int upto = mine;
#pragma unroll
				for (int step = 1; step < 32; step *= 2) {
					int other = __shfl_up_sync(~0u, upto, step);
					if (lane >= step) upto += other;
				}
				int at = before + upto - mine;
#pragma unroll
				for (int j = 0; j < each; j++) {
					at += n[j];
					if (e + j < count) ends[e + j] = at, firsts[e + j] = from[p][j];
				}
				before += __shfl_sync(~0u, upto, 31);
			}
		}
		if (lane == 0) firsts[count] = c.first[count];
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
		int set = pair.others ? q / 2 : q, which = pair.others ? q % 2 : 0, base = set * pair.all() + which * pair.tiles;
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
	int bytes, count, groups;  // of a slot; slots, up to three; groups of a unit, at most
	__device__ u32 words() const { return groups * 2 * lane_bytes; }
};

// copy_group_unit asks for a lane's words of a unit, which leave the L2 cache first, for a word of scales, and for the unit of its first group.
__device__ inline void copy_group_unit(u32 to, const uint4* words, u32 side, const u32* scales, const u32* units, int bits) {
#if __CUDA_ARCH__ >= 800
	asm volatile(
		"{.reg .pred p; .reg .b64 once;"
		"createpolicy.fractional.L2::evict_first.b64 once, 1.0;"
		"cp.async.ca.shared.global [%2], [%3], 4;"
		"cp.async.ca.shared.global [%2+128], [%4], 4;"
		"cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, once;"
		"cp.async.cg.shared.global.L2::cache_hint [%0+512], [%1+512], 16, once;"
		"setp.gt.s32 p, %5, 2;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1024], [%1+1024], 16, once;"
		"setp.gt.s32 p, %5, 3;"
		"@p cp.async.cg.shared.global.L2::cache_hint [%0+1536], [%1+1536], 16, once;}"
		::"r"(to), "l"(words), "r"(side), "l"(scales), "l"(units), "r"(bits) : "memory");
	copy_words_behind(to, words, bits);
#else
	copy_unit(to, words, side, scales, bits, 0);
	*(u32*)__cvta_shared_to_generic(side + lane_bytes) = *units;
#endif
}

// Feed brings a warp its units of some segments.
template <int warps>
struct Feed {
	const Segment* segments;
	int count;
	uint4* window;  // [listed]: of a unit where in its matrix words and scales are, what it is, and its segment
	Ring ring;
	u32 slot, asked;  // where the next unit, and the next that is asked for, are, at this lane
	int next, all, done;
	uint2 place;      // of a unit that is to be listed
	int segment, tile;
	const uint4* words;  // of the segment that is asked for, at this lane, as scales
	const u32 *scales, *units;
	u32 asking;

	__device__ Feed(const Segment* segments, int count, uint4* window, const Ring& ring)
		: segments(segments), count(count), window(window), ring(ring), slot(ring.at), asked(ring.at), next(0), all(0), done(0), asking(~0u) {}

	// begin lists the first units.
	__device__ void begin() {
#pragma unroll 1
		for (int k = 0; k < count; k++) all += segments[k].template run<warps>(threadIdx.x / 32).size();
		look(0);
		list(0, listed);
	}

	// look finds the units from one on, one for each lane, and asks for their places.
	__device__ void look(int first) {
		int i = first + threadIdx.x % 32, k = 0;
		if (i >= all) return;
		Range run = segments[0].template run<warps>(threadIdx.x / 32);
#pragma unroll 1
		while (i >= run.size()) i -= run.size(), run = segments[++k].template run<warps>(threadIdx.x / 32);
		int u = run.from + i, each = segments[k].each, t = u / each;
		place = __ldg(segments[k].places + (u - t * each));
		segment = k, tile = segments[k].tile + t;
	}

	// list lists so many of them.
	__device__ void list(int first, int units) {
		int lane = threadIdx.x % 32;
		if (lane < units && first + lane < all) {
			const Segment& s = segments[segment];
			window[(first + lane) % listed] = make_uint4(((u32)tile * s.chunks + place.x) * 32, (u32)tile * s.groups + group_of(place.y), place.y, segment);
		}
		__syncwarp();
	}

	// ask asks for a unit, if there is one. Half of the list is made anew when the other half is come to; places are
	// not there at once, so it is listed some units later, of which none is in that half any more.
	__device__ void ask() {
		constexpr int half_listed = listed / 2, later = 4;
		if (next < all) {
			u32 in_half = (u32)next % half_listed;
			if (next >= half_listed && (in_half == 0 || in_half == later)) {
				int behind = next - in_half + half_listed;
				if (in_half == 0) look(behind);
				else list(behind, half_listed);
			}
			uint4 u = window[(u32)next % listed];
			if (asking != u.w) open(u.w);
			int group = group_of(u.z), more = has_one_group(u.z) ? 0 : (unit_blocks >> shift_of(u.z)) - 1;
			const u32 *scale = scales + u.y * 4, *unit = units + group;
			copy_group_unit(asked + ring.words() + threadIdx.x % 32 * 16, words + u.x, asked + threadIdx.x % 32 * 4, scale, unit, bits_of_unit(u.z));
#pragma unroll 1
			for (int i = 1; i <= more; i++) {
				int g = min(i, segments[u.w].groups - 1 - group);
				copy4(at(asked + 2 * i * lane_bytes + threadIdx.x % 32 * 4), scale + g * 4, true);
				copy4(at(asked + (2 * i + 1) * lane_bytes + threadIdx.x % 32 * 4), unit + g, true);
			}
			next++;
		}
		commit();
		asked = after(asked);
	}
	// open has the segment be the one of which units are asked for.
	__device__ void open(int k) {
		int lane = threadIdx.x % 32;
		const Segment& s = segments[k];
		words = s.words + lane, scales = (const u32*)s.scales + lane / 8, units = s.units, asking = k;
	}
	__device__ static u32* at(u32 shared) { return (u32*)__cvta_shared_to_generic(shared); }
	__device__ u32 after(u32 slot) const { return slot + ring.bytes >= ring.at + ring.bytes * ring.count ? ring.at : slot + ring.bytes; }

	// come waits for the next unit, and returns what it is.
	__device__ u32 come() const {
		if (ring.count == 3) arrived<2>();
		else if (ring.count == 2) arrived<1>();
		else arrived<0>();
		return window[done % listed].z;
	}
	__device__ const u32* side() const { return at(slot + threadIdx.x % 32 * 4); }
	__device__ const uint4* here() const { return (const uint4*)at(slot + ring.words()) + threadIdx.x % 32; }

	// leave has its slot be the next one's.
	__device__ void leave() {
		done++;
		ask();
		slot = after(slot);
	}
};

// GroupUnits is where a lane finds units.
struct GroupUnits {
	const u32* words;
	__device__ u32 operator[](int group) const { return words[(group * 2 + 1) * lane_words]; }
};
