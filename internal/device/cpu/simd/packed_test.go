package simd

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/exl2"
	"exl2/internal/half"
)

// randomMatrix returns a matrix of random codes, cut by recipe r.
func randomMatrix(rnd *rand.Rand, r exl2.Recipe, in, out int) *exl2.Matrix {
	q := exl2.Quantized{In: in, Out: out, Groups: r.Groups(in), Codes: make([]uint8, in*out), Perm: make([]int32, in)}
	q.Scales = make([]uint8, len(q.Groups)*out)
	for i := range q.Scales {
		q.Scales[i] = uint8(rnd.IntN(16))
	}
	for i, p := range rnd.Perm(in) {
		q.Perm[i] = int32(p)
	}
	for _, g := range q.Groups {
		q.ScaleMax = append(q.ScaleMax, half.ToF16(float32(math.Exp2(rnd.Float64()*20-16))))
		for i := g.Row * out; i < (g.Row+g.Rows)*out; i++ {
			q.Codes[i] = uint8(rnd.IntN(1 << g.Bits))
		}
	}
	return q.Pack()
}

type fataler interface{ Fatalf(string, ...any) }

// packed lays out m, in two parts.
func packed(t fataler, m *exl2.Matrix) *Packed {
	p, err := NewPacked(m)
	if err != nil {
		t.Fatalf("NewPacked: %v", err)
	}
	cut := m.Out / 3 &^ (abreast - 1)
	p.Fill(m, cut, m.Out)
	p.Fill(m, 0, cut)
	return p
}

// The weights of every bit width and group size are the format's, to the bit.
func TestPackedDecode(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	atLevels(t, func(t *testing.T) {
		for _, bits := range exl2.Widths {
			for _, group := range []int{32, 64, 96, 128, 160, 256} {
				for _, in := range []int{32, 96, 128, 416} {
					m := randomMatrix(rnd, exl2.Uniform(bits, group), in, 32)
					checkDecode(t, m, 0, 32)
				}
			}
		}
	})
}

// Matrices of several widths and odd shares, and ranges of their columns.
func TestPackedMixed(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
			text := rapid.SampledFrom([]string{
				"0.1:4b_128g/0.9:3b_128g", "0.05:8b_32g/0.15:6b_64g/0.8:2b_64g", "0.3:5b_96g/0.3:4b_32g/0.4:2b_128g", "0.5:8b_256g/0.5:3b_32g",
			}).Draw(t, "recipe")
			in, out := 32*rapid.IntRange(3, 30).Draw(t, "in"), 32*rapid.IntRange(1, 3).Draw(t, "out")
			m := randomMatrix(rnd, exl2.MustRecipe(text), in, out)
			lo := abreast * rapid.IntRange(0, out/abreast-1).Draw(t, "lo")
			hi := abreast * rapid.IntRange(lo/abreast, out/abreast).Draw(t, "hi")
			checkDecode(t, m, lo, hi)
			checkPackedGemv(t, rnd, m, lo, hi)
		})
	})
}

// Groups that no reader supports are refused.
func TestPackedRefuses(t *testing.T) {
	m := randomMatrix(rand.New(rand.NewPCG(1, 1)), exl2.Uniform(4, 32), 32, 32)
	m.Groups = []exl2.Group{{Bits: 4, Rows: 8}, {Bits: 4, Row: 8, Rows: 24, Word: 1}}
	if _, err := NewPacked(m); err == nil || !strings.Contains(err.Error(), "group of 8 rows at row 0") {
		t.Errorf("error %v, want one that names the group", err)
	}
}

func checkDecode(t fataler, m *exl2.Matrix, lo, hi int) {
	p := packed(t, m)
	want, got := m.Decode(), guarded((hi-lo)*m.In)
	p.Decode(got.data, lo, hi)
	for c := lo; c < hi; c++ {
		for r := range m.In {
			g, w := got.data[(c-lo)*m.In+r], want[r*m.Out+c].Float32()
			if math.Float32bits(g) != math.Float32bits(w) {
				t.Fatalf("%v, row %d, column %d: %v, want %v", m.Recipe(), r, c, g, w)
			}
		}
	}
	got.check(t)
}

func checkPackedGemv(t fataler, rnd *rand.Rand, m *exl2.Matrix, lo, hi int) {
	p := packed(t, m)
	w, x, y := m.Decode(), randoms[float32](rnd, m.In), guarded(hi-lo)
	for i := range y.data {
		y.data[i] = float32(i)
	}
	p.Gemv(y.data, x, lo, hi)
	for c := lo; c < hi; c++ {
		sum, size := float64(c-lo), math.Abs(float64(c-lo))
		for r, v := range x {
			d := float64(v) * float64(w[r*m.Out+c].Float32())
			sum, size = sum+d, size+math.Abs(d)
		}
		if got := float64(y.data[c-lo]); math.Abs(got-sum) > size*float64(m.In/lanes+8)*0x1p-24 {
			t.Fatalf("%v, column %d: %v, want %v", m.Recipe(), c, got, sum)
		}
	}
	y.check(t)
}

// A guardedSlice stands between words that must survive.
type guardedSlice struct{ all, data []float32 }

const guard = 16

func guarded(n int) guardedSlice {
	all := make([]float32, n+2*guard)
	for i := range all {
		all[i] = float32(math.NaN())
	}
	return guardedSlice{all, all[guard : guard+n : guard+n]}
}

func (g guardedSlice) check(t fataler) {
	for i, v := range g.all {
		if (i < guard || i >= guard+len(g.data)) && v == v {
			t.Fatalf("element %d of %d overwritten with %v", i-guard, len(g.data), v)
		}
	}
}

func BenchmarkPackedGemv(b *testing.B) {
	const in, out = 4096, 8192
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, c := range []struct{ bits, group int }{{2, 64}, {3, 128}, {4, 32}, {4, 128}, {5, 128}, {6, 128}, {8, 128}} {
		m := randomMatrix(rnd, exl2.Uniform(c.bits, c.group), in, out)
		p := packed(b, m)
		x, y := randoms[float32](rnd, in), make([]float32, out)
		b.Run(fmt.Sprintf("%db_%dg", c.bits, c.group), func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				onCores(b, func(b *testing.B, cores int) {
					for b.Loop() {
						together(cores, func(i int) {
							lo, hi := i*out/cores, (i+1)*out/cores
							p.Gemv(y[lo:hi], x, lo, hi)
						})
					}
					b.ReportMetric(float64(p.Bytes())*float64(b.N)/b.Elapsed().Seconds()/1e9, "GB/s")
					b.ReportMetric(float64(in*out)*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gweights/s")
				})
			})
		})
	}
}

func BenchmarkPackedFill(b *testing.B) {
	const in, out = 4096, 1024
	m := randomMatrix(rand.New(rand.NewPCG(1, 1)), exl2.Uniform(4, 128), in, out)
	for b.Loop() {
		packed(b, m)
	}
	b.ReportMetric(in*out*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gweights/s")
}

func BenchmarkPackedDecode(b *testing.B) {
	const in, out = 4096, 64
	rnd := rand.New(rand.NewPCG(1, 1))
	dst := make([]float32, in*out)
	for _, bits := range exl2.Widths {
		p := packed(b, randomMatrix(rnd, exl2.Uniform(bits, 128), in, out))
		b.Run(fmt.Sprintf("%db", bits), func(b *testing.B) {
			benchLevels(b, func(b *testing.B) {
				for b.Loop() {
					p.Decode(dst, 0, out)
				}
				b.ReportMetric(in*out*float64(b.N)/b.Elapsed().Seconds()/1e9, "Gweights/s")
			})
		})
	}
}
