// Decodes units of an EXL2 matrix to fp16 weights, transposed (unpack.cuh), by warps that
// go from one to the next.
#include "order.cuh"
#include "unpack.cuh"

constexpr int warps = 4, blocks_a_multiprocessor = 8;
static_assert(warps * blocks_a_multiprocessor <= 64, "as there is room for");

extern "C" __global__ void __launch_bounds__(128) unpack_f16(const __grid_constant__ Unpacking p) {
	after_previous();
	for (int i = p.first + blockIdx.x * warps + threadIdx.x / 32; i < p.end; i += gridDim.x * warps) unpack(p, i);
}
