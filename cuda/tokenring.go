package cuda

import (
	"sync/atomic"
	"time"
	"unsafe"

	"exl2/internal/device"
	"exl2/internal/machine"
	"exl2/internal/tensor"
)

// tokenRing is page-locked memory of the host that Sample writes to by itself, so that a
// token takes no copy and no event. An entry of a row is 64 bits: the token, and above it
// the entry's number, by which the host knows that it has come.
type tokenRing struct {
	d       *Device
	rows    int
	slots   tensor.Tensor // I32 [device.RingEntries, 2·rows], of the host
	numbers tensor.Tensor // I32 [1, rows]: of the next entries
	waited  time.Duration // for the entry before
}

// NewTokenRing makes a ring for so many rows.
func (d *Device) NewTokenRing(rows int) device.TokenRing {
	r := &tokenRing{d: d, rows: rows, numbers: d.Alloc(tensor.I32, 1, rows)}
	var ok bool
	if r.slots, ok = d.AllocHost(tensor.I32, device.RingEntries, 2*rows); !ok {
		d.failWith("NewTokenRing: no page-locked memory of the host for %d rows", rows)
	}
	return r
}

// Begin numbers the next entries.
func (r *tokenRing) Begin(n int) {
	numbers := make([]int32, r.rows)
	for i := range numbers {
		numbers[i] = int32(n)
	}
	r.d.Upload(r.numbers, tensor.BytesOf(numbers))
}

// How often the host looks for an entry, how often around the time that the one before took, and after how many looks it asks whether the GPU
// still works. It sleeps in between: a core that others want, too, is given to those who
// have used it least.
const (
	lookEvery = 50 * time.Microsecond
	lookOften = 5 * time.Microsecond
	looks     = 20
)

// pause is for how long the host sleeps that has waited for an entry for some time.
func (r *tokenRing) pause(waited time.Duration) time.Duration {
	switch soon, late := r.waited*3/4, r.waited*5/4; {
	case waited < soon:
		return min(lookEvery, max(soon-waited, lookOften))
	case waited < late:
		return lookOften
	}
	return lookEvery
}

// Read waits for an entry.
func (r *tokenRing) Read(n, rows int) ([]int32, error) {
	d := r.d
	tokens, began := make([]int32, rows), time.Now()
	for i := 1; d.err == nil && !r.look(tokens, n); i++ {
		if i%looks == 0 && r.idle() && !r.look(tokens, n) {
			d.failWith("TokenRing: the GPU has nothing to do, and entry %d is not there", n)
		}
		machine.Sleep(r.pause(time.Since(began)))
	}
	r.waited = time.Since(began)
	if d.err == nil {
		d.checkFault()
	}
	return tokens, d.err
}

// look reports whether all of the rows have entry n, and reads it.
func (r *tokenRing) look(tokens []int32, n int) bool {
	entry := unsafe.Slice((*uint64)(unsafe.Pointer(unsafe.SliceData(r.slots.Mem.(*memory).host))), device.RingEntries*r.rows)[n%device.RingEntries*r.rows:]
	for i := range tokens {
		v := atomic.LoadUint64(&entry[i])
		if uint32(v>>32) != uint32(n) {
			return false
		}
		tokens[i] = int32(uint32(v))
	}
	return true
}

// idle reports whether all operations are done, and keeps the failure of one that is not.
func (r *tokenRing) idle() bool {
	q := r.d.try(cuStreamQuery, r.d.stream)
	if q != success && q != notReady {
		r.d.fail("TokenRing", q)
	}
	return q == success
}

// Beside is true.
func (r *tokenRing) Beside() bool { return true }

// Free frees the ring's memory.
func (r *tokenRing) Free() {
	r.d.Free(r.numbers)
	r.d.Free(r.slots)
}
