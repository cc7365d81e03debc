package cuda

import (
	"sync/atomic"
	"unsafe"

	"exl2/internal/tensor"
)

// What kernels report (kernels/fault.cuh).
const (
	tokenFault    = 1
	positionFault = 2
)

// prepareFault makes the word that kernels report to. It is host memory, so
// that looking at it costs nothing.
func (d *Device) prepareFault() {
	const words = 3 // kind, value, limit
	host, at := d.pinned(words * 4)
	if d.err == nil {
		clear(host)
		d.fault = tensor.New(tensor.I32, 1, words, &memory{owner: d, at: at, size: len(host), host: host})
	}
}

// checkFault keeps what a kernel has reported, once the device is idle.
func (d *Device) checkFault() {
	words := (*[3]int32)(unsafe.Pointer(unsafe.SliceData(d.fault.Mem.(*memory).host)))
	switch atomic.LoadInt32(&words[0]) {
	case tokenFault:
		d.failWith("Embed: token id %d, vocabulary of %d", words[1], words[2])
	case positionFault:
		d.failWith("Store: position %d, or its page, is outside of a cache of %d", words[1], words[2])
	}
}
