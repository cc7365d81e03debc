package model_test

import (
	"slices"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/model"
)

// The last step of a chained module alone changes the stream: conversions go through the others
// more than once.
func TestChained(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			d := devtest.CPU(t)
			c := model.NewCache(d, l.Spec, model.SharedCache(l.Spec, 1, shape[1]))
			s := model.NewState(d, l.Spec, model.Size{Rows: shape[1], Logits: 1}, c)
			s.Use(make([]model.Run, 1), shape[1], ids[:shape[1]])
			for _, spec := range l.Layout[:len(l.Layout)-1] {
				m, err := l.Load(d, spec)
				if err != nil {
					t.Fatal(err)
				}
				before := get(d, s.At(model.Stream))
				for i := range m.Steps {
					if m.Chained && i > 0 && !slices.Equal(get(d, s.At(model.Stream)), before) {
						t.Fatalf("%s: step %d changes the stream", m.Name, i-1)
					}
					m.Steps[i].Run(s)
					m.Steps[i].Multiply(s)
				}
				m.Free()
			}
		})
	}
}
