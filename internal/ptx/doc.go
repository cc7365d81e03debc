// Package ptx runs kernels in PTX, NVIDIA's portable assembly, on the CPU: slowly, one
// thread after the other, and with every access to memory checked. It is for tests of kernels
// where there is no GPU.
//
// It knows what NVRTC makes of this project's kernels for compute capability 8.0, by the PTX ISA's
// description, and refuses the rest by name. Functions are compiled where they are called. Memory is as after a fence at all times; threads of a warp
// run one after the other until an instruction that they execute together, or a barrier, and blocks one
// after the other, so that kernels whose blocks wait for each other do not end, which is an error.
package ptx
