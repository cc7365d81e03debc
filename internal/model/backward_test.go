package model_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// forthAndBack is a module with a state in front of it.
type forthAndBack struct {
	m *model.Module
	d device.Backward
	s *model.State
	x []float32 // the stream in front
}

func get(d device.Device, t tensor.Tensor) []float32 {
	v := make([]float32, t.Rows*t.Cols)
	d.Download(tensor.BytesOf(v), t)
	return v
}

// out is what a module computes.
func (f *forthAndBack) out() model.Slot {
	if f.m.Kind == model.Head {
		return model.Logits
	}
	return model.Stream
}

// along runs the module on x + step·dir and returns its result's product with
// weights.
func (f *forthAndBack) along(dir, weights []float32, step float64) (sum float64) {
	x := make([]float32, len(f.x))
	for i, v := range f.x {
		x[i] = v + float32(step)*dir[i]
	}
	f.d.Upload(f.s.At(model.Stream), tensor.BytesOf(x))
	f.m.Forward(f.s)
	for i, v := range get(f.d, f.s.At(f.out())) {
		sum += float64(v) * float64(weights[i])
	}
	return sum
}

// back returns the gradient of that product.
func (f *forthAndBack) back(g *model.State, weights []float32) []float32 {
	f.d.Upload(f.s.At(model.Stream), tensor.BytesOf(f.x))
	f.d.Clear(g.At(model.Stream))
	if f.m.Kind != model.Head {
		f.d.Upload(g.At(model.Stream), tensor.BytesOf(weights))
	}
	f.m.Backward(f.s, g, func() {
		if f.m.Kind == model.Head {
			f.d.Upload(g.At(model.Logits), tensor.BytesOf(weights))
		}
	})
	return get(f.d, g.At(model.Stream))
}

func normal(r *rand.Rand, n int, scale float64) []float32 {
	v := make([]float32, n)
	for i := range v {
		v[i] = float32(r.NormFloat64() * scale)
	}
	return v
}

// Gradients of every module are the slopes of its results, in random directions.
func TestBackward(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			d, length := devtest.CPU(t), shape[1]
			l.Spec.SetContext(length)
			c := model.NewCache(d, l.Spec, model.SharedCache(l.Spec, shape[0], length))
			s := model.NewState(d, l.Spec, model.Size{Rows: len(ids), Logits: len(ids)}, c)
			var runs []model.Run
			for q := range shape[0] {
				runs = append(runs, model.Run{Sequence: q})
			}
			s.Use(runs, length, ids)
			g := model.NewGradients(s, l.Spec, len(ids))
			for _, spec := range l.Layout {
				m, err := l.Load(d, spec)
				if err != nil {
					t.Fatal(err)
				}
				if spec.Kind == model.Embedding {
					m.Forward(s)
					continue
				}
				f := &forthAndBack{m: m, d: d, s: s, x: get(d, s.At(model.Stream))}
				if !m.CanRunBack() {
					t.Fatalf("%s: no backward pass is known", m.Name)
				}
				limit := 0.01
				if l.Spec.MoE.SharedGated && spec.Mixture() {
					limit = 0.3 // the gate is taken as given
				}
				step := 1.0 / 512
				if spec.Kind == model.Attention && l.Spec.Recurs(spec.Layer) {
					step /= 4 // small results are normalized, so that slopes soon change
				}
				if l.Spec.MLP.Act == device.ReLU && !l.Spec.MLP.Squared {
					step /= 16 // slopes change at kinks: fewer are passed
				}
				f.check(t, g, limit, step)
				d.Upload(s.At(model.Stream), tensor.BytesOf(f.x))
				m.Forward(s)
			}
		})
	}
}

func (f *forthAndBack) check(t *testing.T, g *model.State, limit, step float64) {
	r := rand.New(rand.NewPCG(1, 2))
	square := 0.0
	for _, v := range f.x {
		square += float64(v) * float64(v)
	}
	rms := math.Sqrt(square / float64(len(f.x)))
	result := f.s.At(f.out())
	weights := normal(r, result.Rows*result.Cols, 1)
	grad := f.back(g, weights)
	if f.m.Mixture() { // whose choice is taken as given
		f.s.Follow(f.s)
		defer f.s.Follow(nil)
	}
	for range 3 {
		dir := normal(r, len(f.x), rms)
		want, size := 0.0, 0.0
		for i, v := range grad {
			want += float64(v) * float64(dir[i])
			size += float64(v) * float64(v)
		}
		got := (f.along(dir, weights, step) - f.along(dir, weights, -step)) / (2 * step)
		if !(math.Abs(got-want) <= limit*math.Sqrt(size)*rms) {
			t.Errorf("%s: the slope is %v, the gradient says %v", f.m.Name, got, want)
		}
	}
}

// On the way back linears are told what they have read on the way forth, whatever stands there then.
func TestThroughReads(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			d, length := devtest.CPU(t), shape[1]
			l.Spec.SetContext(length)
			s := model.NewState(d, l.Spec, model.Size{Rows: len(ids), Logits: len(ids)}, model.NewCache(d, l.Spec, model.SharedCache(l.Spec, shape[0], length)))
			var runs []model.Run
			for q := range shape[0] {
				runs = append(runs, model.Run{Sequence: q})
			}
			s.Use(runs, length, ids)
			g := model.NewGradients(s, l.Spec, len(ids))
			for _, spec := range l.Layout {
				m, err := l.Load(d, spec)
				if err != nil {
					t.Fatal(err)
				}
				if spec.Kind == model.Embedding {
					m.Forward(s)
					continue
				}
				stream := get(d, s.At(model.Stream))
				read := map[*model.Linear][]float32{}
				for _, step := range m.Steps {
					step.Run(s)
					for i := range step.Sites {
						for _, linear := range step.Sites[i].Linears {
							read[linear] = dense(d, step.Sites[i].In(s))
						}
					}
					step.Multiply(s)
				}
				d.Upload(s.At(model.Stream), tensor.BytesOf(stream))
				m.BackwardThrough(s, g, nil, func(b device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
					model.PassBack(b, list, dx, dys, x)
					for _, linear := range list {
						near(t, linear.Name, dense(d, x), read[linear])
					}
				})
			}
		})
	}
}

// dense is get of what may have gaps between its rows.
func dense(d device.Device, x tensor.Tensor) []float32 {
	t := d.Alloc(x.Type, x.Rows, x.Cols)
	defer d.Free(t)
	d.Copy(t, x)
	return get(d, t)
}

// near complains where x is another than want.
func near(t *testing.T, name string, x, want []float32) {
	t.Helper()
	if len(x) != len(want) {
		t.Errorf("%s: %d numbers, want %d", name, len(x), len(want))
		return
	}
	for i, v := range x {
		if !(math.Abs(float64(v-want[i])) <= 1e-4*(1+math.Abs(float64(want[i])))) {
			t.Errorf("%s: element %d is %v on the way back, %v on the way forth", name, i, v, want[i])
			return
		}
	}
}
