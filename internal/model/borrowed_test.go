package model_test

import (
	"fmt"
	"strings"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/synth/synthtest"
)

// Layers of one cache that attend to the same keys and values have them there once; in another cache, that of another device, the first of them
// stores them once more. Logits are the same wherever the layers are divided.
func TestBorrowed(t *testing.T) {
	six := strings.NewReplacer(`"num_hidden_layers":4`, `"num_hidden_layers":6`, `"num_kv_shared_layers":2`, `"num_kv_shared_layers":4`, `"sliding_window":16`, `"sliding_window":4`,
		`"layer_types":[`, `"layer_types":["sliding_attention","full_attention",`) // of which four attend to keys and values of the first two
	dir := synthtest.Write(t, map[string]string{"lent": six.Replace(synthtest.Sums["gemma4_lent_packed"])}, 0)[0]
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	ids := []int32{3, 1, 4, 1, 5, 9, 2, 6}
	l.Spec.SetContext(len(ids))
	d := devtest.CPU(t)
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	model.Follow(modules...)
	kept := func(from, to int) (layers int) {
		for _, k := range model.CacheOf(l.Spec, from, to, 1, len(ids)).Kinds {
			layers += k.Layers
		}
		return layers
	}
	want := steps(t, l, devtest.CPU(t), ids)
	for _, c := range []struct{ at, before, behind int }{{1, 1, 2}, {2, 2, 2}, {3, 2, 2}, {5, 2, 1}} {
		t.Run(fmt.Sprint("divided at ", c.at), func(t *testing.T) {
			if before, behind := kept(0, c.at), kept(c.at, l.Spec.Layers); before != c.before || behind != c.behind {
				t.Errorf("%d and %d layers have keys and values, want %d and %d", before, behind, c.before, c.behind)
			}
			var halves [2]*model.State
			for i, part := range [][2]int{{0, c.at}, {c.at, l.Spec.Layers}} {
				cache := model.NewCache(d, l.Spec, model.CacheOf(l.Spec, part[0], part[1], 1, len(ids)))
				halves[i] = model.NewState(d, l.Spec, model.Size{Rows: 4, Logits: 4}, cache)
			}
			var first, second []*model.Module
			for _, m := range modules {
				if m.Kind == model.Embedding || m.Kind != model.Head && m.Layer < c.at {
					first = append(first, m)
				} else {
					second = append(second, m)
				}
			}
			var got []float32
			for at, n := 0, 4; at < len(ids); at, n = at+n, 1 { // a prompt, and steps
				for _, s := range halves {
					s.Use([]model.Run{{Position: at}}, n, ids[at:at+n])
				}
				for _, m := range first {
					m.Forward(halves[0])
				}
				d.Copy(halves[1].At(model.Stream), halves[0].At(model.Stream))
				for _, m := range second {
					m.Forward(halves[1])
				}
				logits, err := halves[1].Logits()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, logits[len(logits)-1]...)
			}
			if _, most := difference(got, want[3*l.Spec.Vocab:]); !(most <= 1e-5) {
				t.Errorf("logits differ by %.2g", most)
			}
		})
	}
}
