package model

import (
	"bytes"
	"math"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/tensor"
)

// Powers of two scale exactly: what is divided is what it was when it is multiplied.
func TestScalingIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, cols := rapid.IntRange(1, 9).Draw(t, "rows"), rapid.IntRange(1, 70).Draw(t, "cols")
		kind := rapid.SampledFrom([]tensor.Type{tensor.F32, tensor.BF16, tensor.F16}).Draw(t, "type")
		data := make([]byte, rows*cols*kind.Size())
		for i := range rows * cols {
			v := float32(rapid.Float64Range(0.01, 100).Draw(t, "v"))
			switch bits := math.Float32bits(v); kind {
			case tensor.F32:
				copy(data[4*i:], tensor.BytesOf([]uint32{bits}))
			case tensor.BF16:
				copy(data[2*i:], tensor.BytesOf([]uint16{uint16(bits >> 16)}))
			default:
				copy(data[2*i:], tensor.BytesOf([]uint16{uint16(rapid.IntRange(0x2000, 0x5fff).Draw(t, "bits"))}))
			}
		}
		exponents := func(n int, label string) (e, back []int8) {
			for range n {
				v := int8(rapid.IntRange(-3, 3).Draw(t, label))
				e, back = append(e, v), append(back, -v)
			}
			return e, back
		}
		r, rBack := exponents(rows, "row")
		c, cBack := exponents(cols, "column")
		there := scaled(kind, data, cols, r, c)
		for i, v := range tensor.Widen(kind, there) {
			if want := math.Ldexp(float64(tensor.Widen(kind, data)[i]), int(r[i/cols])+int(c[i%cols])); float64(v) != want {
				t.Fatalf("element %d is %v, want %v", i, v, want)
			}
		}
		if !bytes.Equal(scaled(kind, there, cols, rBack, cBack), data) {
			t.Fatal("scaled back, it differs")
		}
		if !bytes.Equal(scaled(kind, data, cols, nil, nil), data) {
			t.Fatal("not scaled, it differs")
		}
	})
}
