package cuda

import (
	"math"
	"unsafe"

	"exl2/internal/tensor"
)

// bandwidthBytes is how much memory the bandwidth is measured over: many times
// the second-level cache.
const bandwidthBytes = 2 << 30

// Bandwidth returns the bytes a second that the memory moves: the better of a
// copy, counting what is read and written, and of a read, each the best of five
// runs. It needs twice 2 GB of memory, and settles for a quarter of what is free.
func (d *Device) Bandwidth() float64 {
	free, _ := d.MemInfo()
	n := min(bandwidthBytes, free/4) &^ 15
	src, dst := d.Alloc(tensor.U8, 1, n), d.Alloc(tensor.U8, 1, n)
	sum := d.Alloc(tensor.I32, 1, 1)
	best := 0.0
	for range 5 {
		best = max(best, float64(2*n)/d.seconds(func() { d.Copy(dst, src) }))
		best = max(best, float64(n)/d.seconds(func() { d.readAll(sum, src) }))
	}
	for _, t := range []tensor.Tensor{src, dst, sum} {
		d.Free(t)
	}
	return best
}

func (d *Device) readAll(sum, src tensor.Tensor) {
	const threads, blocksAnSM = 512, 4
	at := pointer(d.address("Bandwidth", src))
	d.read(launch{blocks: dim{x: d.sms * blocksAnSM}, threads: dim{x: threads}}, pointer(d.address("Bandwidth", sum)), at, int64(src.Bytes()/16))
}

// seconds returns how long the GPU takes for the operations that f issues, the
// second time, infinity if something has failed.
func (d *Device) seconds(f func()) float64 {
	f()
	d.Sync()
	stop := d.Stopwatch()
	f()
	if s := stop(); d.err == nil && s > 0 {
		return s
	}
	return math.Inf(1)
}

// Stopwatch times the operations that are issued until it is stopped.
func (d *Device) Stopwatch() (stop func() float64) {
	start, end := d.takeEvent(), d.takeEvent()
	d.do("timing", cuEventRecord, start, d.stream)
	return func() float64 {
		var ms float32
		d.do("timing", cuEventRecord, end, d.stream)
		d.do("timing", cuEventSynchronize, end)
		d.do("timing", cuEventElapsedTime, uintptr(unsafe.Pointer(&ms)), start, end)
		d.events = append(d.events, start, end)
		return float64(ms) / 1e3
	}
}

// takeEvent returns an event that nobody uses.
func (d *Device) takeEvent() uintptr {
	n := len(d.events)
	if n == 0 {
		return d.event()
	}
	e := d.events[n-1]
	d.events = d.events[:n-1]
	return e
}
