// The gradient of rotary positions, in place: heads turn back by the angle that
// rope.cu turns them by, and grow by scale.
//
// A block a row and eight heads, as there.
#include "order.cuh"
#include "rope.cuh"

constexpr int threads = 256;
constexpr int heads_a_block = 8;

template <Pairing pairing>
__device__ void rope_back(
	float* q,            // [rows, q_heads·dim], rows ldq elements apart
	float* k,            // [rows, k_heads·dim], rows ldk elements apart
	const float* freqs,  // [pairs]
	const int* pos,      // [rows]
	int q_heads, int k_heads, int dim, int pairs, long long ldq, long long ldk, float scale) {
	extern __shared__ float2 turns[];  // [pairs]
	after_previous();
	int row = blockIdx.x;
	for (int i = threadIdx.x; i < pairs; i += threads) {
		float2 t = turn((double)pos[row] * (double)freqs[i]);
		turns[i] = make_float2(t.x * scale, t.y * scale);
	}
	__syncthreads();
	q += row * ldq;
	k += row * ldk;
	int first = blockIdx.y * heads_a_block, heads = min(heads_a_block, q_heads + k_heads - first);
	for (int i = threadIdx.x; i < heads * pairs; i += threads) {
		int head = first + i / pairs, pair = i % pairs;
		float* x = head < q_heads ? q + head * dim : k + (head - q_heads) * dim;
		float& a = x[pairing == split ? pair : 2 * pair];
		float& b = x[pairing == split ? pair + pairs : 2 * pair + 1];
		float2 t = turns[pair];
		float u = a, v = b;
		a = u * t.x + v * t.y;
		b = v * t.x - u * t.y;
	}
}

#define ROPE_BACK(name, pairing)                                                                   \
	extern "C" __global__ void name(float* q, float* k, const float* freqs, const int* pos,        \
	                                int q_heads, int k_heads, int dim, int pairs, long long ldq,   \
	                                long long ldk, float scale) {                                  \
		rope_back<pairing>(q, k, freqs, pos, q_heads, k_heads, dim, pairs, ldq, ldk, scale);       \
	}

ROPE_BACK(rope_back_split, split)
ROPE_BACK(rope_back_interleaved, interleaved)
