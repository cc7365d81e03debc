// What becomes of codes: weights, errors, and the file's words.
//
// A thread a column.
#include "coding.cuh"
#include "order.cuh"
#include "scaled.cuh"

// coding_values stores the weights of the codes of groups of as many rows, one for
// each blockIdx.y.
extern "C" __global__ void coding_values(
	float* w,                     // [groups·rows, n]
	const unsigned char* codes,   // [groups·rows, n]
	const unsigned char* scales,  // [groups, n]
	const half* largest,          // [groups]
	int bits, int rows, int n) {
	after_previous();
	int group = blockIdx.y, column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= n) return;
	Grid grid(scale_of(scales[(int64)group * n + column], largest[group]), bits);
	int64 from = (int64)group * rows * n + column;
	for (int64 i = from; i < from + (int64)rows * n; i += n) w[i] = grid.value(codes[i] - grid.zero);
}

// coding_errors stores, for the groups of a list (coding.cuh), one for each
// blockIdx.y, the weights less those of their codes as operands, rows times
// the powers of two near the roots of h's diagonal: some rows for each blockIdx.z.
constexpr int error_rows = 16;

extern "C" __global__ void coding_errors(
	const void* list,
	const float* h,  // [k, k]
	int k) {
	after_previous();
	const Step s = ((const Step*)list)[blockIdx.y];
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= s.n) return;
	Grid grid(scale_of(s.scales[column], *s.largest), s.bits);
	float lift = lift_of(s.most);
	int first = blockIdx.z * error_rows, end = min(first + error_rows, s.rows);
	for (int i = first; i < end; i++) {
		int64 from = (int64)i * s.n + column, at = place_of(s.row + i, column, s.tiles), row = s.row + i;
		Pair p((s.w[from] - grid.value(s.codes[from] - grid.zero)) * root_of(h[row * k + row]) * lift);
		s.planes[at] = p.high;
		s.planes[s.plane + at] = p.low;
	}
}

// coding_range multiplies the largest magnitudes of some matrices by the root of the
// largest element of h's diagonal, and stores the roots.
extern "C" __global__ void coding_range(
	float* most,   // [count]
	float* rows,   // [k]
	const float* h,
	int k, int count) {
	__shared__ unsigned largest;
	after_previous();
	if (threadIdx.x == 0) largest = 0;
	__syncthreads();
	float v = 0;
	for (int i = threadIdx.x; i < k; i += blockDim.x) {
		float root = root_of(h[(int64)i * k + i]);
		rows[i] = root;
		v = fmaxf(v, root);
	}
	atomicMax(&largest, __float_as_uint(v));
	__syncthreads();
	for (int i = threadIdx.x; i < count; i += blockDim.x) most[i] *= __uint_as_float(largest);
}

// coding_words packs codes: a column's are a stream of bits down the rows, cut into
// words of 32.
extern "C" __global__ void coding_words(
	int* words,                 // [blocks·bits, n] of the group
	const unsigned char* codes,  // [blocks·32, n]
	int bits, int n) {
	after_previous();
	int column = blockIdx.x * blockDim.x + threadIdx.x;
	if (column >= n) return;
	const unsigned char* from = codes + (int64)blockIdx.y * 32 * n + column;
	int* to = words + (int64)blockIdx.y * bits * n + column;
	unsigned long long held = 0;
	int have = 0;
	for (int i = 0; i < 32; i++) {
		held |= (unsigned long long)from[(int64)i * n] << have;
		have += bits;
		if (have < 32) continue;
		*to = (int)(unsigned)held;
		to += n, held >>= 32, have -= 32;
	}
}

// coding_scales packs scales, eight to a word.
extern "C" __global__ void coding_scales(
	int* words,                   // [n/8 for each group]
	const unsigned char* scales,  // eight for each word
	int count) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= count) return;
	unsigned v = 0;
	for (int j = 0; j < 8; j++) v |= (unsigned)(scales[(int64)i * 8 + j] & 15) << 4 * j;
	words[i] = (int)v;
}

// coding_tiles brings the file's scales to the order of products (exl2.cuh):
// [n/32, groups, 4].
extern "C" __global__ void coding_tiles(
	int* to,
	const int* from,  // [groups, width]
	int groups, int width) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= groups * width) return;
	int group = i / width, word = i % width, tile = word / 4, half = word % 4 * 2;  // two numbers of 16 bits
	unsigned v = 0;
	for (int c = 0; c < 4; c++) {
		unsigned eight = (unsigned)from[(int64)group * width + tile * 4 + c];
		v |= (eight >> 4 * half & 15) << 4 * c | (eight >> (4 * half + 4) & 15) << (16 + 4 * c);
	}
	to[((int64)tile * groups + group) * 4 + word % 4] = (int)v;
}

// coding_units stores largest scales / 256, twice each.
extern "C" __global__ void coding_units(
	int* units, const half* largest, int groups) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= groups) return;
	half2 unit = __half2half2(__float2half_rn(__half2float(largest[i]) * (1.0f / 256)));
	units[i] = *(int*)&unit;
}

// coding_order stores a permutation and its inverse in 16 bits.
extern "C" __global__ void coding_order(
	half* order,   // [k], the bits are integers
	half* places,  // likewise
	const int* perm, int k) {
	after_previous();
	int i = blockIdx.x * blockDim.x + threadIdx.x;
	if (i >= k) return;
	((unsigned short*)order)[i] = (unsigned short)perm[i];
	((unsigned short*)places)[perm[i]] = (unsigned short)i;
}
