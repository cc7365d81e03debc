package simd

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/half"
)

// Rows of every type and odd length, apart by any stride.
func TestGemv(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			checkGemv(t, func(f float32) float32 { return f })
			checkGemv(t, half.ToF16)
			checkGemv(t, half.ToBF16)
		})
	})
}

func checkGemv[W Weight](t *rapid.T, narrow func(float32) W) {
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 3))
	rows, cols := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(0, 300).Draw(t, "columns")
	stride := cols + rapid.IntRange(0, 40).Draw(t, "gap")
	w, wide := make([]W, rows*stride), make([]float32, rows*stride)
	for i := range w {
		w[i] = narrow(float32(rnd.NormFloat64()))
	}
	widen(wide, w)
	x, y := randoms[float32](rnd, cols), guarded(rows)
	copy(y.data, []float32{1, -2, 3, 0, 100})
	Gemv(y.data, x, w, stride)
	for j, got := range y.data {
		want := float64([]float32{1, -2, 3, 0, 100}[j])
		size := math.Abs(want)
		for i, v := range x {
			d := float64(v) * float64(wide[j*stride+i])
			want, size = want+d, size+math.Abs(d)
		}
		if math.Abs(float64(got)-want) > size*float64(cols/32+40)*0x1p-24 {
			t.Fatalf("%T, row %d is %v, want %v", w, j, got, want)
		}
	}
	y.check(t)
}

func TestGemvT(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 9))
			rows, cols := rapid.IntRange(0, 9).Draw(t, "rows"), rapid.IntRange(0, 150).Draw(t, "cols")
			stride := cols + rapid.IntRange(0, 5).Draw(t, "gap")
			w, x, y := randoms[float32](rnd, rows*stride), randoms[float32](rnd, rows), guarded(cols)
			copy(y.data, randoms[float32](rnd, cols))
			want := slices.Clone(y.data)
			for j, f := range x {
				for c := range want {
					want[c] += float32(f * w[j*stride+c])
				}
			}
			GemvT(y.data, x, w, stride)
			if !sameFloats(y.data, want) {
				t.Fatalf("%v, want %v", y.data, want)
			}
			y.check(t)
		})
	})
}

func BenchmarkGemv(b *testing.B) {
	for _, s := range []struct{ rows, cols int }{{256, 1024}, {16384, 4096}} {
		shape := fmt.Sprintf("%dx%d", s.rows, s.cols)
		b.Run("F32/"+shape, func(b *testing.B) { benchLevels(b, func(b *testing.B) { benchGemv[float32](b, s.rows, s.cols, 4) }) })
		b.Run("F16/"+shape, func(b *testing.B) { benchLevels(b, func(b *testing.B) { benchGemv[half.F16](b, s.rows, s.cols, 2) }) })
		b.Run("BF16/"+shape, func(b *testing.B) { benchLevels(b, func(b *testing.B) { benchGemv[half.BF16](b, s.rows, s.cols, 2) }) })
	}
}

func benchGemv[W Weight](b *testing.B, rows, cols, size int) {
	r := rand.New(rand.NewPCG(1, 1))
	w, x, y := make([]W, rows*cols), randoms[float32](r, cols), make([]float32, rows)
	for i := range w {
		w[i] = W(0x3c00 + i%512) // about one as F16, about 1/128 as BF16
	}
	onCores(b, func(b *testing.B, cores int) {
		for b.Loop() {
			together(cores, func(i int) {
				lo, hi := i*rows/cores, (i+1)*rows/cores
				Gemv(y[lo:hi], x, w[lo*cols:hi*cols], cols)
			})
		}
		b.ReportMetric(float64(rows*cols*size)*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
	})
}

// BenchmarkRead measures how fast the runtime's vector code reads memory: what
// bounds the products of large matrices.
func BenchmarkRead(b *testing.B) {
	data := make([]byte, 256<<20)
	for i := range data {
		data[i] = byte(i % 251)
	}
	onCores(b, func(b *testing.B, cores int) {
		for b.Loop() {
			together(cores, func(i int) {
				if bytes.IndexByte(data[i*len(data)/cores:(i+1)*len(data)/cores], 255) >= 0 {
					b.Error("found what is not there")
				}
			})
		}
		b.ReportMetric(float64(len(data))*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
	})
}

// onCores runs a benchmark on one core and on all.
func onCores(b *testing.B, f func(b *testing.B, cores int)) {
	for n := 1; n <= runtime.GOMAXPROCS(0); n *= 2 {
		b.Run(fmt.Sprintf("cores=%d", n), func(b *testing.B) { f(b, n) })
	}
}

// together calls f(0) to f(n-1), each on its own goroutine.
func together(n int, f func(i int)) {
	var wait sync.WaitGroup
	for i := range n {
		wait.Go(func() { f(i) })
	}
	wait.Wait()
}
