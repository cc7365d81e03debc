package simd

import (
	"math"
	"math/rand/v2"
	"testing"

	"exl2/internal/half"
)

// Every F16 and BF16 widens as package half says; NaN may become quiet.
func TestWidenAll(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		f16s, bf16s := make([]half.F16, 1<<16), make([]half.BF16, 1<<16)
		for i := range f16s {
			f16s[i], bf16s[i] = half.F16(i), half.BF16(i)
		}
		got := guarded(1 << 16)
		WidenF16(got.data, f16s)
		for i, h := range f16s {
			if want := h.Float32(); !sameFloat(got.data[i], want) {
				t.Fatalf("F16 %#04x widens to %v, want %v", i, got.data[i], want)
			}
		}
		WidenBF16(got.data, bf16s)
		for i, h := range bf16s {
			if want := h.Float32(); !sameFloat(got.data[i], want) {
				t.Fatalf("BF16 %#04x widens to %v, want %v", i, got.data[i], want)
			}
		}
		got.check(t)
	})
}

func sameFloat(a, b float32) bool {
	return math.Float32bits(a) == math.Float32bits(b) || a != a && b != b
}

// Every F16, its neighbours in float32, the ties between F16s, and random bits
// narrow as package half says, to the bit, NaN included.
func TestNarrowAll(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	var src []float32
	for i := range 1 << 16 {
		bits := math.Float32bits(half.F16(i).Float32())
		tie := math.Float32frombits(bits + 0x1000)
		src = append(src, math.Float32frombits(bits), math.Float32frombits(bits-1), math.Float32frombits(bits+1), tie,
			math.Nextafter32(tie, 0), math.Nextafter32(tie, float32(math.Inf(1))), math.Float32frombits(rnd.Uint32()))
	}
	for i := range 1 << 12 { // ties among subnormals
		src = append(src, (float32(i)+0.5)/(1<<24), -(float32(i)+0.5)/(1<<24))
	}
	atLevels(t, func(t *testing.T) {
		got := make([]half.F16, len(src)+1)
		got[len(src)] = 0x1234
		NarrowF16(got, src)
		for i, f := range src {
			if want := half.ToF16(f); got[i] != want {
				t.Fatalf("%v (%#08x) narrows to %#04x, want %#04x", f, math.Float32bits(f), got[i], want)
			}
		}
		if got[len(src)] != 0x1234 {
			t.Fatal("element after the last overwritten")
		}
	})
}

// No length is too short or odd for the assembly.
func TestConvertLengths(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		for n := range 100 {
			src, back, dst := make([]half.F16, n), make([]half.F16, n), guarded(n)
			for i := range src {
				src[i] = half.F16(100*i + 1)
			}
			WidenF16(dst.data, src)
			NarrowF16(back, dst.data)
			for i := range src {
				if back[i] != src[i] {
					t.Fatalf("element %d of %d is %#04x, want %#04x", i, n, back[i], src[i])
				}
			}
			dst.check(t)
		}
	})
}

func BenchmarkConvert(b *testing.B) {
	const n = 1 << 14
	wide, f16s, bf16s := make([]float32, n), make([]half.F16, n), make([]half.BF16, n)
	for _, c := range []struct {
		name string
		f    func()
	}{
		{"WidenF16", func() { WidenF16(wide, f16s) }},
		{"WidenBF16", func() { WidenBF16(wide, bf16s) }},
		{"NarrowF16", func() { NarrowF16(f16s, wide) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					c.f()
				}
				b.ReportMetric(6*n*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
			})
		})
	}
}
