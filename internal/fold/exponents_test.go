package fold

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Channels end within half an octave of the median, or at the largest exponent; those
// that are alike stay.
func TestExponents(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spread := rapid.SampledFrom([]float64{0.4, 3, 20}).Draw(t, "spread")
		octaves := rapid.SliceOfN(rapid.Float64Range(-spread, spread), 1, 50).Draw(t, "octaves")
		for i := range octaves {
			if rapid.IntRange(0, 9).Draw(t, "zero") == 0 {
				octaves[i] = math.NaN()
			}
		}
		e := exponents(octaves)
		if spread < least/2 && e != nil {
			t.Fatalf("exponents %v", e)
		}
		var left []float64
		for i := range e {
			switch v := octaves[i] + float64(e[i]); {
			case math.IsNaN(v) && e[i] != 0:
				t.Fatalf("channel %d of zeros is scaled", i)
			case !math.IsNaN(v) && e[i] > -most && e[i] < most:
				left = append(left, v)
			}
		}
		for _, v := range left {
			if math.Abs(v-left[0]) > 1+1e-9 {
				t.Fatalf("channels of %v and %v octaves are left", v, left[0])
			}
		}
	})
}
