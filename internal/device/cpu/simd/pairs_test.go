package simd

import (
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"
)

// A pairCase is random rows of a column.
type pairCase struct {
	code, scale, zero, up, down, diagonal, left, h []float32
	d, least                                       float32
	skip                                           int
}

func drawPairs(t *rapid.T) pairCase {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 11))
	rows := rapid.IntRange(1, 200).Draw(t, "rows")
	few := rapid.Bool().Draw(t, "few") // values, so that gains are equal
	random := func() []float32 {
		s := randoms[float32](rnd, rows)
		for i := range s {
			if few {
				s[i] = float32(rnd.IntN(3) - 1)
			}
		}
		return s
	}
	c := pairCase{code: random(), scale: random(), zero: random(), up: random(), down: random(), diagonal: random(), left: random(), h: random()}
	for i := range rows {
		c.scale[i], c.zero[i] = f16(c.scale[i]*0.01), float32(int(1)<<rnd.IntN(8))
		c.code[i] = float32(rnd.IntN(2*int(c.zero[i]))) - c.zero[i]
		if rnd.IntN(50) == 0 {
			c.left[i] = []float32{float32(math.Inf(1)), float32(math.NaN()), 3e38, -1e-40}[rnd.IntN(4)]
		}
	}
	c.d, c.least = float32(rnd.NormFloat64()), max(0, float32(rnd.NormFloat64()))
	c.skip = rnd.IntN(rows)
	return c
}

// The search for pairs is equal to its fallback, to the bit.
func TestPairsMatchFallback(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			c := drawPairs(t)
			rows := len(c.code)
			up, down, wantUp, wantDown := guarded(rows), guarded(rows), make([]float32, rows), make([]float32, rows)
			got := Beside(up.data, down.data, c.code, c.scale, c.zero)
			want := beside(wantUp, wantDown, c.code, c.scale, c.zero, 0)
			if !sameFloats(up.data, wantUp) || !sameFloats(down.data, wantDown) || !sameFloat(got, want) {
				t.Fatalf("Beside: %v %v %v, want %v %v %v", up.data, down.data, got, wantUp, wantDown, want)
			}
			up.check(t)
			down.check(t)
			at := Partner(c.up, c.down, c.diagonal, c.left, c.h, c.d, c.least, c.skip)
			if want := partner(c.up, c.down, c.diagonal, c.left, c.h, c.d, c.least, c.skip); at != want {
				t.Fatalf("Partner: %d, want %d", at, want)
			}
		})
	})
}

func BenchmarkPartner(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	s := randoms[float32](rnd, 5*256)
	at := func(i int) []float32 { return s[i*256 : (i+1)*256] }
	benchLevels(b, func(b *testing.B) {
		for b.Loop() {
			Partner(at(0), at(1), at(2), at(3), at(4), 0.5, 0, 7)
		}
	})
}
