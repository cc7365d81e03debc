package parallel

import (
	"fmt"
	"testing"
	"time"
)

// busy computes for about some microseconds.
func busy(us int) float64 {
	x := 1.0
	for range us * 500 {
		x = x*1.0000001 + 1e-9
	}
	return x
}

// BenchmarkFor is loops of short calls with something that one core does between them.
func BenchmarkFor(b *testing.B) {
	for _, n := range []int{2, 16, 64} {
		for _, us := range []int{2, 20} {
			for _, gap := range []int{0, 10, 100} {
				b.Run(fmt.Sprintf("calls=%d/us=%d/gap=%d", n, us, gap), func(b *testing.B) {
					sums, in := make([]float64, n*8), time.Duration(0)
					for b.Loop() {
						busy(gap)
						t := time.Now()
						For(n, func(i int) { sums[i*8] += busy(us) })
						in += time.Since(t)
					}
					b.ReportMetric(float64(in.Microseconds())/float64(b.N), "us/loop")
				})
			}
		}
	}
}
