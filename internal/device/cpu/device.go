// Package cpu is the reference device: plain loops in float32, dense products
// by BLAS in fixed tiles, on all cores.
//
// Results do not depend on the number of cores: every tile is computed by one
// goroutine, tiles are cut by the operation's shape alone, and no sum crosses
// tiles. They do depend on which BLAS is used (package blas), in the last bits.
package cpu

import (
	"fmt"
	"sync"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/device/cpu/blas"
	"exl2/internal/tensor"
)

// Device is the CPU. Its methods may be called by one goroutine at a time.
type Device struct {
	name    string
	err     error
	scratch sync.Pool // *[]float32
}

var (
	_ device.Device   = (*Device)(nil)
	_ device.Quantize = (*Device)(nil)
	_ device.Borrower = (*Device)(nil)
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

// Record returns fn itself: there is nothing to record on a CPU.
func (d *Device) Record(fn func()) (func(), error) {
	fn()
	return fn, d.err
}

// Sync returns the first failure.
func (d *Device) Sync() error { return d.err }

// Close does nothing.
func (d *Device) Close() error { return nil }

// fail keeps the first failure.
func (d *Device) fail(format string, args ...any) {
	if d.err == nil {
		d.err = fmt.Errorf("cpu: "+format, args...)
	}
}

// memory is bytes that Go or the caller owns.
type memory []byte

// Len returns the number of bytes.
func (m memory) Len() int { return len(m) }

// Alloc returns zeroed memory.
func (d *Device) Alloc(t tensor.Type, rows, cols int) tensor.Tensor {
	n := rows * cols * t.Size()
	words := make([]uint64, (n+7)/8+1) // aligned, and never empty
	m := memory(unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n))
	return tensor.Tensor{Type: t, Rows: rows, Cols: cols, Mem: m}
}

// Borrow uses data as it is, if it is aligned for its type.
func (d *Device) Borrow(t tensor.Type, rows, cols int, data []byte) (tensor.Tensor, bool) {
	aligned := uintptr(unsafe.Pointer(unsafe.SliceData(data)))%uintptr(t.Size()) == 0
	return tensor.Tensor{Type: t, Rows: rows, Cols: cols, Mem: memory(data)}, aligned
}

// Free leaves the memory to the garbage collector.
func (d *Device) Free(tensor.Tensor) {}

// Upload copies src to dst.
func (d *Device) Upload(dst tensor.Tensor, src []byte) {
	if len(src) != dst.Bytes() {
		panic(fmt.Sprintf("cpu: Upload: %d bytes to %v", len(src), dst))
	}
	copy(elements[byte](dst), src)
}

// Download copies src to dst.
func (d *Device) Download(dst []byte, src tensor.Tensor) {
	if len(dst) != src.Bytes() {
		panic(fmt.Sprintf("cpu: Download: %d bytes from %v", len(dst), src))
	}
	copy(dst, elements[byte](src))
}

// elements returns t's memory as elements of type E, which the caller has
// matched with t.Type.
func elements[E any](t tensor.Tensor) []E {
	data := []byte(t.Mem.(memory))[t.Off : t.Off+t.Bytes()]
	var e E
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(data))), len(data)/int(unsafe.Sizeof(e)))
}

// floats returns the elements of an F32 tensor.
func floats(op string, t tensor.Tensor) []float32 {
	if t.Type != tensor.F32 {
		panic(fmt.Sprintf("cpu: %s: %v, want F32", op, t))
	}
	return elements[float32](t)
}

// ints returns the elements of an I32 tensor.
func ints(op string, t tensor.Tensor) []int32 {
	if t.Type != tensor.I32 {
		panic(fmt.Sprintf("cpu: %s: %v, want I32", op, t))
	}
	return elements[int32](t)
}

// want panics unless a condition on an operation's arguments holds.
func want(ok bool, op string, ts ...tensor.Tensor) {
	if !ok {
		panic(fmt.Sprintf("cpu: %s: shapes %v", op, ts))
	}
}

// borrowed returns n floats of scratch memory and what gives them back.
func (d *Device) borrowed(n int) ([]float32, func()) {
	p, _ := d.scratch.Get().(*[]float32)
	if p == nil || cap(*p) < n {
		s := make([]float32, n)
		p = &s
	}
	return (*p)[:n], func() { d.scratch.Put(p) }
}
