package model_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A mixture at once is its steps one after another, to the bit.
func TestWhole(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			if l.Spec.MoE.Experts == 0 {
				t.Skip("no experts")
			}
			ids, shape := ints(t, golden, "input_ids")
			d := devtest.CPU(t)
			c := model.NewCache(d, l.Spec, model.CacheSize{Layers: 1, Sequences: shape[0], Positions: shape[1]})
			s := model.NewState(d, l.Spec, model.Size{Rows: len(ids), Logits: 1}, c)
			s.Use(make([]model.Run, 1), 5, ids[:5])
			for _, spec := range l.Decoder() {
				if spec.Kind != model.Experts {
					continue
				}
				m, err := l.Load(d, spec)
				if err != nil {
					t.Fatal(err)
				}
				x := normal(rand.New(rand.NewPCG(1, 2)), 5*l.Spec.Hidden, 1)
				var results [2][]float32
				for i, run := range []func(*model.State){m.Forward, stepByStep(m)} {
					d.Upload(s.At(model.Stream), tensor.BytesOf(x))
					run(s)
					results[i] = get(d, s.At(model.Stream))
				}
				if !slices.Equal(results[0], results[1]) {
					t.Errorf("%s: other results at once than step by step", m.Name)
				}
				m.Free()
			}
		})
	}
}

func stepByStep(m *model.Module) func(*model.State) {
	return func(s *model.State) {
		for i := range m.Steps {
			m.Steps[i].Run(s)
			m.Steps[i].Multiply(s)
		}
	}
}
