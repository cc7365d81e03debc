package model_test

import (
	"math/rand/v2"
	"testing"

	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// everywhere folds all channels that can be by powers of two.
func everywhere(l *model.Loader, r *rand.Rand) model.Folding {
	f := model.Folding{}
	for _, m := range l.Layout {
		for _, p := range m.Folds(l.Spec) {
			e := make([]int8, p.Channels)
			for i := range e {
				e[i] = int8(r.IntN(7) - 3)
			}
			f[p.Name] = e
		}
	}
	return f
}

// Of every architecture, what is scaled here is divided there: logits stay.
func TestFoldingChangesNothing(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			want := logits(t, l, ids, shape[0], shape[1])
			f := everywhere(l, rand.New(rand.NewPCG(1, 2)))
			if err := l.Fold(f); err != nil {
				t.Fatal(err)
			}
			mean, most := difference(logits(t, l, ids, shape[0], shape[1]), want)
			t.Logf("%d places, mean difference %.2g, largest %.2g", len(f), mean, most)
			if !(most < 1e-4) {
				t.Errorf("logits differ by %v", most)
			}
		})
	}
}

// Of every architecture whose stream may be rotated, logits stay, folded or not.
func TestRotationChangesNothing(t *testing.T) {
	rotated := 0
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			if !l.Spec.Rotates() {
				t.Skip("not rotated")
			}
			l = model.NewLoader(l.Spec, widened{l.Files})
			want := logits(t, l, ids, shape[0], shape[1])
			if err := l.Fold(everywhere(l, rand.New(rand.NewPCG(1, 2)))); err != nil {
				t.Fatal(err)
			}
			if !l.Rotate() {
				t.Fatal("not rotated")
			}
			rotated++
			mean, most := difference(logits(t, l, ids, shape[0], shape[1]), want)
			t.Logf("mean difference %.2g, largest %.2g", mean, most)
			limit := 1e-4
			if l.Spec.Recurrent() {
				limit = 3e-4 // small results are normalized
			}
			if !(most < limit) {
				t.Errorf("logits differ by %v", most)
			}
		})
	}
	if rotated < 10 {
		t.Errorf("%d architectures are rotated", rotated)
	}
}

// widened shows files with F32 in the place of F16 and BF16.
type widened struct{ model.Files }

func (w widened) Info(name string) (safetensors.Info, bool) {
	info, ok := w.Files.Info(name)
	info.DType = safetensors.F32
	return info, ok
}

func (w widened) Get(name string) (safetensors.Tensor, error) {
	x, err := w.Files.Get(name)
	kind, ok := map[string]tensor.Type{safetensors.F16: tensor.F16, safetensors.BF16: tensor.BF16}[x.DType]
	if ok {
		x.Data, x.DType = tensor.BytesOf(tensor.Widen(kind, x.Data)), safetensors.F32
	}
	return x, err
}
