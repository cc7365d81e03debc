package quant

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
)

// some returns n normal numbers.
func some(n int) []float32 {
	r := rand.New(rand.NewPCG(3, 4))
	list := make([]float32, n)
	for i := range list {
		list[i] = float32(r.NormFloat64())
	}
	return list
}

// The error is that of the weights that are stored, on the inputs, all memory is
// given back, and the columns that pad the matrix are left out.
func TestQuantize(t *testing.T) {
	const in, out, rows = 64, 40, chunk + 100
	w := Weight{Out: out, In: in, Data: some(out * in)}
	inputs := some(rows * in)
	d := devtest.Counting(devtest.CPU(t))
	m, err := w.quantize(d, inputs, exl2.Uniform(3, 32))
	if err != nil {
		t.Fatal(err)
	}
	if live := d.Live(); len(live) > 0 || d.Faults() != nil {
		t.Errorf("not freed: %q; %v", live, d.Faults())
	}
	stored := m.Weights()
	diff, square := 0.0, 0.0
	for r := range rows {
		for o := range out {
			y, e := 0.0, 0.0
			for i := range in {
				x := float64(inputs[r*in+i])
				y += x * float64(w.Data[o*in+i])
				e += x * float64(w.Data[o*in+i]-stored[o*in+i])
			}
			diff, square = diff+e*e, square+y*y
		}
	}
	if want := diff / square; !(math.Abs(m.Error-want) <= 1e-4*want) || want > 0.1 {
		t.Errorf("error %v, that of the stored weights is %v", m.Error, want)
	}
}

// Inputs that never differ from zero leave nothing to be wrong.
func TestNoInputs(t *testing.T) {
	w := Weight{Out: 32, In: 32, Data: some(32 * 32)}
	m, err := Quantize(w, make([]float32, 5*32), Options{Recipe: "1:8b_32g", Device: "cpu"})
	if err != nil || m.Error != 0 {
		t.Fatalf("error %v, %v, want 0", m, err)
	}
	for i, v := range m.Weights() {
		if math.Abs(float64(v-w.Data[i])) > 0.05 {
			t.Fatalf("weight %d is %v, want %v", i, v, w.Data[i])
		}
	}
}

func TestRefused(t *testing.T) {
	good := Weight{Out: 2, In: 32, Data: some(64)}
	nan := Weight{Out: 1, In: 32, Data: append(some(31), float32(math.NaN()))}
	for name, c := range map[string]struct {
		w      Weight
		inputs []float32
		o      Options
		want   string
	}{
		"recipe":        {good, some(32), Options{Recipe: "7b"}, `recipe "7b"`},
		"no outputs":    {Weight{In: 32}, some(32), Options{Recipe: "1:4b_32g"}, "0 outputs"},
		"odd inputs":    {Weight{Out: 1, In: 33, Data: some(33)}, some(33), Options{Recipe: "1:4b_32g"}, "multiple of 32"},
		"half a weight": {Weight{Out: 2, In: 32, Data: some(32)}, some(32), Options{Recipe: "1:4b_32g"}, "32 numbers, want 2 x 32"},
		"no inputs":     {good, nil, Options{Recipe: "1:4b_32g"}, "0 numbers, want rows of 32"},
		"half a row":    {good, some(33), Options{Recipe: "1:4b_32g"}, "33 numbers, want rows of 32"},
		"not a number":  {nan, some(32), Options{Recipe: "1:4b_32g"}, "weight 31 is NaN"},
		"large input":   {good, append(some(31), 1e6), Options{Recipe: "1:4b_32g"}, "input 31 is 1e+06"},
		"devices":       {good, some(32), Options{Recipe: "1:4b_32g", Device: "tpu"}, "--devices tpu"},
	} {
		if _, err := Quantize(c.w, c.inputs, c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q in it", name, err, c.want)
		}
	}
}
