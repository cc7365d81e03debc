package model_test

import (
	"math/rand/v2"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/exl2"
	"exl2/internal/goldens"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/tensor"
)

// A mixture at once is its steps one after another, to the bit, whether experts are all
// dense or some packed, and neither waits.
func TestWhole(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			if l.Spec.MoE.Experts == 0 {
				t.Skip("no experts")
			}
			ids, shape := ints(t, golden, "input_ids")
			d := devtest.CPU(t)
			c := model.NewCache(d, l.Spec, model.SharedCache(l.Spec, shape[0], shape[1]))
			s := model.NewState(d, l.Spec, model.Size{Rows: len(ids), Logits: 1}, c)
			s.Use(make([]model.Run, 1), 5, ids[:5])
			for _, spec := range l.Decoder() {
				if !spec.Mixture() {
					continue
				}
				m, err := l.Load(d, spec)
				if err != nil {
					t.Fatal(err)
				}
				sameAtOnce(t, m, s)
				packSome(m, d)
				sameAtOnce(t, m, s)
				m.Free()
			}
		})
	}
}

func sameAtOnce(t *testing.T, m *model.Module, s *model.State) {
	t.Helper()
	stream := s.At(model.Stream)
	x := normal(rand.New(rand.NewPCG(1, 2)), stream.Rows*stream.Cols, 1)
	var results [2][]float32
	for i, run := range []func(*model.State){m.Forward, stepByStep(m)} {
		s.Dev.Upload(stream, tensor.BytesOf(x))
		run(s)
		results[i] = get(s.Dev, stream)
	}
	if !slices.Equal(results[0], results[1]) {
		t.Errorf("%s: other results at once than step by step", m.Name)
	}
	if m.Waits() {
		t.Errorf("%s waits", m.Name)
	}
}

// packSome replaces every third matrix of experts that can be packed by one without
// meaning.
func packSome(m *model.Module, d device.Device) {
	for i, s := range m.Sites() {
		for k, l := range s.Linears {
			if !s.Routed || !l.Packable() || (i+k)%3 > 0 {
				continue
			}
			groups := exl2.Uniform(4, 32).Groups(l.In)
			q := &exl2.Quantized{In: l.In, Out: exl2.Pad(l.Out), Groups: groups, Codes: make([]uint8, l.In*exl2.Pad(l.Out))}
			q.Scales = make([]uint8, len(groups)*q.Out)
			for j := range q.Codes {
				q.Codes[j] = uint8(j * (j + i) % 16)
			}
			for range groups {
				q.ScaleMax = append(q.ScaleMax, half.ToF16(0.02))
			}
			for j := range q.In {
				q.Perm = append(q.Perm, int32(j))
			}
			l.Replace(d, model.Quantized{Matrix: d.LoadEXL2(q.Pack(), l.Out)})
		}
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
