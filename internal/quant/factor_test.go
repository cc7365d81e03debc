package quant

import (
	"math"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/tensor"
)

// A share of inputs' own moments makes the diagonal larger in proportion to what is
// there; the order, and what is elsewhere, stay.
func TestDamping(t *testing.T) {
	d, p := devtest.CPU(t), newProblem(96, 32, 300)
	plain := p.factor(t, d)
	h := NewHessian(d, p.in)
	h.Add(matrix(d, p.rows, p.in, p.x))
	h.Damp(Damping{Own: 0.5, Mean: 0.12})
	damped, err := h.Factor()
	if err != nil {
		t.Fatal(err)
	}
	if damped.Damp != plain.Damp {
		t.Errorf("damped by %v, by %v without", damped.Damp, plain.Damp)
	}
	a, b := make([]float32, p.in*p.in), make([]float32, p.in*p.in)
	d.Download(tensor.BytesOf(a), plain.H)
	d.Download(tensor.BytesOf(b), damped.H)
	for i := range p.in {
		if damped.Perm[i] != plain.Perm[i] {
			t.Fatalf("row %d was %d, is %d without", i, damped.Perm[i], plain.Perm[i])
		}
		for j := range p.in {
			at := i*p.in + j
			want := a[at]
			if i == j {
				want += 0.5 * (a[at] - plain.Damp)
			}
			if math.Abs(float64(b[at]-want)) > 1e-5*math.Abs(float64(want)) {
				t.Fatalf("element %d, %d is %v, want %v", i, j, b[at], want)
			}
		}
	}
}
