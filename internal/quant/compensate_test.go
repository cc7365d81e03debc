package quant

import (
	"math/rand/v2"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// gradients is rows of gradients with a part that columns of a row share.
func (p problem) gradients(rows int) []float32 {
	g := random(rand.New(rand.NewPCG(5, 6)), rows*p.out)
	for i := range rows {
		for j := range p.out {
			g[i*p.out+j] = (g[i*p.out+j] + 2*g[i*p.out]) * (1 + float32(j%5))
		}
	}
	return g
}

// columns are those of so many gradients, which both halves have.
func (p problem) columns(t *testing.T, d device.Quantize, rows int) *Columns {
	t.Helper()
	moments, g := NewColumnMoments(d, p.out), matrix(d, rows, p.out, p.gradients(rows))
	defer moments.Free()
	moments.Add(0, g)
	moments.Add(1, g)
	c, err := moments.Fetch()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// cost is tr(B·Δᵀ·H·Δ) by its definition, span by span.
func cost(t *testing.T, f *Factor, r *Result, c *Columns, damp float64) (sum float64) {
	t.Helper()
	d, k, n := f.dev, f.k, r.c.Codes.Cols
	delta, values, product := d.Alloc(tensor.F32, k, n), d.Alloc(tensor.F32, k, n), d.Alloc(tensor.F32, k, n)
	d.Copy(delta, r.c.W)
	d.Values(values, r.c)
	d.AddScaled(delta, values, -1)
	d.SubtractProduct(product, f.H, delta)
	x, y := floats(d, delta), floats(d, product)
	for i := range len(c.B) / c.Span {
		for j := i / c.Span * c.Span; j < min(n, (i/c.Span+1)*c.Span); j++ {
			b := float64(c.B[i*c.Span+j%c.Span].Float32())
			if i == j {
				b += damp
			}
			for row := range k {
				sum -= b * float64(x[row*n+i]) * float64(y[row*n+j])
			}
		}
	}
	return sum
}

func floats(d device.Device, t tensor.Tensor) []float32 {
	v := make([]float32, t.Rows*t.Cols)
	d.Download(tensor.BytesOf(v), t)
	return v
}

// Columns that make up for each other's errors lose less, where B says how, and
// nothing where B is nothing but a diagonal.
func TestCompensate(t *testing.T) {
	const damp = 0.1
	d, p := devtest.CPU(t), newProblem(96, 208, 300)
	f := p.factor(t, d)
	c := p.columns(t, d, 500)
	alone := &Columns{Span: c.Span, B: make([]half.F16, len(c.B))}
	for i := range len(c.B) / c.Span {
		alone.B[i*c.Span+i] = c.B[i*c.Span+i]
	}
	target := f.Target(matrix(d, p.out, p.in, p.w))
	for _, bits := range []int{2, 4, 6} {
		list, _ := quantizeOne(t, d, target, exl2.Uniform(bits, 32))
		Descend(list, 2)
		before, apart := cost(t, f, list[0], c, damp), cost(t, f, list[0], alone, damp)
		Prepare([]*Target{target}, []*Columns{alone}, damp, nil).Compensate(list)
		if after := cost(t, f, list[0], alone, damp); after > apart {
			t.Errorf("%d bits: columns that do not depend on each other: %v, before %v", bits, after, apart)
		}
		Prepare([]*Target{target}, []*Columns{c}, damp, nil).Compensate(list)
		after := cost(t, f, list[0], c, damp)
		t.Logf("%d bits: %.4g, before %.4g", bits, after, before)
		if !(after < 0.8*before) {
			t.Errorf("%d bits: %v, before %v", bits, after, before)
		}
		list[0].Free()
	}
}

// noisy are rows whose columns have one thing in common, each more or less of it.
func noisy(seed uint64, rows, n int) []float32 {
	r := rand.New(rand.NewPCG(7, seed))
	g := random(r, rows*n)
	for at := range rows {
		common := float32(r.NormFloat64())
		for i := range n {
			g[at*n+i] += common * float32(i%4) / 4
		}
	}
	return g
}

// joined are the columns of gradients, of which the second half may be left out, or be
// the first again.
func joined(t *testing.T, d device.Device, n int, halves ...[]float32) *Columns {
	t.Helper()
	m := NewColumnMoments(d.(device.Quantize), n)
	defer m.Free()
	for i, g := range halves {
		m.Add(i, matrix(d, len(g)/n, n, g))
	}
	c, err := m.Fetch()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Joined halves are nearer to the moments of many rows than their sum is, which two equal
// halves stand for; where there is no second half nothing is believed but the diagonal.
func TestJoin(t *testing.T) {
	const n, rows = 32, 10
	d := devtest.CPU(t)
	most := noisy(1, 20000, n)
	many := joined(t, d, n, most, most)
	off := func(c *Columns) (sum float64) {
		for i, v := range c.B {
			if i%(n+1) != 0 {
				d := float64(v.Float32() - many.B[i].Float32())
				sum += d * d
			}
		}
		return sum
	}
	both, plain := 0.0, 0.0
	for seed := uint64(2); seed < 10; seed += 2 {
		a, b := noisy(seed, rows, n), noisy(seed+1, rows, n)
		all := append(slices.Clone(a), b...)
		joint, sum := joined(t, d, n, a, b), joined(t, d, n, all, all)
		both, plain = both+off(joint), plain+off(sum)
		if joint.B[0] != sum.B[0] {
			t.Errorf("own moments %v, the sum's %v", joint.B[0], sum.B[0])
		}
	}
	if !(both < 0.8*plain) {
		t.Errorf("joined moments are off by %v, sums by %v", both, plain)
	}
	for i, v := range joined(t, d, n, noisy(2, rows, n)).B {
		if (i%(n+1) == 0) != (v.Float32() != 0) {
			t.Fatalf("with half of the moments, element %d is %v", i, v)
		}
	}
}

// A matrix of several spans, the last one short and padded, ends with codes of its own
// in every column.
func TestCompensateSpans(t *testing.T) {
	d, p := devtest.CPU(t), newProblem(32, Span+77, 64)
	f := p.factor(t, d)
	c := p.columns(t, d, 100)
	target := f.Target(matrix(d, p.out, p.in, p.w))
	list, _ := quantizeOne(t, d, target, exl2.Uniform(3, 32))
	before := cost(t, f, list[0], c, 0.3)
	Prepare([]*Target{target}, []*Columns{c}, 0.3, nil).Compensate(list)
	if after := cost(t, f, list[0], c, 0.3); !(after < 0.8*before) {
		t.Errorf("%v, before %v", after, before)
	}
}
