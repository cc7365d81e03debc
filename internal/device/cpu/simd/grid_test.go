package simd

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/exl2"
	"exl2/internal/half"
)

// A gridCase is a random group: columns of scales, rows of weights, some of them
// hostile.
type gridCase struct {
	Grid
	rows, stride int
	w            []float32
	importance   []float32
}

func drawGrid(t *rapid.T) gridCase {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 7))
	cols := rapid.IntRange(0, 150).Draw(t, "cols")
	scale := make([]float32, cols)
	for c := range scale {
		scale[c] = f16(float32(math.Exp2(rnd.Float64()*24 - 20)))
		if rnd.IntN(10) == 0 {
			scale[c] = []float32{0, 0x1p-24, 65504}[rnd.IntN(3)]
		}
	}
	g := gridCase{Grid: NewGrid(rapid.SampledFrom(exl2.Widths).Draw(t, "bits"), scale, make([]float32, len(scale))), rows: rapid.IntRange(0, 9).Draw(t, "rows")}
	g.stride = cols + rapid.IntRange(0, 5).Draw(t, "gap")
	g.w, g.importance = randoms[float32](rnd, g.rows*g.stride), randoms[float32](rnd, g.rows)
	for i := range g.w {
		c := i % g.stride
		switch {
		case c >= cols:
		case rnd.IntN(4) == 0: // halfway between codes
			g.w[i] = (float32(rnd.IntN(9)-4) + 0.5) * scale[c]
		case rnd.IntN(40) == 0:
			g.w[i] = []float32{0, float32(math.Inf(1)), float32(math.Inf(-1)), float32(math.NaN()), 3e38, -1e-40}[rnd.IntN(6)]
		default:
			g.w[i] *= scale[c] * 8
		}
	}
	return g
}

// sameFloats reports whether two slices are equal to the bit, but for NaN.
func sameFloats(a, b []float32) bool { return slices.EqualFunc(a, b, sameFloat) }

// The quantizer's routines are equal to their fallbacks, to the bit.
func TestGridMatchesFallback(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			g := drawGrid(t)
			cols := len(g.Scale)
			got, want := guarded(cols), make([]float32, cols)
			g.Errors(got.data, g.w, g.stride, g.importance)
			if g.errors(want, g.w, g.stride, g.importance); !sameFloats(got.data, want) {
				t.Fatalf("Errors: %v, want %v", got.data, want)
			}
			got.check(t)
			if g.rows == 0 {
				return
			}
			codes, wantCodes, e := make([]uint8, cols), make([]uint8, cols), guarded(cols)
			g.Quantize(codes, e.data, g.w[:cols], 0.75)
			if g.quantize(wantCodes, want, g.w[:cols], 0.75); !slices.Equal(codes, wantCodes) || !sameFloats(e.data, want) {
				t.Fatalf("Quantize: %v %v, want %v %v", codes, e.data, wantCodes, want)
			}
			copy(e.data, g.w[:cols])
			copy(want, g.w[:cols])
			g.Descend(codes, e.data, 1.25)
			if g.descend(wantCodes, want, 1.25); !slices.Equal(codes, wantCodes) || !sameFloats(e.data, want) {
				t.Fatalf("Descend: %v %v, want %v %v", codes, e.data, wantCodes, want)
			}
			e.check(t)
		})
	})
}

// Quantize chooses what the format's arithmetic makes of the nearest code, and
// Errors adds up what it leaves.
func TestGridMeaning(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 9))
	for _, bits := range exl2.Widths {
		scale := make([]float32, 64)
		for c := range scale {
			scale[c] = f16(float32(0.01 + rnd.Float64()))
		}
		g, w := NewGrid(bits, scale, make([]float32, len(scale))), randoms[float32](rnd, 64)
		codes, e, err := make([]uint8, 64), make([]float32, 64), make([]float32, 64)
		g.Quantize(codes, e, w, 1)
		g.Errors(err, w, 64, []float32{2})
		for c, code := range codes {
			value := exl2.Value(code, bits, half.ToF16(scale[c])).Float32()
			if e[c] != w[c]-value {
				t.Errorf("%d bits: error of %v is %v, want %v", bits, w[c], e[c], w[c]-value)
			}
			for other := range 1 << bits {
				d := math.Abs(float64(w[c]) - float64(other-1<<(bits-1))*float64(scale[c]))
				if best := math.Abs(float64(w[c]) - float64(int(code)-1<<(bits-1))*float64(scale[c])); d < best*(1-1e-5) {
					t.Errorf("%d bits: %v became code %d, but %d is nearer", bits, w[c], code, other)
				}
			}
			exact := float64(w[c]) - float64(int(code)-1<<(bits-1))*float64(scale[c])
			if got := float64(err[c]); math.Abs(got-2*exact*exact) > 1e-5*math.Max(got, 1e-5) {
				t.Errorf("%d bits: squared error %v, want %v", bits, got, 2*exact*exact)
			}
		}
	}
}

func TestSubtractOuter(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 8))
			rows, cols := rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(0, 150).Draw(t, "cols")
			stride := cols + rapid.IntRange(0, 5).Draw(t, "gap")
			w, u, e := guarded(rows*stride), randoms[float32](rnd, rows), randoms[float32](rnd, cols)
			copy(w.data, randoms[float32](rnd, rows*stride))
			want := slices.Clone(w.data)
			for j, f := range u {
				for c, v := range e {
					want[j*stride+c] -= float32(f * v)
				}
			}
			SubtractOuter(w.data, stride, u, e)
			if !sameFloats(w.data, want) {
				t.Fatalf("%v, want %v", w.data, want)
			}
			w.check(t)
		})
	})
}

func BenchmarkGrid(b *testing.B) {
	const rows, cols = 128, 64 // what one goroutine has in its first-level cache
	rnd := rand.New(rand.NewPCG(1, 1))
	scale := make([]float32, cols)
	for c := range scale {
		scale[c] = 0.25
	}
	g, w, u := NewGrid(4, scale, make([]float32, len(scale))), randoms[float32](rnd, rows*cols), randoms[float32](rnd, rows)
	e, codes := make([]float32, cols), make([]uint8, cols)
	for _, c := range []struct {
		name  string
		count int
		f     func()
	}{
		{"Errors", rows * cols, func() { g.Errors(e, w, cols, u) }},
		{"Quantize", cols, func() { g.Quantize(codes, e, w[:cols], 1) }},
		{"Descend", cols, func() { g.Descend(codes, e, 1) }},
		{"SubtractOuter", rows * cols, func() { SubtractOuter(w, cols, u, e) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(float64(c.count)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gweights/s")
			})
		})
	}
}
