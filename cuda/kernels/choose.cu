// The logits of few rows, and these rows normed (device.Choose), of whole eights of columns at 16 bytes.
//
// Blocks ask for rows of the router before they wait for the kernel before this one. Each norms the row that it
// multiplies. Names end in the router's type.
#include "arrive.cuh"
#include "choice.cuh"
#include "digit_row.cuh"
#include "norm_row.cuh"

constexpr int warps = 8;  // of a block
constexpr int row_block = 4;  // rows of the router of a block, of one row of x
constexpr int ahead = 8;  // pieces of 256 columns that are asked for before the wait

// Router is what makes logits; of a gate there is one row, or it is null.
template <class W>
struct Router {
	const W *w, *gate;               // [experts, k], [1, k]
	const float *bias, *gate_bias;   // or null
	float *logits, *gate_logits;     // of a row, [experts], [1]
};

// fetch8 asks for eight elements.
template <class W>
__device__ inline void fetch8(Eight<W>& e, const W* p) {
#pragma unroll
	for (int j = 0; j < sizeof(W) / 2; j++) e.words[j] = ((const uint4*)p)[j];
}

// dot adds eight products to sum, and their elements of x to the largest.
template <class W>
__device__ inline float dot(const Eight<W>& w, const half* x, float sum, half2& most) {
	Eight<half> b;
	b.words[0] = *(const uint4*)x;
	measure(most, b.words[0]);
#pragma unroll
	for (int e = 0; e < 8; e++) sum += widen(w.v[e]) * widen(b.v[e]);
	return sum;
}

// digit_words returns the digits of two elements times a power of two, a word each.
__device__ inline void digit_words(u32* w, half2 x, float to) {
	u32 d[4];
	digits_of(d, x, __float2half2_rn(to));
	u32 low = __byte_perm(d[0], d[1], 0x6240), high = __byte_perm(d[2], d[3], 0x6240);
	w[0] = __byte_perm(low, high, 0x5410), w[1] = __byte_perm(low, high, 0x7632);
}

// leave_digits leaves this warp's share of a normed row, whose largest element is known, as
// digits, those of an element in a word; and behind them what the lowest ones are.
__device__ inline void leave_digits(u32* words, const half* staged, half2 most, int in, int share, int shares) {
	Extent extent = {0, 0};
	extent.add(__low2float(most)), extent.add(__high2float(most));
	FixedPoint fixed(warp_largest(extent.largest));
	int lane = threadIdx.x % 32, all = in / 8, each = (all + shares - 1) / shares, end = min((share + 1) * each, all);
	for (int i = share * each + lane; i < end; i += 32) {
		uint4 v = *(const uint4*)(staged + i * 8);
		half2 x[4] = {half2_of(v.x), half2_of(v.y), half2_of(v.z), half2_of(v.w)};
		alignas(16) u32 w[8];
#pragma unroll
		for (int j = 0; j < 4; j++) digit_words(w + 2 * j, x[j], fixed.to);
		*(uint4*)(words + i * 8) = *(const uint4*)w, *(uint4*)(words + i * 8 + 4) = *(const uint4*)(w + 4);
	}
	if (share == 0 && lane == 0) words[in] = __float_as_uint(fixed.lowest);
}

// Ranked is what experts are ranked by: their logits, or the sigmoids of those with a correction of each.
template <bool corrected>
struct Ranked {
	const float* corrections;  // [experts]

	// of asks for what key needs of an expert.
	__device__ float of(int j) const { return corrected ? corrections[j] : 0; }
	__device__ static u32 key(float logit, float correction) { return key_of(corrected ? sigmoid(logit) + correction : logit); }
};

// no_keys zeros those of experts that there are not, behind the wait: what lies there may be a kernel's in front.
__device__ inline void no_keys(u32* words, int experts) {
	int e = experts + threadIdx.x;
	if (blockIdx.x == 0 && e < warps_of(experts) * ranked) words[keys_behind + e] = 0;
}

// multiply computes this warp's logit of one row under any norm, and leaves its share of the row as digits. The next kernel may read what is in front
// of this one without waiting.
template <class W, class By>
__device__ void multiply(const Router<W>& to, const Input& x, int experts, half* staged, u32* words, const By& by) {
	int j = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32, k = x.in;
	bool gate = j == experts && to.gate, there = j < experts || gate;
	const W* row = gate ? to.gate : to.w + (int64)j * k;
	Eight<W> first[ahead];
#pragma unroll
	for (int c = 0; c < ahead; c++)
		if (there && (c * 32 + lane) * 8 < k) fetch8(first[c], row + (c * 32 + lane) * 8);
	Factors f;
	f.read(x, threadIdx.x * 8);
	wait_for_previous();
	let_next();
	no_keys(words + k, experts);
	normalize(staged, x, f);
	__syncthreads();
	if (!there) return;
	const float* bias = gate ? to.gate_bias : to.bias ? to.bias + j : nullptr;
	float sum = 0;
	half2 most = __float2half2_rn(0);
#pragma unroll
	for (int c = 0; c < ahead; c++)
		if ((c * 32 + lane) * 8 < k) sum = dot(first[c], staged + (c * 32 + lane) * 8, sum, most);
#pragma unroll 1
	for (int i = (ahead * 32 + lane) * 8; i < k; i += 32 * 8) {
		Eight<W> more;
		fetch8(more, row + i);
		sum = dot(more, staged + i, sum, most);
	}
	sum = warp_sum(sum) + (bias ? *bias : 0);
	if (lane == 0) (gate ? to.gate_logits[0] : to.logits[j]) = sum;
	if (lane == 0 && !gate && j < most_experts) words[k + keys_behind + j] = By::key(sum, by.of(j));
	leave_digits(words, staged, most, k, j, experts + (to.gate != nullptr));
}

// A Share is what a warp, or a block, has of the products of a block's rows of the router with
// one row of x times the norm's weights; and of the sum of squares, and the largest element.
struct Share {
	float dots[row_block];
	float squares;
	u32 largest;
};

// Weighted is eight elements of x, times the norm's weights.
struct Weighted {
	float v[8];

	__device__ void read(Share& s, const Input& x, const Factors& f, int i) {
		read_row(v, x, i);
		weigh(s, x, f);
	}
	// read_both is read, and gives what the router multiplies: the elements times weights of its own.
	__device__ void read_both(Share& s, const Input& x, const Factors& f, int i, float (&routed)[8], const Factors& own) {
		read_row(v, x, i);
#pragma unroll
		for (int e = 0; e < 8; e++) routed[e] = v[e] * own.scale[e];
		weigh(s, x, f);
	}
	__device__ void weigh(Share& s, const Input& x, const Factors& f) {
#pragma unroll
		for (int e = 0; e < 8; e++) {
			s.squares += v[e] * v[e];
			v[e] *= f.scale[e] + x.offset;
			s.largest = max(s.largest, __float_as_uint(v[e]) & 0x7fffffff);
		}
	}
	// leave leaves them as digits.
	__device__ void leave(u32* words, float times) const {
		alignas(16) u32 w[8];
#pragma unroll
		for (int j = 0; j < 4; j++) digit_words(w + 2 * j, __floats2half2_rn(v[2 * j] * times, v[2 * j + 1] * times), 1);
		*(uint4*)words = *(const uint4*)w, *(uint4*)(words + 4) = *(const uint4*)(w + 4);
	}
};

// fold adds the lanes' dots: lane 32/row_block·r has that of row r.
__device__ inline float fold(float (&v)[row_block]) {
	int step = 16;
#pragma unroll
	for (int n = row_block / 2; n > 0; n /= 2, step /= 2) {
		bool high = threadIdx.x & step;
#pragma unroll
		for (int i = 0; i < n; i++) v[i] = (high ? v[i + n] : v[i]) + __shfl_xor_sync(~0u, high ? v[i] : v[i + n], step);
	}
#pragma unroll
	for (; step > 0; step /= 2) v[0] += __shfl_xor_sync(~0u, v[0], step);
	return v[0];
}

// AsDigits is where a normed row is left as digits, each element's in a word, and what the choice ranks experts by.
template <class By>
struct AsDigits {
	u32* words;
	int experts;
	By by;

	// begin is called behind the wait for the kernel in front.
	__device__ void begin(int in) const { no_keys(words + in, experts); }
	__device__ float correction_of(int j) const { return j < experts ? by.of(j) : 0; }
	__device__ void logit(int j, float v, float corrected, int in) const {
		if (j < min(experts, most_experts)) words[in + keys_behind + j] = By::key(v, corrected);
	}
	__device__ void leave(const Weighted& v, int i, float inverse, const FixedPoint& fixed) const { v.leave(words + i * 8, inverse * fixed.to); }
	__device__ void end(int in, const FixedPoint& fixed) const {
		if (blockIdx.x == 0 && threadIdx.x == 0) words[in] = __float_as_uint(fixed.lowest);
	}
};

// AsNumbers is where it is left as it is.
struct AsNumbers {
	half* y;

	__device__ void begin(int) const {}
	__device__ float correction_of(int) const { return 0; }
	__device__ void logit(int, float, float, int) const {}
	__device__ void leave(const Weighted& v, int i, float inverse, const FixedPoint&) const {
		Eight<half> e;
#pragma unroll
		for (int j = 0; j < 8; j++) narrow(e.v[j], v.v[j] * inverse);
		*(uint4*)(y + i * 8) = e.words[0];
	}
	__device__ void end(int, const FixedPoint&) const {}
};

// multiply_row computes a block's logits of one row under a norm without centre and shift, each
// warp some columns of all, and its share of the row that is left: the norm is a factor of the sums.
// If they are apart, the router's norm has weights of its own.
template <class W, class To, bool apart = false>
__device__ void multiply_row(const Router<W>& to, const Input& x, int experts, const To& row_to, const float* weights = nullptr) {
	constexpr int rows = row_block;
	static_assert(warps == 8 && rows <= warps, "a lane of eight has a warp's");
	__shared__ float dots[warps][rows], squares[warps];
	__shared__ u32 largest[warps];
	int outputs = experts + (to.gate != nullptr), from = blockIdx.x * rows, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
	bool leaves = threadIdx.x % gridDim.x == blockIdx.x;  // what it has of x first
	Share s = {{}, 0, 0};
	Factors f;
	Weighted first;
	f.scale[0] = 0;
#pragma unroll 1
	for (int i = threadIdx.x * 8, more = 0; i < x.in; i += blockDim.x * 8, more = 1) {
		Eight<W> w[rows];
#pragma unroll
		for (int j = 0; j < rows; j++) {
			int row = min(from + j, outputs - 1);
			fetch8(w[j], (row == experts ? to.gate : to.w + (int64)row * x.in) + i);
		}
		f.read(x, i);
		Factors own;
		if constexpr (apart) own.read({x.x, weights, nullptr, x.in, 0, x.eps, 0}, i);
		if (!more) wait_for_previous(), let_next();
		Weighted v;
		float routed[8];
		if constexpr (apart) v.read_both(s, x, f, i, routed, own);
		else v.read(s, x, f, i);
#pragma unroll
		for (int j = 0; j < rows; j++)
#pragma unroll
			for (int e = 0; e < 8; e++) s.dots[j] += widen(w[j].v[e]) * (apart ? routed[e] : v.v[e]);
		if (!more) first = v;
	}
	if (threadIdx.x * 8 >= x.in) wait_for_previous(), let_next();
	row_to.begin(x.in);
	float dot = fold(s.dots), square = warp_sum(s.squares);
	u32 most = warp_largest(s.largest);
	if (lane % (32 / rows) == 0) dots[warp][lane / (32 / rows)] = dot;
	if (lane == 0) squares[warp] = square, largest[warp] = most;
	int j = warp < rows ? from + warp : outputs;
	const float* bias = j == experts && to.gate ? to.gate_bias : to.bias && j < experts ? to.bias + j : nullptr;
	float added = bias ? *bias : 0, corrected = row_to.correction_of(j);
	__syncthreads();
	square = squares[lane % warps], dot = dots[lane % warps][warp % rows];
#pragma unroll
	for (int step = 1; step < warps; step *= 2) square += __shfl_xor_sync(~0u, square, step), dot += __shfl_xor_sync(~0u, dot, step);
	float inverse = rsqrtf(__fdividef(square, x.in) + x.eps);
	FixedPoint fixed(__float_as_uint(__uint_as_float(warp_largest(largest[lane % warps])) * inverse));
	if (lane == 0 && j < outputs) {
		float logit = dot * inverse + added;
		(j == experts ? to.gate_logits[0] : to.logits[j]) = logit;
		row_to.logit(j, logit, corrected, x.in);
	}
#pragma unroll 1
	for (int i = threadIdx.x; i < x.in / 8; i += blockDim.x) {
		if (i >= blockDim.x) leaves = i % gridDim.x == blockIdx.x;
		if (!leaves) continue;
		if (i >= blockDim.x) f.read(x, i * 8), first.read(s, x, f, i * 8);
		row_to.leave(first, i, inverse, fixed);
	}
	row_to.end(x.in, fixed);
}

// The logits of rows that lie one behind the other, for mixture.cu, and their digits, each element's in a word, each by blocks of its own.
#define LOGITS(name, W, corrected)                                                                       \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                       \
		float* logits, float* gate_logits, int* words, const float* x, const float* scale, const float* shift, \
		const W* w, const float* bias, const W* gate, const float* gate_bias, const float* correction, int count, int k, \
		int centred, float eps, float offset) {                                                          \
		extern __shared__ uint4 shared[];                                                                \
		int row = blockIdx.y;                                                                            \
		Router<W> to = {w, gate, bias, gate_bias, logits + row * count, gate_logits + row};              \
		Input in = {x + (int64)row * k, scale, shift, k, centred, eps, offset};                          \
		u32* mine = (u32*)words + row * row_words(k);                                                    \
		asm volatile("" : "+l"(mine));  /* in front of the wait */                                      \
		Ranked<corrected> by = {correction};                                                             \
		if (centred || shift) multiply(to, in, count, (half*)shared, mine, by);                          \
		else multiply_row(to, in, count, AsDigits<Ranked<corrected>>{mine, count, by});                  \
	}

// The same of rows whose experts' norm has other weights than the router's, w_scale, both without centre and shift.
#define APART(name, W)                                                                                   \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                       \
		float* logits, int* words, const float* x, const float* scale, const float* w_scale, const W* w, const float* bias, int count, int k, float eps, float offset) { \
		int row = blockIdx.y;                                                                            \
		Router<W> to = {w, nullptr, bias, nullptr, logits + row * count, nullptr};                       \
		AsDigits<Ranked<false>> digits = {(u32*)words + row * row_words(k), count, {nullptr}};           \
		multiply_row<W, AsDigits<Ranked<false>>, true>(to, {x + (int64)row * k, scale, nullptr, k, 0, eps, offset}, count, digits, w_scale); \
	}

// The logits of some rows, and what they are normed, each by blocks of its own: of aligned rows under a norm without centre and shift.
#define ROWS(name, W)                                                                                     \
	extern "C" __global__ void __launch_bounds__(32 * warps) name(                                        \
		float* logits, float* gate_logits, half* y, const float* x, const float* scale, const W* w,       \
		const float* bias, const W* gate, const float* gate_bias, int count, int k,                       \
		int64 ld, int64 ldg, int64 ldx, int64 ldy, float eps, float offset) {                             \
		int64 row = blockIdx.y;                                                                           \
		Router<W> to = {w, gate, bias, gate_bias, logits + row * ld, gate_logits + row * ldg};           \
		multiply_row(to, {x + row * ldx, scale, nullptr, k, 0, eps, offset}, count, AsNumbers{y + row * ldy}); \
	}

LOGITS(choose_logits_f16, half, false)
LOGITS(choose_logits_bf16, bf16, false)
LOGITS(choose_logits_f32, float, false)
LOGITS(choose_corrected_f16, half, true)
LOGITS(choose_corrected_bf16, bf16, true)
LOGITS(choose_corrected_f32, float, true)

APART(choose_apart_f16, half)
APART(choose_apart_bf16, bf16)
APART(choose_apart_f32, float)

ROWS(choose_rows_f16, half)
ROWS(choose_rows_bf16, bf16)
ROWS(choose_rows_f32, float)
