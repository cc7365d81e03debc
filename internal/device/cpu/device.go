// Package cpu is the reference device: plain loops in float32, dense products
// by BLAS in fixed tiles, on all cores.
//
// Results do not depend on the number of cores: every tile is computed by one
// goroutine, tiles are cut by the operation's shape alone, and no sum crosses
// tiles. They do depend on which BLAS is used (package blas), in the last bits.
package cpu

import (
	"fmt"
	"runtime"
	"sync"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/tensor"
)

// Device is the CPU. Its methods may be called by any number of goroutines.
type Device struct {
	name string
	mu   sync.Mutex // of err
	err  error
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.Quantize = (*Device)(nil)
	_ device.Borrower = (*Device)(nil)

	_ device.Concurrent = (*Device)(nil)
	_ device.Summer     = (*Device)(nil)
)

// New returns the CPU as a device. It fails only if EXL2_BLAS names a library
// that cannot be used.
func New() (*Device, error) {
	name, err := blas.Use()
	if err != nil {
		return nil, err
	}
	return &Device{name: "cpu, " + name}, nil
}

// Name says which BLAS is used.
func (d *Device) Name() string { return d.name }

// Activation is F32: the reference rounds nowhere else.
func (d *Device) Activation() tensor.Type { return tensor.F32 }

// Goroutines is one for every core.
func (d *Device) Goroutines() int { return runtime.GOMAXPROCS(0) }

// Record returns fn itself: there is nothing to record on a CPU.
func (d *Device) Record(fn func()) (func(), error) {
	fn()
	return fn, d.Sync()
}

// Sync returns the first failure.
func (d *Device) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

// Close does nothing.
func (d *Device) Close() error { return nil }

// fail keeps the first failure.
func (d *Device) fail(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.err == nil {
		d.err = fmt.Errorf("cpu: "+format, args...)
	}
}

// memory is bytes that Go or the caller owns.
type memory struct{ data []byte }

// Len returns the number of bytes.
func (m *memory) Len() int { return len(m.data) }

// Alloc returns zeroed memory.
func (d *Device) Alloc(t tensor.Type, rows, cols int) tensor.Tensor {
	n := rows * cols * t.Size()
	words := make([]uint64, (n+7)/8+1) // aligned, and never empty
	m := &memory{unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)}
	return tensor.New(t, rows, cols, m)
}

// Borrow uses data as it is, if it is aligned for its type.
func (d *Device) Borrow(t tensor.Type, rows, cols int, data []byte) (tensor.Tensor, bool) {
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(t.Size()) == 0
	return tensor.New(t, rows, cols, &memory{data}), aligned
}

// Free leaves the memory to the garbage collector.
func (d *Device) Free(tensor.Tensor) {}

// Clear sets all elements to zero.
func (d *Device) Clear(t tensor.Tensor) {
	for r := range t.Rows {
		clear(bytesOf(t.Slice(r, r+1)))
	}
}

// Upload copies src to dst.
func (d *Device) Upload(dst tensor.Tensor, src []byte) {
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("cpu: Upload: %d bytes to %v", len(src), dst))
	}
	copy(bytesOf(dst), src)
}

// Download copies src to dst.
func (d *Device) Download(dst []byte, src tensor.Tensor) {
	if len(dst) != src.Bytes() {
		panic(fmt.Sprintf("cpu: Download: %d bytes from %v", len(dst), src))
	}
	copy(dst, bytesOf(src))
}

// want panics unless a condition on an operation's arguments holds.
func want(ok bool, op string, ts ...tensor.Tensor) {
	if !ok {
		panic(fmt.Sprintf("cpu: %s: shapes %v", op, ts))
	}
}

// borrowed returns n floats of scratch memory, of unknown contents, and what gives them
// back.
func (d *Device) borrowed(n int) ([]float32, func()) {
	s := simd.Scratch(n)
	return s, func() { simd.Keep(s) }
}
