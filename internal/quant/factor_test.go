package quant

import (
	"math"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/tensor"
)

// A Hessian that is shrunk has more on its diagonal, in proportion to what is there,
// and the same elsewhere; damping and order are what they were.
func TestShrink(t *testing.T) {
	d, p := devtest.CPU(t), newProblem(96, 32, 300)
	plain := p.factor(t, d)
	h := NewHessian(d, p.in)
	h.Add(matrix(d, p.rows, p.in, p.x))
	h.Shrink(0.5)
	shrunk, err := h.Factor()
	if err != nil {
		t.Fatal(err)
	}
	if shrunk.Damp != plain.Damp {
		t.Errorf("damped by %v, by %v without", shrunk.Damp, plain.Damp)
	}
	a, b := make([]float32, p.in*p.in), make([]float32, p.in*p.in)
	d.Download(tensor.BytesOf(a), plain.H)
	d.Download(tensor.BytesOf(b), shrunk.H)
	for i := range p.in {
		if shrunk.Perm[i] != plain.Perm[i] {
			t.Fatalf("row %d was %d, is %d without", i, shrunk.Perm[i], plain.Perm[i])
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
