package model_test

import (
	"fmt"
	"strings"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// What a state, its gradients and a cache allocate is what is said before, and
// everything is given back.
func TestBytes(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, _ := open(t, dir)
			d := devtest.Counting(devtest.CPU(t))
			for _, c := range []struct {
				size  model.Size
				cache model.CacheSize
			}{
				{model.Size{Rows: 1, Logits: 1}, model.WholeCache(l.Spec, 1, 1)},
				{model.Size{Rows: 64}, model.SharedCache(l.Spec, 1, 64)},
				{model.Size{Rows: 33, Logits: 7}, model.WholeCache(l.Spec, 3, 600)},
			} {
				cache := model.NewCache(d, l.Spec, c.cache)
				if want := model.CacheBytes(d, l.Spec, c.cache); d.Bytes() != want {
					t.Errorf("cache %+v: %d bytes, want %d", c.cache, d.Bytes(), want)
				}
				before := d.Bytes()
				s := model.NewState(d, l.Spec, c.size, cache)
				if want := model.Bytes(l.Spec, c.size, d.Activation()); d.Bytes()-before != want {
					t.Errorf("state %+v: %d bytes, want %d", c.size, d.Bytes()-before, want)
				}
				model.NewGradients(s, l.Spec, c.size.Rows).Free()
				s.Free()
				cache.Free()
				mustBeFree(t, d)
			}
		})
	}
}

// Modules give back what loading them has taken, also if one cannot be loaded.
func TestModulesAreFreed(t *testing.T) {
	for _, dir := range append(goldens.Dirs(t, "arch"), goldens.Dirs(t, "exl2")...) {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, _ := open(t, dir)
			d := devtest.Counting(devtest.CPU(t))
			list, err := l.LoadAll(d)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range list {
				m.Free()
			}
			mustBeFree(t, d)
			files := l.Files
			for _, missing := range l.Decoder()[1].Linears {
				if l.Fused(missing.Name + ".weight") {
					continue
				}
				l.Use(without{files, missing.Name})
				if _, err := l.LoadAll(d); err == nil {
					t.Errorf("%s is missing: no error", missing.Name)
				}
				mustBeFree(t, d)
			}
		})
	}
}

// without is files without the tensors of one linear.
type without struct {
	model.Files
	linear string
}

func (w without) Has(name string) bool {
	return !strings.HasPrefix(name, w.linear+".") && w.Files.Has(name)
}

func (w without) Get(name string) (safetensors.Tensor, error) {
	if strings.HasPrefix(name, w.linear+".") {
		return safetensors.Tensor{}, fmt.Errorf("no tensor %s", name)
	}
	return w.Files.Get(name)
}

func mustBeFree(t *testing.T, d *devtest.Counter) {
	t.Helper()
	if live := d.Live(); len(live) > 0 || d.Faults() != nil {
		t.Errorf("not freed: %q; %v", live, d.Faults())
	}
}
