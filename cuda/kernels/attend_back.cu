// The gradient of attention of rows that are whole sequences, in runs of span.
// With P the weights, S the scores, D = rowsum(P∘dP):
//
//	dV += Pᵀ·dY,  dP = dY·Vᵀ,  dS = P∘(dP - D)∘cap',  dQ += scale·dS·K,  dK += scale·dSᵀ·Q
//
// (Dao 2022, FlashAttention, algorithm 4, without random masks.) A head of queries may
// have a sink, a score whose weight is thrown away: it makes P smaller, and nothing
// else. A temperature multiplies the scores of a row, and so their gradients. Heads of
// values may be smaller than those of keys, and a part of them. attend_back_rows
// has a block for some rows and one head: it goes over the positions twice, for D
// and the softmax's scale, which it stores, and for dQ. attend_back_keys has a block
// for some positions and one head of keys and goes over the rows that see them, of
// all heads that share it. Products are in float32, without tensor cores: a few rows
// of calibration are all that come here. Nothing is added by two blocks, so sums have
// one order.
//
// Eight by eight threads have each every eighth row and position of a tile of side x
// side, and every eighth pair of dimensions. Names end in the largest dimension.
#include "attend.cuh"
#include "order.cuh"

constexpr int across = 8, threads = across * across;
constexpr int side_128 = 32, side_256 = 16, side_576 = 8;

// Task is what the kernels are given.
struct Task {
	const half *q, *k, *v;  // [rows, heads·dim], [rows, kv_heads·dim] and [rows, kv_heads·width]
	const float* dy;        // [rows, heads·width]
	const float* sinks;     // [heads] or null
	float *dq, *dk, *dv;
	float* stats;           // [rows, heads, 2]: log Σ exp(score), and D
	int span, heads, kv_heads, dim, width, window;
	int64 ldq, ldk, ldv, lddy, lddq, lddk, lddv;
	float scale, softcap, temperature;
	int temperature_span;

	// heat returns the factor on the scores of the row at a position.
	__device__ float heat(int pos) const {
		return temperature == 0 ? scale : scale * (1 + temperature * logf(1 + pos / temperature_span));
	}
};

// Tiles is the shared memory of a block.
template <int side, int most>
struct Tiles {
	half q[side][most + 2], k[side][most + 2], v[side][most + 2];
	float dy[side][most + 1];
	float weights[side][side + 1], grads[side][side + 1];  // P and dS, by row and position
};

// fill copies rows from..from+side-1 of up to end, zeros where there are none.
template <int side, int most, class T, int width>
__device__ inline void fill(T (&to)[side][width], const T* from, int64 ld, int first, int end, int dim) {
	for (int i = threadIdx.x; i < side * most; i += threads) {
		int r = i / most, c = i % most;
		T zero;
		narrow(zero, 0);
		to[r][c] = first + r < end && c < dim ? from[(first + r) * ld + c] : zero;
	}
}

// Scores are those of a thread: of rows y + 8a and positions x + 8b of a tile.
template <int side, int most>
struct Scores {
	static constexpr int n = side / across;
	float s[n][n], dp[n][n];

	// multiply sets s to capped scores, or no_score, and dp to dY·Vᵀ.
	__device__ void multiply(const Task& t, const Tiles<side, most>& m, int first_row, int first_key) {
		int y = threadIdx.x / across, x = threadIdx.x % across;
#pragma unroll
		for (int a = 0; a < n; a++)
#pragma unroll
			for (int b = 0; b < n; b++) s[a][b] = dp[a][b] = 0;
		for (int i = 0; i < t.dim; i += 2) {
			float2 q[n], g[n], k[n], v[n];
#pragma unroll
			for (int a = 0; a < n; a++) {
				q[a] = __half22float2(*(const half2*)&m.q[y + across * a][i]);
				g[a] = make_float2(m.dy[y + across * a][i], m.dy[y + across * a][i + 1]);
				k[a] = __half22float2(*(const half2*)&m.k[x + across * a][i]);
				v[a] = __half22float2(*(const half2*)&m.v[x + across * a][i]);
			}
#pragma unroll
			for (int a = 0; a < n; a++)
#pragma unroll
				for (int b = 0; b < n; b++) {
					s[a][b] += q[a].x * k[b].x + q[a].y * k[b].y;
					dp[a][b] += g[a].x * v[b].x + g[a].y * v[b].y;
				}
		}
#pragma unroll
		for (int a = 0; a < n; a++) {
			int row = first_row + y + across * a;
			float factor = t.heat(row);
#pragma unroll
			for (int b = 0; b < n; b++) {
				int key = first_key + x + across * b;
				bool seen = row < t.span && key <= row && (t.window <= 0 || row - key < t.window);
				s[a][b] = seen ? capped(s[a][b] * factor, t.softcap) : no_score;
			}
		}
	}

	// weight returns P of a score, given the row's log Σ exp.
	__device__ static float weight(float s, float log_sum) { return s <= no_score ? 0 : expf(s - log_sum); }

	// gradient returns dS of it, before scale and temperature.
	__device__ static float gradient(const Task& t, float weight, float s, float dp, float d) {
		if (weight == 0) return 0;
		float r = t.softcap == 0 ? 0 : s / t.softcap;
		return weight * (dp - d) * ((1 - r) * (1 + r));
	}
};

// The largest, and the sum, of eight threads side by side.
__device__ inline float eight_max(float x) {
	for (int step = across / 2; step > 0; step /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, step));
	return x;
}
__device__ inline float eight_sum(float x) {
	for (int step = across / 2; step > 0; step /= 2) x += __shfl_xor_sync(~0u, x, step);
	return x;
}

// move points the task at one sequence and heads.
__device__ inline void move(Task& t, int sequence, int head, int kv_head) {
	int64 row = (int64)sequence * t.span;
	t.q += row * t.ldq + head * t.dim, t.dy += row * t.lddy + head * t.width, t.dq += row * t.lddq + head * t.dim;
	t.k += row * t.ldk + kv_head * t.dim, t.dk += row * t.lddk + kv_head * t.dim;
	t.v += row * t.ldv + kv_head * t.width, t.dv += row * t.lddv + kv_head * t.width;
	t.stats += (row * t.heads + head) * 2;
}

template <int side, int most>
__device__ void rows_back(Task t) {
	constexpr int n = side / across, pairs = most / across / 2;
	extern __shared__ uint4 memory[];
	Tiles<side, most>& m = *(Tiles<side, most>*)memory;
	int tiles = (t.span + side - 1) / side, head = blockIdx.y;
	move(t, blockIdx.x / tiles, head, head / (t.heads / t.kv_heads));
	int first = blockIdx.x % tiles * side, last = min(first + side, t.span) - 1;
	int from = t.window > 0 ? max(0, first - t.window + 1) / side * side : 0;
	int y = threadIdx.x / across, x = threadIdx.x % across;
	fill<side, most>(m.q, t.q, t.ldq, first, t.span, t.dim);
	fill<side, most>(m.dy, t.dy, t.lddy, first, t.span, t.width);
	Scores<side, most> z;
	float top[n], sum[n], along[n];
#pragma unroll
	for (int a = 0; a < n; a++) {
		top[a] = t.sinks ? t.sinks[head] : no_score;
		sum[a] = t.sinks ? 1 : 0, along[a] = 0;
	}
	for (int key = from; key <= last; key += side) {
		__syncthreads();
		fill<side, most>(m.k, t.k, t.ldk, key, t.span, t.dim);
		fill<side, most>(m.v, t.v, t.ldv, key, t.span, t.width);
		__syncthreads();
		z.multiply(t, m, first, key);
#pragma unroll
		for (int a = 0; a < n; a++) {
			float most_here = top[a];
#pragma unroll
			for (int b = 0; b < n; b++) most_here = fmaxf(most_here, z.s[a][b]);
			most_here = eight_max(most_here);
			float shrink = expf(top[a] - most_here), part = 0, part_along = 0;
#pragma unroll
			for (int b = 0; b < n; b++) {
				float e = z.weight(z.s[a][b], most_here);
				part += e;
				part_along += e == 0 ? 0 : e * z.dp[a][b];
			}
			sum[a] = sum[a] * shrink + eight_sum(part);
			along[a] = along[a] * shrink + eight_sum(part_along);
			top[a] = most_here;
		}
	}
#pragma unroll
	for (int a = 0; a < n; a++) {
		int row = first + y + across * a;
		along[a] = sum[a] > 0 ? along[a] / sum[a] : 0;
		top[a] = sum[a] > 0 ? top[a] + logf(sum[a]) : 0;
		if (x == 0 && row < t.span) *(float2*)(t.stats + (int64)row * t.heads * 2) = make_float2(top[a], along[a]);
	}
	float2 dq[n][pairs] = {};
	for (int key = from; key <= last; key += side) {
		__syncthreads();
		fill<side, most>(m.k, t.k, t.ldk, key, t.span, t.dim);
		fill<side, most>(m.v, t.v, t.ldv, key, t.span, t.width);
		__syncthreads();
		z.multiply(t, m, first, key);
#pragma unroll
		for (int a = 0; a < n; a++)
#pragma unroll
			for (int b = 0; b < n; b++)
				m.grads[y + across * a][x + across * b] = z.gradient(t, z.weight(z.s[a][b], top[a]), z.s[a][b], z.dp[a][b], along[a]);
		__syncthreads();
		for (int i = 0; i < side; i++) {
			float g[n];
#pragma unroll
			for (int a = 0; a < n; a++) g[a] = m.grads[y + across * a][i];
#pragma unroll
			for (int c = 0; c < pairs; c++) {
				float2 k = __half22float2(*(const half2*)&m.k[i][2 * (x + across * c)]);
#pragma unroll
				for (int a = 0; a < n; a++) dq[a][c].x += g[a] * k.x, dq[a][c].y += g[a] * k.y;
			}
		}
	}
#pragma unroll
	for (int a = 0; a < n; a++)
#pragma unroll
		for (int c = 0; c < pairs; c++) {
			int row = first + y + across * a, i = 2 * (x + across * c);
			if (row >= t.span || i >= t.dim) continue;
			float *to = t.dq + row * t.lddq + i, factor = t.heat(row);
			to[0] += factor * dq[a][c].x;
			to[1] += factor * dq[a][c].y;
		}
}

// add_pairs adds a thread's sums to rows first and on of up to end.
template <int side, int most>
__device__ inline void add_pairs(float* to, int64 ld, const float2 (&sums)[side / across][most / across / 2], int first, int end, int dim) {
	int y = threadIdx.x / across, x = threadIdx.x % across;
#pragma unroll
	for (int a = 0; a < side / across; a++)
#pragma unroll
		for (int c = 0; c < most / across / 2; c++) {
			int row = first + y + across * a, i = 2 * (x + across * c);
			if (row >= end || i >= dim) continue;
			to[row * ld + i] += sums[a][c].x;
			to[row * ld + i + 1] += sums[a][c].y;
		}
}

template <int side, int most>
__device__ void keys_back(Task all) {
	constexpr int n = side / across, pairs = most / across / 2;
	extern __shared__ uint4 memory[];
	Tiles<side, most>& m = *(Tiles<side, most>*)memory;
	int tiles = (all.span + side - 1) / side, group = all.heads / all.kv_heads;
	int first = blockIdx.x % tiles * side;
	int end = all.window > 0 ? min(all.span, first + side - 1 + all.window) : all.span;
	int y = threadIdx.x / across, x = threadIdx.x % across;
	float2 dk[n][pairs] = {}, dv[n][pairs] = {};
	Scores<side, most> z;
	Task t = all;
	for (int head = blockIdx.y * group; head < (blockIdx.y + 1) * group; head++) {
		t = all;
		move(t, blockIdx.x / tiles, head, blockIdx.y);
		if (head == blockIdx.y * group) {
			fill<side, most>(m.k, t.k, t.ldk, first, t.span, t.dim);
			fill<side, most>(m.v, t.v, t.ldv, first, t.span, t.width);
		}
		for (int row = first; row < end; row += side) {
			__syncthreads();
			fill<side, most>(m.q, t.q, t.ldq, row, t.span, t.dim);
			fill<side, most>(m.dy, t.dy, t.lddy, row, t.span, t.width);
			__syncthreads();
			z.multiply(t, m, row, first);
#pragma unroll
			for (int a = 0; a < n; a++) {
				int r = row + y + across * a;
				float factor = t.heat(r);
				float2 stats = r < t.span ? *(const float2*)(t.stats + (int64)r * t.heads * 2) : make_float2(0, 0);
#pragma unroll
				for (int b = 0; b < n; b++) {
					float w = z.weight(z.s[a][b], stats.x);
					m.weights[y + across * a][x + across * b] = w;
					m.grads[y + across * a][x + across * b] = factor * z.gradient(t, w, z.s[a][b], z.dp[a][b], stats.y);
				}
			}
			__syncthreads();
			for (int i = 0; i < side; i++) {
				float w[n], g[n];
#pragma unroll
				for (int a = 0; a < n; a++) w[a] = m.weights[i][y + across * a], g[a] = m.grads[i][y + across * a];
#pragma unroll
				for (int c = 0; c < pairs; c++) {
					int at = 2 * (x + across * c);
					float2 q = __half22float2(*(const half2*)&m.q[i][at]);
					float d0 = m.dy[i][at], d1 = m.dy[i][at + 1];
#pragma unroll
					for (int a = 0; a < n; a++) {
						dv[a][c].x += w[a] * d0, dv[a][c].y += w[a] * d1;
						dk[a][c].x += g[a] * q.x, dk[a][c].y += g[a] * q.y;
					}
				}
			}
		}
	}
	// dv may be columns of dk, which other threads add to.
	add_pairs<side, most>(t.dk, t.lddk, dk, first, t.span, t.dim);
	__syncthreads();
	add_pairs<side, most>(t.dv, t.lddv, dv, first, t.span, t.width);
}

#define ATTEND_BACK(name, of, side, most)                                                                     \
	extern "C" __global__ void __launch_bounds__(threads) name(                                               \
		float* dq, float* dk, float* dv, float* stats, const float* dy, const half* q, const half* k,         \
		const half* v, const float* sinks, int span, int heads, int kv_heads, int dim, int width, int window, \
		long long lddq, long long lddk, long long lddv, long long lddy, long long ldq, long long ldk,         \
		long long ldv, float scale, float softcap, float temperature, int temperature_span) {                 \
		after_previous();                                                                                     \
		of<side, most>(Task{q, k, v, dy, sinks, dq, dk, dv, stats, span, heads, kv_heads, dim, width, window, \
		                    ldq, ldk, ldv, lddy, lddq, lddk, lddv, scale, softcap, temperature,               \
		                    temperature_span});                                                               \
	}

ATTEND_BACK(attend_back_rows_128, rows_back, side_128, 128)
ATTEND_BACK(attend_back_rows_256, rows_back, side_256, 256)
ATTEND_BACK(attend_back_rows_576, rows_back, side_576, 576)
ATTEND_BACK(attend_back_keys_128, keys_back, side_128, 128)
ATTEND_BACK(attend_back_keys_256, keys_back, side_256, 256)
ATTEND_BACK(attend_back_keys_576, keys_back, side_576, 576)
