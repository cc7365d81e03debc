package blas

import (
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas32"
	"gonum.org/v1/gonum/blas/testblas"
	"pgregory.net/rapid"

	"exl2/internal/device/cpu/simd"
)

// A choice is one of the implementations that this machine has.
type choice struct {
	name string
	implementation
}

// available returns gonum, package simd where the processor has vectors, and an
// OpenBLAS where one is found, or named by EXL2_BLAS.
func available() []choice {
	values := []string{"gonum", "simd", "openblas"}
	if path := os.Getenv("EXL2_BLAS"); strings.Contains(path, "/") {
		values[2] = path
	}
	var list []choice
	for _, v := range values {
		b, name, err := open(v)
		if err == nil && !slices.ContainsFunc(list, func(c choice) bool { return c.name == name }) {
			list = append(list, choice{name, b})
		}
	}
	return list
}

func TestOpenBLAS(t *testing.T) {
	list := available()
	if c := list[len(list)-1]; !strings.HasPrefix(c.name, "openblas ") {
		t.Skip("no OpenBLAS on this machine; EXL2_BLAS=/path/to/libopenblas.so.0 names one")
	} else if f := strings.Fields(c.name); len(f) != 3 {
		t.Errorf("name %q, want openblas, version and core", c.name)
	}
}

func TestOpen(t *testing.T) {
	best := "gonum"
	if simd.Active() != simd.None {
		best = "simd " + simd.Active().String()
	}
	for _, c := range []struct{ value, name, err string }{
		{"gonum", "gonum", ""},
		{"none", best, ""},
		{"/no/such/library.so", "", "EXL2_BLAS=/no/such/library.so: "},
	} {
		b, name, err := open(c.value)
		switch {
		case c.err == "" && (err != nil || name != c.name || b == nil):
			t.Errorf("%q opens %q, %v, want %q", c.value, name, err, c.name)
		case c.err != "" && (err == nil || !strings.HasPrefix(err.Error(), c.err)):
			t.Errorf("%q: error %v, want %q", c.value, err, c.err)
		}
	}
	if _, name, err := open(""); simd.Active() != simd.None && (name != best || err != nil) {
		t.Errorf("without a choice %q is opened, %v, want %q", name, err, best)
	}
	t.Run("simd without vectors", func(t *testing.T) {
		defer simd.SetLevel(simd.SetLevel(simd.None))
		if _, _, err := open("simd"); err == nil {
			t.Error("no error")
		}
		if _, name, err := open("none"); name != "gonum" || err != nil {
			t.Errorf("none opens %q, %v, want gonum", name, err)
		}
	})
}

func TestUseTwice(t *testing.T) {
	first, err := Use()
	if err != nil {
		t.Skipf("the environment asks for what cannot be used: %v", err)
	}
	if second, err := Use(); second != first || err != nil {
		t.Errorf("first %q, then %q, %v", first, second, err)
	}
}

func TestDgemm(t *testing.T) {
	for _, c := range available() {
		t.Run(c.name, func(t *testing.T) { testblas.TestDgemm(t, c) })
	}
}

// Sgemm against loops in float64, with operands transposed or not.
func TestSgemm(t *testing.T) {
	for _, c := range available() {
		t.Run(c.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) { checkSgemm(t, c) })
		})
	}
}

func checkSgemm(t *rapid.T, c choice) {
	r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	size := rapid.IntRange(0, 40)
	m, n, k := size.Draw(t, "m"), size.Draw(t, "n"), size.Draw(t, "k")
	alpha, beta := float32(rapid.SampledFrom([]float64{0, 1, -1, 2}).Draw(t, "alpha")), float32(rapid.SampledFrom([]float64{0, 1, 0.5}).Draw(t, "beta"))
	a, ta, lda, atA := drawMatrix(t, r, "a", m, k)
	b, tb, ldb, atB := drawMatrix(t, r, "b", k, n)
	ldc := max(1, n+rapid.IntRange(0, 3).Draw(t, "gap"))
	out := floats(r, m*ldc)
	want := slices.Clone(out)
	c.Sgemm(ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, out, ldc)
	for i := range m {
		for j := range n {
			sum, size := float64(beta)*float64(want[i*ldc+j]), 1.0
			for l := range k {
				d := float64(alpha) * float64(a[atA(i, l)]) * float64(b[atB(l, j)])
				sum, size = sum+d, size+math.Abs(d)
			}
			if got := float64(out[i*ldc+j]); math.Abs(got-sum) > size*float64(k+4)*0x1p-23 {
				t.Fatalf("element %d, %d is %v, want %v", i, j, got, sum)
			}
			want[i*ldc+j] = out[i*ldc+j]
		}
	}
	if !slices.Equal(out, want) {
		t.Fatal("elements between the rows of C changed")
	}
}

// drawMatrix returns a matrix and where its elements are.
func drawMatrix(t *rapid.T, r *rand.Rand, name string, rows, cols int) (data []float32, tr blas.Transpose, ld int, at func(i, j int) int) {
	gap := rapid.IntRange(0, 3).Draw(t, name+" gap")
	if rapid.Bool().Draw(t, name+" transposed") {
		ld = max(1, rows+gap)
		return floats(r, cols*ld), blas.Trans, ld, func(i, j int) int { return j*ld + i }
	}
	ld = max(1, cols+gap)
	return floats(r, rows*ld), blas.NoTrans, ld, func(i, j int) int { return i*ld + j }
}

func floats(r *rand.Rand, n int) []float32 {
	s := make([]float32, n)
	for i := range s {
		s[i] = float32(r.NormFloat64())
	}
	return s
}

// Several goroutines may multiply at once, and get the same bits.
func TestConcurrent(t *testing.T) {
	const n = 150
	r := rand.New(rand.NewPCG(1, 1))
	a, b := floats(r, n*n), floats(r, n*n)
	for _, c := range available() {
		t.Run(c.name, func(t *testing.T) {
			results := make([][]float32, 8)
			var wait sync.WaitGroup
			for i := range results {
				wait.Go(func() {
					results[i] = make([]float32, n*n)
					c.Sgemm(blas.NoTrans, blas.Trans, n, n, n, 1, a, n, b, n, 0, results[i], n)
				})
			}
			wait.Wait()
			for i, s := range results {
				if !slices.Equal(s, results[0]) {
					t.Errorf("result %d differs from the first", i)
				}
			}
		})
	}
}

// Stripes by a left side that is packed once, and parts of them, have the bits of the
// product.
func TestLeft(t *testing.T) {
	if before, ok := blas32.Implementation().(implementation); ok {
		defer install(before)
	}
	for _, c := range available() {
		t.Run(c.name, func(t *testing.T) {
			install(c.implementation)
			r := rand.New(rand.NewPCG(7, 7))
			var l Left
			for _, s := range []struct{ m, n, k int }{{1, 1, 1}, {13, 40, 33}, {250, 200, 300}, {490, 400, 520}, {0, 5, 5}, {5, 0, 5}, {5, 5, 0}, {31, 64, 256}} {
				a, b, want := floats(r, s.k*s.m+1), floats(r, s.k*s.n+1), floats(r, s.m*s.n)
				got := slices.Clone(want)
				p := simd.Product[float32]{M: s.m, N: s.n, K: s.k, Alpha: -1, Beta: 1, C: want, LDC: max(1, s.n),
					A: simd.Operand[float32]{Data: a, Row: 1, Col: max(1, s.m)}, B: simd.Operand[float32]{Data: b, Row: max(1, s.n), Col: 1}}
				Multiply(&p)
				for from := 0; from < s.k; from += KUnit(s.k) {
					part := p
					part.A.Data, part.K = a[from*s.m:], min(KUnit(s.k), s.k-from)
					for call := range l.Set(part) {
						l.Pack(call)
					}
					unit, _ := StripeCols()
					for lo := 0; lo < s.n; lo += unit {
						parts := l.Parts(1 + lo/unit%5)
						for i := range parts {
							l.MultiplyPart(i, parts, got[lo:], s.n, b[from*s.n+lo:], s.n, min(unit, s.n-lo))
						}
					}
				}
				if !slices.Equal(got, want) {
					t.Errorf("%+v: other bits than the whole product", s)
				}
			}
		})
	}
}
