package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/exl2"
)

// atLevels runs a test on every level that the machine has.
func atLevels(t *testing.T, f func(t *testing.T)) {
	for l := None; l <= AVX512; l++ {
		t.Run(l.String(), func(t *testing.T) {
			if l > Supported() {
				t.Skipf("this machine has no %v", l)
			}
			defer SetLevel(SetLevel(l))
			f(t)
		})
	}
}

// benchLevels runs a benchmark on every level that the machine has.
func benchLevels(b *testing.B, f func(b *testing.B)) {
	for l := None; l <= Supported(); l++ {
		b.Run(l.String(), func(b *testing.B) {
			defer SetLevel(SetLevel(l))
			f(b)
		})
	}
}

func randoms[T Float](r *rand.Rand, n int) []T {
	s := make([]T, n)
	for i := range s {
		s[i] = T(r.NormFloat64())
	}
	return s
}

// drawProduct returns a random product with every way of lying in memory.
func drawProduct[T Float](t *rapid.T) *Product[T] {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
	small := rapid.IntRange(0, 70)
	size := rapid.OneOf(small, small, small, rapid.SampledFrom([]int{kBlock - 1, kBlock, kBlock + 1, mBlock + 13}))
	p := &Product[T]{M: size.Draw(t, "m"), N: size.Draw(t, "n"), K: size.Draw(t, "k")}
	factors := rapid.SampledFrom([]float64{0, 1, -1, 0.5})
	p.Alpha, p.Beta = T(factors.Draw(t, "alpha")), T(factors.Draw(t, "beta"))
	p.A = drawOperand[T](t, rnd, "a", p.M, p.K)
	p.B = drawOperand[T](t, rnd, "b", p.K, p.N)
	p.LDC = p.N + rapid.IntRange(0, 3).Draw(t, "gap")
	p.C = randoms[T](rnd, p.M*p.LDC)
	return p
}

func drawOperand[T Float](t *rapid.T, rnd *rand.Rand, name string, rows, cols int) Operand[T] {
	gap := rapid.IntRange(0, 3).Draw(t, name+" gap")
	if rapid.Bool().Draw(t, name+" transposed") {
		return Operand[T]{randoms[T](rnd, cols*(rows+gap)), 1, max(1, rows+gap)}
	}
	return Operand[T]{randoms[T](rnd, rows*(cols+gap)), max(1, cols+gap), 1}
}

// checkProduct compares Gemm with float64 loops; unit is the element type's
// rounding. What lies between the rows of C must survive.
func checkProduct[T Float](t *rapid.T, p *Product[T], unit float64) {
	before := slices.Clone(p.C)
	Gemm(p)
	for i := range p.M {
		for j := range p.LDC {
			old, got := float64(before[i*p.LDC+j]), float64(p.C[i*p.LDC+j])
			want, size := old, 0.0
			if j < p.N {
				want, size = float64(p.Beta)*old, math.Abs(float64(p.Beta)*old)
				for k := range p.K {
					d := float64(p.Alpha) * float64(p.A.Data[i*p.A.Row+k*p.A.Col]) * float64(p.B.Data[k*p.B.Row+j*p.B.Col])
					want, size = want+d, size+math.Abs(d)
				}
			}
			if math.Abs(got-want) > size*float64(p.K+4)*unit {
				t.Fatalf("element %d, %d is %v, want %v", i, j, got, want)
			}
		}
	}
}

func TestGemm(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { checkProduct(t, drawProduct[float32](t), 0x1p-24) })
		rapid.Check(t, func(t *rapid.T) { checkProduct(t, drawProduct[float64](t), 0x1p-52) })
	})
}

// Both operands are longer than what is packed at a time.
func TestGemmBlocks(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		const m, n, k = 2*mBlock + 1, nBlock + 33, 2
		p := &Product[float64]{M: m, N: n, K: k, Alpha: 1, A: Operand[float64]{make([]float64, m*k), k, 1}, B: Operand[float64]{make([]float64, k*n), n, 1}, C: make([]float64, m*n), LDC: n}
		for i := range m {
			p.A.Data[i*k], p.A.Data[i*k+1] = float64(i), 1
		}
		for j := range n {
			p.B.Data[j], p.B.Data[n+j] = m, float64(j)
		}
		Gemm(p)
		for i, v := range p.C {
			if want := float64(i/n*m + i%n); v != want {
				t.Fatalf("element %d, %d is %v, want %v", i/n, i%n, v, want)
			}
		}
	})
}

// With beta 0, what C held does not matter, not even NaN; otherwise NaN stays.
func TestGemmNaN(t *testing.T) {
	nan := float32(math.NaN())
	atLevels(t, func(t *testing.T) {
		for _, k := range []int{0, 3} {
			p := &Product[float32]{M: 2, N: 40, K: k, Alpha: 1, A: Operand[float32]{make([]float32, 2*k), max(1, k), 1}, B: Operand[float32]{make([]float32, 40*k), 40, 1}, C: make([]float32, 80), LDC: 40}
			for _, beta := range []float32{0, float32(math.Copysign(0, -1)), 1} {
				for i := range p.C {
					p.C[i] = nan
				}
				p.Beta = beta
				Gemm(p)
				if got := p.C[79]; beta == 0 && got != 0 || beta == 1 && got == got {
					t.Errorf("k %d, beta %v: %v", k, beta, got)
				}
			}
		}
	})
}

// However M and N are cut, each element has the same bits.
func TestGemmTiling(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			p := drawProduct[float32](t)
			q := *p
			q.C = slices.Clone(p.C)
			Gemm(p)
			rows, cols := rapid.IntRange(1, 100).Draw(t, "tile rows"), rapid.IntRange(1, 100).Draw(t, "tile columns")
			for i := 0; i < q.M; i += rows {
				for j := 0; j < q.N; j += cols {
					r := q
					r.M, r.N, r.C = min(rows, q.M-i), min(cols, q.N-j), q.C[i*q.LDC+j:]
					r.A.Data, r.B.Data = from(q.A.Data, i*q.A.Row), from(q.B.Data, j*q.B.Col)
					Gemm(&r)
				}
			}
			if !slices.Equal(p.C, q.C) {
				t.Fatal("cutting the product changes its bits")
			}
		})
	})
}

// from returns s from i on, if there is that much.
func from[T any](s []T, i int) []T { return s[min(i, len(s)):] }

// AVX2 and AVX-512 give the same bits.
func TestLevelsAgree(t *testing.T) {
	if Supported() < AVX512 {
		t.Skipf("this machine has no %v", AVX512)
	}
	both := func(f func() []float32) (a, b []float32) {
		defer SetLevel(SetLevel(AVX2))
		a = f()
		SetLevel(AVX512)
		return a, f()
	}
	rapid.Check(t, func(t *rapid.T) {
		p := drawProduct[float32](t)
		start := slices.Clone(p.C)
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "gemv seed"), 2))
		x, w := randoms[float32](rnd, rapid.IntRange(1, 200).Draw(t, "inputs")), randoms[float32](rnd, 600)
		m := randomMatrix(rnd, exl2.MustRecipe("0.2:8b_32g/0.2:6b_32g/0.2:5b_64g/0.2:4b_128g/0.1:3b_32g/0.1:2b_32g"), 640, 32)
		weights, inputs := packed(t, m), randoms[float32](rnd, m.In)
		for name, f := range map[string]func() []float32{
			"Packed":  func() []float32 { y := make([]float32, 32); weights.Gemv(y, inputs, 0, 32); return y },
			"Gemm":    func() []float32 { p.C = slices.Clone(start); Gemm(p); return p.C },
			"Gemv":    func() []float32 { y := make([]float32, 3); Gemv(y, x, w, len(x)); return y },
			"ExpSum":  func() []float32 { e := make([]float32, len(x)); return append(e, ExpSum(e, x, 1)) },
			"SiLUMul": func() []float32 { e := make([]float32, len(x)); SiLUMul(e, x, x); return e },
		} {
			if a, b := both(f); !slices.Equal(a, b) {
				t.Fatalf("%s: avx2 %v, avx512 %v", name, a, b)
			}
		}
	})
}

func TestGemmRefuses(t *testing.T) {
	for name, p := range map[string]*Product[float32]{
		"negative size": {M: -1},
		"short C":       {M: 2, N: 2, LDC: 2, C: make([]float32, 3)},
		"narrow C":      {M: 2, N: 2, LDC: 1, C: make([]float32, 9)},
		"short A":       {M: 2, N: 2, K: 2, Alpha: 1, LDC: 2, C: make([]float32, 4), A: Operand[float32]{make([]float32, 3), 2, 1}, B: Operand[float32]{make([]float32, 4), 2, 1}},
		"two steps":     {M: 2, N: 2, K: 2, Alpha: 1, LDC: 2, C: make([]float32, 4), A: Operand[float32]{make([]float32, 99), 2, 2}, B: Operand[float32]{make([]float32, 4), 2, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			Gemm(p)
		})
	}
}

func BenchmarkGemm(b *testing.B) {
	for _, n := range []int{256, 1024} {
		b.Run(fmt.Sprintf("float32/NN/%d", n), func(b *testing.B) { benchLevels(b, func(b *testing.B) { benchGemm[float32](b, n, false) }) })
		b.Run(fmt.Sprintf("float32/NT/%d", n), func(b *testing.B) { benchLevels(b, func(b *testing.B) { benchGemm[float32](b, n, true) }) })
		b.Run(fmt.Sprintf("float64/NN/%d", n), func(b *testing.B) { benchLevels(b, func(b *testing.B) { benchGemm[float64](b, n, false) }) })
	}
}

func benchGemm[T Float](b *testing.B, n int, transpose bool) {
	r := rand.New(rand.NewPCG(1, 1))
	p := &Product[T]{M: n, N: n, K: n, Alpha: 1, A: Operand[T]{randoms[T](r, n*n), n, 1}, B: Operand[T]{randoms[T](r, n*n), n, 1}, C: make([]T, n*n), LDC: n}
	if transpose {
		p.B.Row, p.B.Col = 1, n
	}
	for b.Loop() {
		Gemm(p)
	}
	b.ReportMetric(2*math.Pow(float64(n), 3)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
}
