// Package cuda is the device for NVIDIA GPUs.
//
// The nouns: a [Device] is one GPU with one stream, on which everything runs in
// order. The driver is libcuda, loaded at run time, so that a program that has
// this package starts anywhere; [Open] says what is missing. A kernel is device
// code from kernels/*.cu, compiled ahead by scripts/kernels into bin/*.zst for
// every architecture and embedded; kernels_gen.go has a typed launcher for each.
// Operations (forward.go) check shapes and launch kernels.
//
// A CUDA context belongs to an operating system thread and a goroutine does not,
// so each driver call makes the device's context current on whatever thread it
// runs: 0.1 µs, and no goroutine that other goroutines have to wake.
//
// To add a kernel:
//
//  1. Write kernels/<op>.cu: formula and shapes on top, entry points at the
//     bottom, extern "C" __global__ void <op>_<types>(parameters).
//  2. `make kernels` writes kernels_gen.go and bin/<op>.zst.
//  3. Call d.<op>_<types>(launch{...}, ...) in a method of Device. Float, half,
//     bf16, int and uint8_t arrays are tensors, other arrays pointers.
//  4. Add cases to internal/device/devtest, which the CPU must pass, too.
//  5. `make test-gpu`, and `sh build/gpu/run-tests.sh` where a GPU is.
package cuda

//go:generate go run ../scripts/launchers
