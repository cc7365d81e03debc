package blas

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"

	"exl2/internal/parallel"
)

// definite returns the lower triangle of a random positive definite matrix of
// the given condition, and NaN above the diagonal.
func definite(n int, condition float64) []float64 {
	r := rand.New(rand.NewPCG(1, uint64(n)))
	x, a := make([]float64, n*n), make([]float64, n*n)
	for i := range x {
		x[i] = r.NormFloat64() * math.Pow(condition, -float64(i/n)/float64(2*n))
	}
	g := blas64.General{Rows: n, Cols: n, Stride: n, Data: x}
	blas64.Gemm(blas.Trans, blas.NoTrans, 1, g, g, 0, blas64.General{Rows: n, Cols: n, Stride: n, Data: a})
	for i := range n {
		a[i*n+i] += float64(n) / condition
		for j := i + 1; j < n; j++ {
			a[i*n+j] = math.NaN()
		}
	}
	return a
}

// onAll runs f with each BLAS installed.
func onAll(t *testing.T, f func(t *testing.T)) {
	for _, c := range available() {
		t.Run(c.name, func(t *testing.T) {
			install(c.implementation)
			f(t)
		})
	}
}

// X·A·Xᵀ is the identity, at sizes around those of the pieces.
func TestInvertCholesky(t *testing.T) {
	if !InvertCholesky(nil, 0) {
		t.Error("nothing at all is not positive definite")
	}
	onAll(t, func(t *testing.T) {
		for _, n := range []int{1, 2, small, small + 1, panel - 1, panel, panel + 1, tile + 17, 2*tile + panel + 3} {
			for _, condition := range []float64{10, 1e6} {
				a := definite(n, condition)
				x := slices.Clone(a)
				if !InvertCholesky(x, n) {
					t.Fatalf("%d rows, condition %g: not positive definite", n, condition)
				}
				if worst := distance(x, a, n); worst > 1e-15*condition*math.Sqrt(float64(n)) {
					t.Errorf("%d rows, condition %g: X·A·Xᵀ is %g from the identity", n, condition, worst)
				}
			}
		}
	})
}

// distance is the largest element of X·A·Xᵀ - I, given lower triangles.
func distance(x, a []float64, n int) float64 {
	full, lower, product := make([]float64, n*n), make([]float64, n*n), make([]float64, n*n)
	for i := range n {
		for j := range i + 1 {
			full[i*n+j], full[j*n+i] = a[i*n+j], a[i*n+j]
			lower[i*n+j] = x[i*n+j]
		}
	}
	general := func(d []float64) blas64.General { return blas64.General{Rows: n, Cols: n, Stride: n, Data: d} }
	blas64.Gemm(blas.NoTrans, blas.NoTrans, 1, general(lower), general(full), 0, general(product))
	blas64.Gemm(blas.NoTrans, blas.Trans, 1, general(product), general(lower), 0, general(full))
	worst := 0.0
	for i, v := range full {
		if i%(n+1) == 0 {
			v--
		}
		worst = math.Max(worst, math.Abs(v))
	}
	return worst
}

// What is not positive definite is reported, wherever it shows.
func TestInvertCholeskyRefuses(t *testing.T) {
	const n = tile + 40
	for _, at := range []int{0, small, panel + 5, n - 1} {
		for _, v := range []float64{0, -1, math.NaN(), math.Inf(1)} {
			a := definite(n, 10)
			a[at*n+at] = v
			if InvertCholesky(a, n) {
				t.Errorf("%v at %d: accepted", v, at)
			}
		}
	}
}

// The number of cores does not show in the bits.
func TestInvertCholeskyCores(t *testing.T) {
	const n = 2*tile + 70
	onAll(t, func(t *testing.T) {
		var first []float64
		for _, cores := range []int{1, 2, 5} {
			before := runtime.GOMAXPROCS(cores)
			a := definite(n, 100)
			ok := InvertCholesky(a, n)
			runtime.GOMAXPROCS(before)
			for i := range n { // what is above the diagonal is undefined
				clear(a[i*n+i+1 : (i+1)*n])
			}
			if first == nil {
				first = a
			}
			if !ok || !slices.Equal(a, first) {
				t.Fatalf("%d cores: other bits than one, or refused", cores)
			}
		}
	})
}

func BenchmarkInvertCholesky(b *testing.B) {
	for _, c := range available() {
		install(c.implementation)
		for _, n := range []int{1024, 2048, 4096} {
			if n > 2048 && c.name == "gonum" {
				continue // takes a minute
			}
			a, x := definite(n, 100), make([]float64, n*n)
			b.Run(fmt.Sprintf("%s/%d", c.name, n), func(b *testing.B) {
				for b.Loop() {
					copy(x, a)
					InvertCholesky(x, n)
				}
				b.ReportMetric(2.0/3*math.Pow(float64(n), 3)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
			})
		}
	}
}

func BenchmarkGemm(b *testing.B) {
	const n = 1024
	r := rand.New(rand.NewPCG(1, 1))
	x, wide := floats(r, n*n), make([]float64, n*n)
	for i, v := range x {
		wide[i] = float64(v)
	}
	for _, c := range available() {
		for cores := 1; cores <= runtime.GOMAXPROCS(0); cores *= 2 {
			y, z := make([]float32, n*n), make([]float64, n*n)
			for name, f := range map[string]func(i, rows int){
				"sgemm": func(i, rows int) {
					c.Sgemm(blas.NoTrans, blas.Trans, rows, n, n, 1, x[i*rows*n:], n, x, n, 0, y[i*rows*n:], n)
				},
				"dgemm": func(i, rows int) {
					c.Dgemm(blas.NoTrans, blas.Trans, rows, n, n, 1, wide[i*rows*n:], n, wide, n, 0, z[i*rows*n:], n)
				},
			} {
				b.Run(fmt.Sprintf("%s/%s/cores=%d", c.name, name, cores), func(b *testing.B) {
					for b.Loop() {
						parallel.For(cores, func(i int) { f(i, n/cores) })
					}
					b.ReportMetric(2*math.Pow(n, 3)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GF/s")
				})
			}
		}
	}
}
