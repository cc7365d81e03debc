package cpu

import (
	"math"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// What gpt-oss's clamped unit and clipping give, by their formulas in float64.
func TestClamp(t *testing.T) {
	d, err := New()
	if err != nil {
		t.Fatal(err)
	}
	gates, ups := []float32{-30, -8, -1, 0, 0.5, 6.9, 7.1, 100}, []float32{-100, 7.5, -7, 0, 1, -1, 3, 8}
	gate, up, x := d.Alloc(tensor.F32, 2, 4), d.Alloc(tensor.F32, 2, 4), d.Alloc(tensor.F32, 2, 4)
	d.Upload(gate, tensor.BytesOf(gates))
	d.Upload(up, tensor.BytesOf(ups))
	d.Upload(x, tensor.BytesOf(ups))
	d.ClampMul(gate, gate, up, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1})
	d.Clip(x, 7.25)
	got, clipped := make([]float32, 8), make([]float32, 8)
	d.Download(tensor.BytesOf(got), gate)
	d.Download(tensor.BytesOf(clipped), x)
	for i := range got {
		g, u := min(float64(gates[i]), 7), max(min(float64(ups[i]), 7), -7)
		if want := (u + 1) * g / (1 + math.Exp(-1.702*g)); math.Abs(float64(got[i])-want) > 1e-6*math.Abs(want) {
			t.Errorf("gate %v, up %v: %v, want %v", gates[i], ups[i], got[i], want)
		}
		if want := max(min(ups[i], 7.25), -7.25); clipped[i] != want {
			t.Errorf("%v clipped: %v, want %v", ups[i], clipped[i], want)
		}
	}
}
