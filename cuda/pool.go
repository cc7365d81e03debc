package cuda

import (
	"unsafe"

	"exl2/internal/tensor"
)

// pool is the driver's memory in the order of the device's stream: what is freed is
// used again by what is allocated after it, and nothing waits. Its handle is 0 where
// the driver has none; memory then comes and goes at once, and freeing waits.
type pool struct{ handle uintptr }

// Attributes of memory pools, by their numbers in cuda.h.
const (
	poolReleaseThreshold = 4
	poolReserved         = 5
	poolUsed             = 7
	poolMostUsed         = 8

	attributePools = 115 // of a GPU: it has pools
)

// preparePool has the device keep what it has freed until it is closed, or memory
// runs out.
func (d *Device) preparePool() {
	if d.attribute(attributePools) == 0 {
		return
	}
	var p pool
	everything := ^uint64(0)
	if d.try(cuDeviceGetDefaultMemPool, uintptr(unsafe.Pointer(&p.handle)), d.handle) != success ||
		d.try(cuMemPoolSetAttribute, p.handle, poolReleaseThreshold, uintptr(unsafe.Pointer(&everything))) != success {
		return
	}
	d.pool = p
	d.onClose(func() {
		d.try(cuStreamSynchronize, d.stream)
		d.try(cuMemPoolTrimTo, p.handle, 0)
	})
}

// allocate returns memory, or why there is none, though nothing is kept.
func (d *Device) allocate(n uintptr) (at pointer, r result) {
	if at, r = d.tryAllocate(n); r == outOfMemory && d.takeBack() {
		at, r = d.tryAllocate(n)
	}
	return at, r
}

// tryAllocate returns memory, or why there is none.
func (d *Device) tryAllocate(n uintptr) (at pointer, r result) {
	if d.pool.handle == 0 {
		r = d.try(cuMemAlloc, uintptr(unsafe.Pointer(&at)), n)
		return at, r
	}
	r = d.try(cuMemAllocAsync, uintptr(unsafe.Pointer(&at)), n, d.stream)
	if r == outOfMemory { // what is freed but in use may not fit together
		d.try(cuStreamSynchronize, d.stream)
		d.try(cuMemPoolTrimTo, d.pool.handle, 0)
		r = d.try(cuMemAllocAsync, uintptr(unsafe.Pointer(&at)), n, d.stream)
	}
	return at, r
}

// release frees memory once the operations issued so far are done with it.
func (d *Device) release(at pointer) {
	if d.pool.handle == 0 {
		d.do("Free", cuStreamSynchronize, d.stream)
		d.do("Free", cuMemFree, uintptr(at))
		return
	}
	d.do("Free", cuMemFreeAsync, uintptr(at), d.stream)
}

// MemPeak returns the most bytes that were in use at once, or 0 without a pool.
func (d *Device) MemPeak() int {
	var most uint64
	if d.pool.handle != 0 {
		d.try(cuMemPoolGetAttribute, d.pool.handle, poolMostUsed, uintptr(unsafe.Pointer(&most)))
	}
	return int(most)
}

// idle returns the bytes that the pool holds and nobody uses.
func (d *Device) idle() int {
	if d.pool.handle == 0 {
		return 0
	}
	var reserved, used uint64
	d.try(cuMemPoolGetAttribute, d.pool.handle, poolReserved, uintptr(unsafe.Pointer(&reserved)))
	d.try(cuMemPoolGetAttribute, d.pool.handle, poolUsed, uintptr(unsafe.Pointer(&used)))
	return int(reserved - min(used, reserved))
}

// Blank allocates elements that may be anything.
func (d *Device) Blank(t tensor.Type, rows, cols int) tensor.Tensor {
	return tensor.New(t, rows, cols, d.reserve(rows*cols*t.Size()).Mem)
}

// reserve allocates bytes that may be anything.
func (d *Device) reserve(bytes int) tensor.Tensor {
	d.forbidWhileRecording("Alloc")
	m := &memory{owner: d, size: bytes}
	out := tensor.New(tensor.U8, 1, bytes, m)
	if d.err != nil {
		return out
	}
	at, r := d.allocate(uintptr(max(bytes, 1)))
	switch r {
	case success:
		m.at = at
		d.live[m] = true
	case outOfMemory:
		d.failWith("%s", d.outOfMemory(out))
	default:
		d.fail("Alloc", r)
	}
	return out
}
