// Reads memory and does next to nothing with it: the read bandwidth.
//
// Every thread has four 16-byte loads in flight. sum is written only for one
// combination of all words, which the compiler cannot rule out.
//
// H200, 2026-11-21: 4.6 TB/s over 2 GB.

extern "C" __global__ void read(
	unsigned* sum,   // [1]
	const uint4* x,  // [words]
	long long words) {
	long long stride = (long long)gridDim.x * blockDim.x, i = (long long)blockIdx.x * blockDim.x + threadIdx.x;
	unsigned all = 0;
	for (; i + 3 * stride < words; i += 4 * stride) {
		uint4 a = x[i], b = x[i + stride], c = x[i + 2 * stride], d = x[i + 3 * stride];
		all |= a.x ^ a.y ^ a.z ^ a.w ^ b.x ^ b.y ^ b.z ^ b.w ^ c.x ^ c.y ^ c.z ^ c.w ^ d.x ^ d.y ^ d.z ^ d.w;
	}
	if (all == 0x12345678) *sum = all;
}
