package sensitivity

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/score"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// measurer walks a golden model to the head and back, and returns sensitivities.
func measurer(t *testing.T, name string, rows, length int) (*Measurer, []*model.Module, map[string]float64) {
	t.Helper()
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	ctx, d := context.Background(), devtest.CPU(t)
	m := &Measurer{Dev: d, Loader: l, Load: func(s model.ModuleSpec) (*model.Module, error) { return l.Load(d, s) }, Pass: stream.NewPass(d, l.Spec, length, 1), Warn: func(text string) { t.Log(text) }}
	tokens := make([][]int32, rows)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range tokens {
		m.Probes = append(m.Probes, i)
		for range length {
			tokens[i] = append(tokens[i], int32(r.IntN(l.Spec.Vocab)))
		}
	}
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	if m.Base, err = m.store(rows); err != nil {
		t.Fatal(err)
	}
	if err := m.Embed(ctx, modules[0], tokens); err != nil {
		t.Fatal(err)
	}
	for _, spec := range l.Decoder() {
		if err := m.Advance(ctx, spec); err != nil {
			t.Fatal(err)
		}
	}
	kept := append([]*stream.Store(nil), m.Inputs...)
	if err := m.Head(ctx); err != nil {
		t.Fatal(err)
	}
	all := map[string]float64{}
	for i := len(l.Layout) - 2; i > 0; i-- {
		found, err := m.Sensitivities(ctx, l.Layout[i])
		if err != nil {
			t.Fatal(err)
		}
		for k, v := range found {
			all[k] = v
		}
	}
	m.Inputs = kept[:1]
	return m, modules, all
}

// logits runs modules over the probe rows.
func logits(t *testing.T, m *Measurer, modules []*model.Module) []score.Row {
	t.Helper()
	parts := make([][]score.Row, m.Inputs[0].Rows)
	err := m.Pass.Each(context.Background(), m.Inputs[0], func(l *stream.Lane, row int) error {
		s, last := l.State, len(modules)-1
		for _, x := range modules[1:last] {
			x.Forward(s)
		}
		return s.EachLogits(modules[last:last+1], 0, m.Pass.Length, func(_ int, rows [][]float32) error {
			for _, r := range rows {
				parts[row] = append(parts[row], score.NewRow(append([]float32(nil), r...)))
			}
			return nil
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(parts...)
}

// disturbed returns a linear's weight with a little noise, and the error that makes.
func disturbed(d device.Quantize, l *model.Linear, h tensor.Tensor, r *rand.Rand) (model.Weight, float64) {
	w := l.W.(model.Dense).Tensor
	wide, change := d.Alloc(tensor.F32, w.Rows, w.Cols), d.Alloc(tensor.F32, w.Rows, w.Cols)
	d.Copy(wide, w)
	noise := make([]float32, w.Rows*w.Cols)
	for i := range noise {
		noise[i] = float32(r.NormFloat64() * 1e-3)
	}
	d.Upload(change, tensor.BytesOf(noise))
	s := quant.NewScalars(d, 2)
	at := s.Take(2)
	for i, x := range []tensor.Tensor{change, wide} {
		turned, product := d.Alloc(tensor.F32, w.Cols, w.Rows), d.Alloc(tensor.F32, w.Cols, w.Rows)
		d.TakeT(turned, x, tensor.Tensor{})
		d.SubtractProduct(product, h, turned)
		d.Dot(at.Columns(i, i+1), turned, product)
	}
	if s.Fetch() != nil {
		return nil, 0
	}
	d.AddScaled(wide, change, 1)
	return model.Dense{Tensor: wide}, s.Values(at)[0] / s.Values(at)[1]
}

// Sensitivities are what the divergence of the model's output says when one matrix
// alone is changed, a little.
func TestSensitivitiesAreDivergences(t *testing.T) {
	for _, name := range []string{"llama", "gemma2", "qwen3"} {
		t.Run(name, func(t *testing.T) {
			m, modules, found := measurer(t, name, 8, 64)
			reference := logits(t, m, modules)
			r := rand.New(rand.NewPCG(3, 4))
			var sum, squares float64
			n := 0
			for _, x := range modules[1 : len(modules)-1] {
				for _, site := range x.Sites() {
					h := m.Dev.Alloc(tensor.F32, site.Linears[0].In, site.Linears[0].In)
					gather(t, m, modules, x, site, h)
					for _, l := range site.Linears {
						kept := l.W
						w, e := disturbed(m.Dev, l, h, r)
						l.W = w
						kl := 0.0
						for i, q := range logits(t, m, modules) {
							kl += score.Divergence(reference[i], q) / float64(len(reference))
						}
						l.W = kept
						off := math.Log(found[l.Name] / (kl / e))
						sum, squares, n = sum+off, squares+off*off, n+1
						t.Logf("%s: %.3g, measured %.3g", l.Name, found[l.Name], kl/e)
					}
				}
			}
			mean := sum / float64(n)
			spread := math.Sqrt(squares/float64(n) - mean*mean)
			if !(math.Abs(mean) < 0.25 && spread < 0.35) {
				t.Errorf("logarithms are off by %.2f on average and spread by %.2f", mean, spread)
			}
		})
	}
}

// gather adds the moments of what a site reads, on the probe rows, to h.
func gather(t *testing.T, m *Measurer, modules []*model.Module, x *model.Module, site model.Site, h tensor.Tensor) {
	t.Helper()
	err := m.Pass.Waves(context.Background(), m.Inputs[0], func(w stream.Wave) error {
		for _, y := range modules[1:] {
			w.Do(y.Forward)
			if y == x {
				for _, l := range w.Lanes {
					m.Dev.Gram(h, site.In(l.State), site.In(l.State))
				}
				break
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
