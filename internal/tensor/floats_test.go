package tensor

import (
	"math"
	"slices"
	"testing"

	"exl2/internal/half"
)

func TestWidenNarrow(t *testing.T) {
	values := []float32{0, -1, 1.5, 65504, float32(math.Inf(1)), 0.1}
	narrow := make([]half.F16, len(values))
	brain := make([]half.BF16, len(values))
	for i, v := range values {
		narrow[i], brain[i] = half.ToF16(v), half.ToBF16(v)
	}
	for name, c := range map[string]struct {
		t     Type
		data  []byte
		unfit int
	}{
		"F32":  {F32, BytesOf(values), 4},
		"BF16": {BF16, BytesOf(brain), 3}, // 65504 rounds to 65536 there
	} {
		t.Run(name, func(t *testing.T) {
			wide := Widen(c.t, c.data)
			data := slices.Clone(c.data)
			unfit, n := Narrow(data, data, c.t)
			if unfit != c.unfit || n != 2*len(values) {
				t.Errorf("element %d does not fit, %d bytes; want %d and %d", unfit, n, c.unfit, 2*len(values))
			}
			for i, got := range Widen(F16, data[:n]) {
				if want := half.ToF16(wide[i]).Float32(); got != want {
					t.Errorf("element %d: %v, want %v", i, got, want)
				}
			}
		})
	}
	if got := Widen(F16, BytesOf(narrow)); got[2] != 1.5 || got[5] != half.ToF16(0.1).Float32() {
		t.Errorf("F16 is %v", got)
	}
	if unfit, n := Narrow(nil, nil, F32); unfit != -1 || n != 0 {
		t.Errorf("of nothing, element %d does not fit, %d bytes", unfit, n)
	}
}
