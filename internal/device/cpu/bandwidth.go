package cpu

import (
	"time"

	"exl2/internal/parallel"
)

// bandwidthBytes is how much memory the bandwidth is measured over: more than
// any cache holds.
const bandwidthBytes = 1 << 30

// Bandwidth returns the bytes a second that all cores together move: the better
// of a copy, counting what is read and written, and of a read, each the best of
// three runs.
func (d *Device) Bandwidth() float64 {
	src, dst := make([]uint64, bandwidthBytes/8), make([]uint64, bandwidthBytes/8)
	for i := 0; i < len(src); i += 512 {
		src[i], dst[i] = 1, 1 // the memory exists only once it is written
	}
	best := 0.0
	for range 3 {
		best = max(best, rate(2*bandwidthBytes, func() { parallel.Runs(len(src), 1<<17, func(lo, hi int) { copy(dst[lo:hi], src[lo:hi]) }) }))
		best = max(best, rate(bandwidthBytes, func() { readAll(src) }))
	}
	return best
}

func rate(bytes int, f func()) float64 {
	start := time.Now()
	f()
	return float64(bytes) / time.Since(start).Seconds()
}

// readAll reads every word and keeps a sum where the compiler must see it.
func readAll(words []uint64) {
	parallel.Runs(len(words), 1<<17, func(lo, hi int) {
		var a, b, c, d uint64
		w := words[lo:hi]
		for ; len(w) >= 8; w = w[8:] {
			a += w[0] + w[1]
			b += w[2] + w[3]
			c += w[4] + w[5]
			d += w[6] + w[7]
		}
		words[lo] = a + b + c + d
	})
}
