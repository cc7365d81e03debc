package model_test

import (
	"math/rand/v2"
	"testing"

	"exl2/internal/goldens"
	"exl2/internal/model"
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
