package quant

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
)

func matrix(d device.Device, rows, cols int, v []float32) tensor.Tensor {
	x := d.Alloc(tensor.F32, rows, cols)
	d.Upload(x, tensor.BytesOf(v))
	return x
}

func random(r *rand.Rand, n int) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64())
	}
	return v
}

// problem is a weight, [out, in], and inputs with correlations and outliers.
type problem struct {
	in, out, rows int
	w, x          []float32
}

func newProblem(in, out, rows int) problem {
	r := rand.New(rand.NewPCG(3, 4))
	p := problem{in, out, rows, random(r, in*out), random(r, rows*in)}
	for i := range rows {
		common := float32(r.NormFloat64())
		for j := range in {
			p.x[i*in+j] = (p.x[i*in+j] + common) * (1 + 4*float32(j%17)/17)
		}
	}
	return p
}

// loss is the definition: the squared error of the outputs over their square.
func (p problem) loss(m *exl2.Matrix) float64 {
	w, sum, square := m.Decode(), 0.0, 0.0
	for i := range p.rows {
		for o := range p.out {
			y, q := 0.0, 0.0
			for k := range p.in {
				x := float64(p.x[i*p.in+k])
				y += x * float64(p.w[o*p.in+k])
				q += x * float64(w[int(m.InvPerm[k])*m.Out+o].Float32())
			}
			sum, square = sum+(y-q)*(y-q), square+y*y
		}
	}
	return sum / square
}

func (p problem) factor(t testing.TB, d device.Quantize) *Factor {
	t.Helper()
	h := NewHessian(d, p.in)
	h.Add(matrix(d, p.rows, p.in, p.x))
	f, err := h.Factor()
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// quantize returns the matrix and the error that GPTQ has left.
func (p problem) quantize(t testing.TB, d device.Quantize, f *Factor, r exl2.Recipe, descents int) (*exl2.Matrix, float64) {
	t.Helper()
	target := f.Target(matrix(d, p.out, p.in, p.w))
	defer target.Free()
	list, loss := quantizeOne(t, d, target, r)
	q := list[0]
	defer q.Free()
	Descend(list, descents)
	packed := q.Matrix()
	defer d.FreeEXL2(packed)
	done, err := NewPacking(list, []device.Matrix{packed}, nil).Download(nil)
	if err != nil {
		t.Fatal(err)
	}
	return done[0], loss
}

func quantizeOne(t testing.TB, d device.Quantize, target *Target, r exl2.Recipe) ([]*Result, float64) {
	t.Helper()
	s := NewScalars(d, 1)
	defer s.Free()
	at := s.Take(1)
	list := Quantize([]*Target{target}, []exl2.Recipe{r}, at)
	return list, fetch(t, s, at)
}

func fetch(t testing.TB, s *Scalars, at tensor.Tensor) float64 {
	t.Helper()
	if err := s.Fetch(); err != nil {
		t.Fatal(err)
	}
	return s.Values(at)[0]
}

// nearest rounds without feedback, with the same search for scales.
func (p problem) nearest(t testing.TB, d device.Quantize, f *Factor, r exl2.Recipe) *exl2.Matrix {
	t.Helper()
	g := *f
	g.U = d.Alloc(tensor.F32, p.in, p.in)
	d.AddDiagonal(g.U, 1)
	g.weigh()
	m, _ := p.quantize(t, d, &g, r, 0)
	return m
}

// More bits lose less, error feedback loses less than rounding, and coordinate
// descent less still.
func TestWhatPays(t *testing.T) {
	d, p := devtest.CPU(t), newProblem(192, 64, 400)
	f := p.factor(t, d)
	last := math.Inf(1)
	for _, bits := range exl2.Widths {
		r := exl2.Uniform(bits, 64)
		m, _ := p.quantize(t, d, f, r, 0)
		better, _ := p.quantize(t, d, f, r, 2)
		gptq, plain, descended := p.loss(m), p.loss(p.nearest(t, d, f, r)), p.loss(better)
		t.Logf("%d bits: to nearest %.6f, feedback %.6f, descended %.6f", bits, plain, gptq, descended)
		if !(gptq < last && gptq < 0.9*plain && descended < 1.001*gptq) {
			t.Errorf("%d bits: to nearest %v, feedback %v, descended %v, fewer bits %v", bits, plain, gptq, descended, last)
		}
		last = gptq
	}
}

// The error of a result is the loss that it claims to be, damping included, for matrices
// of one block of rows and of several.
func TestErrorIsTheLoss(t *testing.T) {
	for _, in := range []int{128, 640} {
		t.Run(fmt.Sprint(in, " inputs"), func(t *testing.T) { testErrorIsTheLoss(t, newProblem(in, 32, 300)) })
	}
}

func testErrorIsTheLoss(t *testing.T, p problem) {
	d := devtest.CPU(t)
	f := p.factor(t, d)
	m, got := p.quantize(t, d, f, exl2.MustRecipe("0.25:4b_32g/0.75:3b_64g"), 0)
	w, want := m.Decode(), 0.0
	for o := range p.out {
		for i := range p.rows {
			e := 0.0
			for k := range p.in {
				e += float64(p.x[i*p.in+k]) * (float64(p.w[o*p.in+k]) - float64(w[int(m.InvPerm[k])*m.Out+o].Float32()))
			}
			want += e * e
		}
		for k := range p.in {
			e := float64(p.w[o*p.in+k]) - float64(w[int(m.InvPerm[k])*m.Out+o].Float32())
			want += float64(f.Damp) * e * e
		}
	}
	if math.Abs(got-want) > 1e-3*want {
		t.Errorf("error %v, want %v", got, want)
	}
}

// Descent knows the changes of all blocks: each code is the best with the others
// fixed when it has settled. What then changes two at a time still makes it better.
func TestDescentSettles(t *testing.T) {
	d, p := devtest.CPU(t), newProblem(640, 32, 900)
	f, r := p.factor(t, d), exl2.MustRecipe("0.25:4b_32g/0.75:3b_64g")
	last := math.Inf(1)
	for _, passes := range []int{0, 1, 2, 4, 8, 9} {
		target := f.Target(matrix(d, p.out, p.in, p.w))
		list, said := quantizeOne(t, d, target, r)
		if passes < 9 {
			d.Descend(codings(list), f.Factor, passes)
		} else {
			Descend(list, passes)
		}
		e := d.Alloc(tensor.F32, p.in, target.w.Cols)
		d.Values(e, list[0].c)
		d.AddScaled(e, target.w, -1)
		he := d.Alloc(tensor.F32, p.in, target.w.Cols)
		d.SubtractProduct(he, f.H, e)
		s := NewScalars(d, 1)
		at := s.Take(1)
		d.Dot(at, e, he)
		loss := -fetch(t, s, at)
		t.Logf("%d passes: %v", passes, loss)
		if math.Abs(loss-said) > 1e-3*said && passes == 0 {
			t.Errorf("loss %v, the result says %v", loss, said)
		}
		if !(loss < last || passes > 2 && passes < 9 && loss <= last) {
			t.Errorf("%d passes: loss %v, fewer %v", passes, loss, last)
		}
		last = loss
	}
}

// Rows lie in falling order of H's diagonal, ties in their own order.
func TestActivationOrder(t *testing.T) {
	if got := activationOrder([]float32{1, 3, 3, 0, 5}); !slices.Equal(got, []int32{4, 1, 2, 0, 3}) {
		t.Errorf("order %v", got)
	}
	d, p := devtest.CPU(t), newProblem(64, 32, 100)
	m, _ := p.quantize(t, d, p.factor(t, d), exl2.Uniform(4, 32), 0)
	square := make([]float64, p.in)
	for i, v := range p.x {
		square[i%p.in] += float64(v) * float64(v)
	}
	perm := m.Perm()
	for i := 1; i < p.in; i++ {
		if square[perm[i]] > square[perm[i-1]]*1.0001 {
			t.Fatalf("stored row %d has more activation than the one before", i)
		}
	}
}

// Against a reference, the target makes up for inputs that have drifted: the
// product with the drifted inputs comes nearer to the source's output. Moments of what
// outputs lack say what moments of the drift do.
func TestTargetMakesUpForDrift(t *testing.T) {
	t.Run("of inputs", func(t *testing.T) { testTargetMakesUpForDrift(t, false) })
	t.Run("of outputs", func(t *testing.T) { testTargetMakesUpForDrift(t, true) })
}

func testTargetMakesUpForDrift(t *testing.T, outputs bool) {
	d, p := devtest.CPU(t), newProblem(96, 32, 500)
	r := rand.New(rand.NewPCG(5, 6))
	drifted := make([]float32, len(p.x))
	mix := random(r, p.in)
	for i := range drifted { // a systematic drift and some noise
		row := i / p.in
		drifted[i] = p.x[i] + 0.2*mix[i%p.in]*p.x[row*p.in] + 0.05*float32(r.NormFloat64())
	}
	h := NewHessian(d, p.in)
	x, dx := matrix(d, p.rows, p.in, drifted), make([]float32, len(drifted))
	for i := range dx {
		dx[i] = drifted[i] - p.x[i]
	}
	h.Add(x)
	w, drift := matrix(d, p.out, p.in, p.w), matrix(d, p.rows, p.in, dx)
	if outputs {
		lack, none := d.Alloc(tensor.F32, p.rows, p.out), d.Alloc(tensor.F32, p.rows, p.out)
		d.MatMul(lack, drift, w, tensor.Tensor{})
		d.Difference(lack, none, lack)
		AddMoments(d, h.ShortMoments([]tensor.Tensor{x}, []tensor.Tensor{lack}))
	} else {
		AddMoments(d, h.DriftMoments([]tensor.Tensor{drift}, []tensor.Tensor{x}))
	}
	corrections := h.Corrections([]tensor.Tensor{w})
	f, err := h.Factor()
	if err != nil {
		t.Fatal(err)
	}
	target := f.Corrected(corrections)[0]
	stored := make([]float32, p.in*p.out)
	d.Download(tensor.BytesOf(stored), target.w)
	before, after := 0.0, 0.0
	for i := range p.rows {
		for o := range p.out {
			want, plain, made := 0.0, 0.0, 0.0
			for k, original := range f.Perm {
				want += float64(p.x[i*p.in+int(original)]) * float64(p.w[o*p.in+int(original)])
				plain += float64(drifted[i*p.in+int(original)]) * float64(p.w[o*p.in+int(original)])
				made += float64(drifted[i*p.in+int(original)]) * float64(stored[k*p.out+o])
			}
			before, after = before+(plain-want)*(plain-want), after+(made-want)*(made-want)
		}
	}
	if !(after < 0.5*before) {
		t.Errorf("squared error %v, was %v without the reference", after, before)
	}
}

// A matrix that no damping makes positive definite, and one that overflows, is
// rounded to nearest; its error is that of the weights.
func TestHopelessHessian(t *testing.T) {
	for name, bad := range map[string]float32{"indefinite": 1e30, "infinite": float32(math.Inf(1)), "not a number": float32(math.NaN())} {
		for place, at := range map[string]int{"off the diagonal": 1, "on the diagonal": 0} {
			if name == "indefinite" && at == 0 {
				continue // large on the diagonal is definite
			}
			t.Run(name+" "+place, func(t *testing.T) { testHopelessHessian(t, at, bad) })
		}
	}
}

func testHopelessHessian(t *testing.T, at int, bad float32) {
	d, p := devtest.CPU(t), newProblem(64, 32, 10)
	h := NewHessian(d, p.in)
	moments := make([]float32, p.in*p.in)
	for i := range p.in {
		moments[i*p.in+i] = 1
	}
	moments[at], moments[at*p.in] = bad, bad
	d.Upload(h.h, tensor.BytesOf(moments))
	f, err := h.Factor()
	if err != nil {
		t.Fatal(err)
	}
	if !f.Nearest {
		t.Fatal("it was factored")
	}
	m, got := p.quantize(t, d, f, exl2.Uniform(8, 32), 2)
	w, sum, square := m.Decode(), 0.0, 0.0
	for o := range p.out {
		for k := range p.in {
			v, want := float64(w[int(m.InvPerm[k])*m.Out+o].Float32()), float64(p.w[o*p.in+k])
			sum, square = sum+(v-want)*(v-want), square+want*want
			if math.Abs(v-want) > 0.03 {
				t.Fatalf("weight %d, %d is %v, want %v", k, o, v, want)
			}
		}
	}
	s := NewScalars(d, 1)
	place := s.Take(1)
	f.Target(matrix(d, p.out, p.in, p.w)).Square(place)
	if of := -fetch(t, s, place); math.Abs(got-sum) > 1e-3*sum || math.Abs(of-square) > 1e-3*square {
		t.Errorf("error %v of %v, want %v of %v", got, of, sum, square)
	}
}

// A Hessian that is only nearly singular gets more damping.
func TestMoreDamping(t *testing.T) {
	d := devtest.CPU(t)
	const k = 32
	h := NewHessian(d, k)
	bad := make([]float32, k*k)
	for i := range k {
		bad[i*k+i] = 1
	}
	bad[1], bad[k] = 5, 5 // eigenvalue -4
	d.Upload(h.h, tensor.BytesOf(bad))
	f, err := h.Factor()
	if err != nil {
		t.Fatal(err)
	}
	if f.Nearest || f.Damp < 4 {
		t.Errorf("to nearest %v, damping %v", f.Nearest, f.Damp)
	}
}

// Padding columns are zeros with the format's codes.
func TestPadding(t *testing.T) {
	d, p := devtest.CPU(t), newProblem(64, 40, 100)
	m, _ := p.quantize(t, d, p.factor(t, d), exl2.Uniform(4, 32), 1)
	if m.Out != 64 {
		t.Fatalf("%d columns", m.Out)
	}
	row := make([]uint8, m.Out)
	for i, g := range m.Groups {
		for r := g.Row; r < g.Row+g.Rows; r++ {
			m.Codes(row, g, r, 0, m.Out)
			for c := 40; c < 64; c++ {
				if row[c] != 8 || m.Scale(i, c) != 0 {
					t.Fatalf("padded column %d: code %d, scale %d", c, row[c], m.Scale(i, c))
				}
			}
		}
	}
}
