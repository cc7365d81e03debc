package simd

import (
	"math"
	"math/rand/v2"
	"testing"
)

// Exponentials are within two units in the last place over the whole range, and
// saturate at its ends.
func TestExp(t *testing.T) {
	var src []float32
	for x := float32(-110); x < 95; x += 0.0007 {
		src = append(src, x)
	}
	for i := range 1 << 12 { // the borders between powers of two
		src = append(src, float32((float64(i)/16-128)*math.Ln2/2))
	}
	atLevels(t, func(t *testing.T) {
		dst := guarded(len(src))
		ExpSum(dst.data, src, 0)
		for i, x := range src {
			want := math.Exp(float64(x))
			switch got := float64(dst.data[i]); {
			case x < -87.34:
				if got != 0 {
					t.Fatalf("exp(%v) = %v, want 0", x, got)
				}
			case x > 88.73:
				if got < 0x1.fffp127 || got > math.MaxFloat32 {
					t.Fatalf("exp(%v) = %v, want about the largest float", x, got)
				}
			case x > -87.33 && x < 88.72 && math.Abs(got-want) > 2*ulp(want):
				t.Fatalf("exp(%v) = %v, want %v: %.2f ulp", x, got, want, math.Abs(got-want)/ulp(want))
			}
		}
		dst.check(t)
	})
}

// ulp is the distance of the floats around f.
func ulp(f float64) float64 {
	_, e := math.Frexp(f)
	return math.Ldexp(1, max(e-24, -149))
}

func TestMax(t *testing.T) {
	inf := float32(math.Inf(1))
	atLevels(t, func(t *testing.T) {
		if got := Max(nil); got != -inf {
			t.Errorf("of nothing: %v", got)
		}
		for _, n := range []int{1, 31, 32, 64, 100, 160} {
			for at := range n {
				x := make([]float32, n)
				for i := range x {
					x[i] = -5 - float32(i)
				}
				if x[at] = -3; Max(x) != -3 {
					t.Fatalf("%v, want -3 at %d of %d", Max(x), at, n)
				}
				if x[at] = inf; Max(x) != inf {
					t.Fatalf("%v, want infinity at %d of %d", Max(x), at, n)
				}
			}
		}
	})
}

func TestExpSpecial(t *testing.T) {
	inf := float32(math.Inf(1))
	atLevels(t, func(t *testing.T) {
		src := make([]float32, 64)
		for i := range src {
			src[i] = -inf
		}
		src[5], src[40] = 3, float32(math.NaN())
		dst := make([]float32, 64)
		if sum := ExpSum(dst[:32], src[:32], 3); sum != 1 || dst[5] != 1 || dst[6] != 0 {
			t.Errorf("one element of 32: %v, sum %v", dst[:32], sum)
		}
		if sum := ExpSum(dst, src, 3); sum == sum || dst[40] == dst[40] {
			t.Errorf("NaN became %v, sum %v", dst[40], sum)
		}
		if sum := ExpSum(nil, nil, 3); sum != 0 {
			t.Errorf("sum of nothing is %v", sum)
		}
	})
}

// The sum is that of the results, at every length.
func TestExpSumLengths(t *testing.T) {
	rnd := rand.New(rand.NewPCG(2, 2))
	atLevels(t, func(t *testing.T) {
		for n := range 200 {
			src, dst := randoms[float32](rnd, n), guarded(n)
			got, want := float64(ExpSum(dst.data, src, 1)), 0.0
			for i, v := range dst.data {
				if exact := math.Exp(float64(src[i] - 1)); math.Abs(float64(v)-exact) > 2*ulp(exact) {
					t.Fatalf("element %d of %d is %v, want %v", i, n, v, exact)
				}
				want += float64(v)
			}
			if math.Abs(got-want) > want*float64(n)*0x1p-24 {
				t.Fatalf("sum of %d is %v, want %v", n, got, want)
			}
			dst.check(t)
		}
	})
}

func TestGates(t *testing.T) {
	var gate []float32
	for g := float32(-120); g < 120; g += 0.003 {
		gate = append(gate, g)
	}
	gate = append(gate, 1e10, -1e10, 1e38, -1e38, 0, 1e-40)
	up := randoms[float32](rand.New(rand.NewPCG(3, 3)), len(gate))
	atLevels(t, func(t *testing.T) {
		dst := guarded(len(gate))
		SiLUMul(dst.data, gate, up)
		for i, v := range gate {
			g, u, got := float64(v), float64(up[i]), float64(dst.data[i])
			want := g / (1 + math.Exp(-g)) * u
			if math.Abs(got-want) > max(4*ulp(want), math.Abs(g*u)*0x1p-126) {
				t.Fatalf("silu(%v)·%v = %v, want %v", g, u, got, want)
			}
		}
		GELUTanhMul(dst.data, gate, up)
		for i, v := range gate {
			g, u, got := float64(v), float64(up[i]), float64(dst.data[i])
			want := 0.5 * g * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(g+0.044715*g*g*g))) * u
			if math.Abs(got-want) > max(math.Abs(want)*0x1p-20, math.Abs(u)*max(0x1p-26, math.Abs(g)*0x1p-126)) {
				t.Fatalf("gelu(%v)·%v = %v, want %v", g, u, got, want)
			}
		}
		dst.check(t)
	})
}

func BenchmarkExp(b *testing.B) {
	const n = 4096
	rnd := rand.New(rand.NewPCG(1, 1))
	src, up, dst := randoms[float32](rnd, n), randoms[float32](rnd, n), make([]float32, n)
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"ExpSum", func() { ExpSum(dst, src, 4) }},
		{"SiLUMul", func() { SiLUMul(dst, src, up) }},
		{"GELUTanhMul", func() { GELUTanhMul(dst, src, up) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(n*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gelements/s")
			})
		})
	}
}
