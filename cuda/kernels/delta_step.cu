// Linear attention of rows that are runs by themselves, with heads of 128 dimensions of keys and convolutions of four positions, by the gated delta rule
// (Gated Delta Networks, arXiv 2412.06464, equation 10) or by that of Mamba-2 (plain, as delta.cu has it): what decay and β are made of, the convolution and the rule;
// of the delta rule the norm of heads with its gates, too.
//
// A head of values of a row has a block, a warp eight of its columns. Where the products in front let this kernel start when they have waited themselves
// (qmatmul.cu), everything but their results is read, and the products with a and b are made, before they end.
//
// x is the stream as it was left for the products (link.cuh). Heads of values that share keys all read what the convolution needs of these, and whoever is the
// last to have done so leaves it for the next row.
//
// H200, 2026-11-28: linear attention of a row of qwen3.5-9b was five kernels before, and its products two (docs/performance.md).
#include "arrive.cuh"
#include "delta.cuh"
#include "link.cuh"

constexpr int dim = 128, taps = 4;                // of keys; of a convolution
constexpr int sharing = 16, columns_of_lane = 4;  // lanes that share so many columns, 8 dimensions of keys each
constexpr int columns_of_warp = 32 / sharing * columns_of_lane;
constexpr int most_warps = 16, most_value_dim = most_warps * columns_of_warp;
constexpr int least_value_dim = 40;               // of which a thread has two of all columns of q, k and v at most

static_assert(2 * dim + least_value_dim <= 2 * 32 * (least_value_dim / columns_of_warp) && 2 * dim + most_value_dim <= 32 * most_warps, "as Taps are");

struct Given {
	half* y;             // of the delta rule: [rows, heads·value_dim], rows ldy elements apart
	float* mixed;        // of Mamba-2: likewise, ldm
	const half* places;  // [heads·value_dim]: where in a row of y a column goes, a 16-bit number, or null
	const half *q, *k;   // [rows, key_heads·dim], ldq and ldk
	const half *v, *z;   // [rows, heads·value_dim], ldv and ldz
	const half* x;       // [rows, in], as it was left
	const half* order;   // [in]: where in x a column is, a 16-bit number
	const float* squares;  // as Link has it
	const half* rates;   // [2·heads, in]: a's rows, then b's; of Mamba-2 a's alone
	const float *decay, *bias, *skip;  // [heads]
	const float* conv;   // [columns, taps]
	const float* shift;  // [columns], or null
	const float* norm;   // [value_dim]
	float* state;        // [sequences, heads, value_dim, dim]
	half* left;          // [sequences, taps-1, columns]
	const int *pos, *seq;  // [rows]
	int* fault;
	int* counters;       // [rows, key_heads], zeros
	int64 ldy, ldm, ldq, ldk, ldv, ldz;
	int in, parts, heads, key_heads, value_dim, sequences;
	int early;           // whether the kernel in front had waited when it let this one start
	float eps;           // of the norm of x
	float limit;         // of β the most, of Δ the least
	float scale;         // of queries
	float norm_eps, offset;
};

static_assert(sizeof(Given) == 280, "as cuda/delta_step.go has it");

// total adds up what sixteen lanes have of four sums: lanes 4c to 4c+3 of them get that of c.
__device__ inline float total(const float (&a)[columns_of_lane]) {
	bool upper = threadIdx.x & 8, odd = threadIdx.x & 4;
	float x = (upper ? a[2] : a[0]) + __shfl_xor_sync(~0u, upper ? a[0] : a[2], 8);
	float y = (upper ? a[3] : a[1]) + __shfl_xor_sync(~0u, upper ? a[1] : a[3], 8);
	float sum = (odd ? y : x) + __shfl_xor_sync(~0u, odd ? x : y, 4);
	sum += __shfl_xor_sync(~0u, sum, 2);
	return sum + __shfl_xor_sync(~0u, sum, 1);
}

// Inner is what a thread has of the products of x with a head's rows of a and b.
template <bool plain>
struct Inner {
	float a, b;
	__device__ Inner(const Given& p, int row, int head, int step) : a(0), b(0) {
		const half *x = p.x + (int64)row * p.in, *of_a = p.rates + (int64)head * p.in, *of_b = of_a + (int64)p.heads * p.in;
#pragma unroll 1
		for (int c = threadIdx.x * elements; c < p.in; c += step * elements) {
			uint4 u = *(const uint4*)(of_a + c), v = plain ? u : *(const uint4*)(of_b + c), w = *(const uint4*)(p.order + c);
			half at[elements];
#pragma unroll
			for (int i = 0; i < elements; i++) at[i] = x[(&w.x)[i / 2] >> i % 2 * 16 & 0xffff];
#pragma unroll
			for (int i = 0; i < elements; i += 2) {
				float2 s = __half22float2(*(const half2*)&(&u.x)[i / 2]), t = __half22float2(*(const half2*)&(&v.x)[i / 2]);
				float low = __half2float(at[i]), high = __half2float(at[i + 1]);
				a += s.x * low + s.y * high, b += t.x * low + t.y * high;
			}
		}
	}
};

// length returns what a warp's x is to be multiplied by, as it was left and not normalized.
__device__ inline float length(const Given& p, int row) {
	const float* squares = p.squares + row * squares_stride;
	float sum = 0;
	for (int i = threadIdx.x % 32; i < p.parts; i += 32) sum += read_square(squares + 1 + i);
	return rsqrtf(warp_sum(sum) / p.in + p.eps) / read_square(squares);
}

// Taps are a column's weights, and the inputs of it that are in front of the row.
struct Taps {
	float4 w;
	float shift;
	half before[taps - 1];

	__device__ void read(const Given& p, int column, const half* left, int columns, bool begins) {
		w = *(const float4*)(p.conv + (int64)column * taps), shift = p.shift ? p.shift[column] : 0;
#pragma unroll
		for (int i = 0; i < taps - 1; i++) before[i] = begins ? __float2half(0) : left[column + (int64)i * columns];
	}

	// convolved returns the column of the row.
	__device__ float convolved(half now) const {
		float sum = shift + w.x * __half2float(before[0]) + w.y * __half2float(before[1]) + w.z * __half2float(before[2]) + w.w * __half2float(now);
		return sum / (1 + expf(-sum));
	}

	// keep leaves the inputs for the next row.
	__device__ void keep(half* left, int columns, half now) const {
		left[0] = before[1], left[columns] = before[2], left[2 * (int64)columns] = now;
	}
};

template <bool plain, int each>
__device__ void step(const Given& p) {
	__shared__ __align__(16) float convolved[2 * dim + most_value_dim];  // q, k and v
	__shared__ float lengths[2 * dim / 32], inner[2][most_warps], squares[most_warps];
	__shared__ float factor;  // of x
	__shared__ bool last;     // of those that share keys
	let_next();
	int head = blockIdx.x, row = blockIdx.y, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	int warps = plain ? blockDim.x / 32 : most_warps, threads = 32 * warps, value_dim = plain ? p.value_dim : most_value_dim;
	int shared = head / (p.heads / p.key_heads), keys = p.key_heads * dim, width = 2 * keys + p.heads * value_dim, all = 2 * dim + value_dim;
	if (!p.early) wait_for_previous();
	int sequence = p.seq[row];
	if (sequence < 0 || sequence >= p.sequences) {
		if (threadIdx.x == 0) report(p.fault, position_fault, sequence, p.sequences);
		if (p.early) wait_for_previous();
		return;
	}
	bool begins = p.pos[row] == 0;

	// What does not depend on the products in front.
	int part = threadIdx.x % sharing, group = threadIdx.x / sharing * columns_of_lane;
	float* state = p.state + (((int64)sequence * p.heads + head) * value_dim + group) * dim + 4 * part;
	float4 s[columns_of_lane][2];
#pragma unroll
	for (int c = 0; c < columns_of_lane; c++)
#pragma unroll
		for (int i = 0; i < 2; i++) s[c][i] = begins ? make_float4(0, 0, 0, 0) : *(const float4*)(state + c * dim + 64 * i);
	half* left = p.left + (int64)sequence * (taps - 1) * width;
	Taps column[each];
	int at[each];  // of all columns of q, k and v
	const half* from[each];
#pragma unroll
	for (int i = 0; i < each; i++) {
		int c = threadIdx.x + i * threads;
		if (c >= all) continue;
		if (c < dim) at[i] = shared * dim + c, from[i] = p.q + row * p.ldq + at[i];
		else if (c < 2 * dim) at[i] = keys + shared * dim + c - dim, from[i] = p.k + row * p.ldk + at[i] - keys;
		else at[i] = 2 * keys + head * value_dim + c - 2 * dim, from[i] = p.v + row * p.ldv + at[i] - 2 * keys;
		column[i].read(p, at[i], left, width, begins);
	}
	int own = group + part / 4, to = head * value_dim + own;  // the column that the lane gets
	float weight = plain ? p.skip[head] : p.norm[own] + p.offset;
	int place = p.places ? __half_as_ushort(p.places[to]) : to;
	Inner<plain> products(p, row, head, threads);
	products.a = warp_sum(products.a), products.b = warp_sum(products.b);
	if (lane == 0) inner[0][warp] = products.a, inner[1][warp] = products.b;
	if (warp == warps - 1) {
		float f = length(p, row);
		if (lane == 0) factor = f;
	}
	float decay = p.decay[head], bias = p.bias[head];
	if (p.early) wait_for_previous();

	half now[each], gate;
	if (!plain) gate = p.z[row * p.ldz + to];
#pragma unroll
	for (int i = 0; i < each; i++)
		if (threadIdx.x + i * threads < all) now[i] = *from[i];
#pragma unroll
	for (int i = 0; i < each; i++) {
		int c = threadIdx.x + i * threads;
		if (c >= all) continue;
		float v = column[i].convolved(now[i]);
		convolved[c] = v;
		if (plain || c >= 2 * dim) continue;
		float sum = warp_sum(v * v);
		if (lane == 0) lengths[c / 32] = sum;
	}
	__syncthreads();
	if (threadIdx.x == 0) last = count(p.counters + row * p.key_heads + shared, p.heads / p.key_heads);

	float a = 0, b = 0, of_q = 1, of_k = 1;
	#pragma unroll
	for (int i = 0; i < warps; i++) a += inner[0][i], b += inner[1][i];
	a = a * factor + bias, b *= factor;
	Gates gates = plain ? Gates(decay, a, p.limit, true) : Gates(decay, a, b, p.limit);
	if (!plain) {
		of_q = 0, of_k = 0;
#pragma unroll
		for (int i = 0; i < dim / 32; i++) of_q += lengths[i], of_k += lengths[dim / 32 + i];
		of_q = rsqrtf(of_q + 1e-6f) * p.scale, of_k = rsqrtf(of_k + 1e-6f);
	}
	float4 q[2], k[2];
#pragma unroll
	for (int i = 0; i < 2; i++) q[i] = *(const float4*)&convolved[64 * i + 4 * part], k[i] = *(const float4*)&convolved[dim + 64 * i + 4 * part];
	float along_q[columns_of_lane] = {}, along_k[columns_of_lane] = {}, both = 0;
#pragma unroll
	for (int i = 0; i < 2; i++)
#pragma unroll
		for (int j = 0; j < 4; j++) {
			float x = (&q[i].x)[j], y = (&k[i].x)[j];
			both += x * y;
#pragma unroll
			for (int c = 0; c < columns_of_lane; c++) {
				along_q[c] += (&s[c][i].x)[j] * x;
				if (!plain) along_k[c] += (&s[c][i].x)[j] * y;
			}
		}
#pragma unroll
	for (int step = sharing / 2; step > 0; step /= 2) both += __shfl_xor_sync(~0u, both, step);
	// y = (g·S + u·kᵀ)·q = g·S·q + u·(k·q)
	float v = convolved[2 * dim + own], u = gates.beta * (plain ? v : v - gates.g * of_k * total(along_k));
	float y = of_q * (gates.g * total(along_q) + u * of_k * both);
	if (plain) {
		if (part % 4 == 0) p.mixed[row * p.ldm + to] = y + weight * v;
	} else {
		float sum = warp_sum(part % 4 == 0 ? y * y : 0);
		if (lane == 0) squares[warp] = sum;
	}
	__syncthreads();
	if (!plain) {
		float squared = 0, z = __half2float(gate);
#pragma unroll
		for (int i = 0; i < warps; i++) squared += squares[i];
		if (part % 4 == 0) p.y[row * p.ldy + place] = __float2half_rn(y / sqrtf(squared / value_dim + p.norm_eps) * weight * (z / (1 + expf(-z))));
	}
	u *= of_k;
#pragma unroll
	for (int c = 0; c < columns_of_lane; c++) {
		float more = __shfl_sync(~0u, u, (threadIdx.x & 16) + 4 * c);
#pragma unroll
		for (int i = 0; i < 2; i++) {
#pragma unroll
			for (int j = 0; j < 4; j++) (&s[c][i].x)[j] = gates.g * (&s[c][i].x)[j] + more * (&k[i].x)[j];
			*(float4*)(state + c * dim + 64 * i) = s[c][i];
		}
	}
#pragma unroll
	for (int i = 0; i < each; i++) {
		int c = threadIdx.x + i * threads;
		if (c < all && (c >= 2 * dim || last)) column[i].keep(left + at[i], width, now[i]);
	}
}

#define STEP(name, plain, each) \
	extern "C" __global__ void __launch_bounds__(32 * most_warps) name(const __grid_constant__ Given given) { step<plain, each>(given); }

STEP(delta_step, false, 1)
STEP(delta_step_plain, true, 2)
