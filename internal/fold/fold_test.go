package fold_test

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/fold"
	"exl2/internal/fold/foldtest"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/sampled"
	"exl2/internal/stream"
)

var tiny = filepath.Join("..", "..", "testdata", "models", "tiny")

// open opens the tiny model, with outliers if there are exponents.
func open(t *testing.T, exponents func(model.Fold) []int8) *model.Loader {
	t.Helper()
	dir := tiny
	if exponents != nil {
		dir = t.TempDir()
		if err := foldtest.Plant(tiny, dir, exponents); err != nil {
			t.Fatal(err)
		}
	}
	l, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	l.Spec.SetContext(length)
	return l
}

const rows, length = 12, 128

// prober returns what judges, by text as the tiny model writes it.
func prober(t *testing.T, d device.Quantize, l *model.Loader) (*fold.Prober, [][]int32) {
	t.Helper()
	s, err := sampled.New(d, l, l.On(d), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	tokens, err := s.Rows(context.Background(), sampled.Options{
		Rows: rows, Length: length, Seed: 1, Start: func(*rand.Rand) int32 { return 0 }, Special: func(id int32) bool { return id < 2 },
	})
	if err != nil {
		t.Fatal(err)
	}
	return &fold.Prober{
		Dev: d, Loader: l, Pass: stream.NewPass(d, l.Spec, length, 1), Damping: quant.Damping{Own: 0.2, Mean: 0.05},
		Load: func(s model.ModuleSpec) (*model.Module, error) { return l.Load(d, s) },
	}, tokens
}

// choose probes.
func choose(t *testing.T, d device.Quantize, l *model.Loader, candidates map[string]model.Folding) model.Folding {
	t.Helper()
	p, tokens := prober(t, d, l)
	defer p.Pass.Free()
	chosen, err := p.Choose(context.Background(), tokens, candidates, func(string, int, int) {})
	if err != nil {
		t.Fatal(err)
	}
	return chosen
}

// uneven finds the candidates of a model.
func uneven(t *testing.T, d device.Quantize, l *model.Loader) (byModule map[string]model.Folding, all model.Folding) {
	t.Helper()
	byModule, all = map[string]model.Folding{}, model.Folding{}
	for _, spec := range l.Layout {
		m, err := l.Load(d, spec)
		if err != nil {
			t.Fatal(err)
		}
		f, err := fold.Uneven(d, l, m)
		if err != nil {
			t.Fatal(err)
		}
		m.Free()
		if byModule[spec.Name] = f; len(f) == 0 {
			delete(byModule, spec.Name)
		}
		for name, e := range f {
			all[name] = e
		}
	}
	return byModule, all
}

// A model without outliers is left as it is, without probing.
func TestEvenModel(t *testing.T) {
	if list, _ := uneven(t, devtest.CPU(t), open(t, nil)); len(list) > 0 {
		t.Errorf("uneven: %v", list)
	}
}

// Outliers that were planted are found, by what undoes them, and pay.
func TestPlanted(t *testing.T) {
	d, l := devtest.CPU(t), open(t, foldtest.Everywhere)
	list, all := uneven(t, d, l)
	for _, m := range l.Layout {
		for _, place := range m.Folds(l.Spec) {
			e := all[place.Name]
			if e == nil {
				t.Errorf("%s is not uneven", place.Name)
				continue
			}
			for i, v := range e {
				want := int8(0)
				if i%32 == 0 {
					want = 4
				}
				if v < want-1 || v > want+1 { // what the model has of its own is rounded
					t.Errorf("%s: exponent %d of channel %d, want %d", place.Name, v, i, want)
				}
			}
		}
	}
	if chosen := choose(t, d, l, list); len(chosen) != len(all) {
		t.Errorf("%d of %d places chosen", len(chosen), len(all))
	}
}

// What does harm is not chosen.
func TestHarm(t *testing.T) {
	d, l := devtest.CPU(t), open(t, nil)
	list := map[string]model.Folding{}
	for _, m := range l.Layout[1:] {
		f := model.Folding{}
		for _, place := range m.Folds(l.Spec) {
			f[place.Name] = foldtest.Everywhere(place)
		}
		list[m.Name] = f
	}
	if chosen := choose(t, d, l, list); len(chosen) > 0 {
		t.Errorf("chosen: %v", chosen)
	}
}

// A norm's weights stay numbers that fp16 holds to its full precision.
func TestNormsStayNormal(t *testing.T) {
	d, l := devtest.CPU(t), open(t, func(f model.Fold) []int8 {
		if !f.Norm {
			return nil
		}
		return slices.Repeat([]int8{11, 0, -11, 0}, f.Channels/4)
	})
	_, all := uneven(t, d, l)
	if err := l.Fold(all); err != nil {
		t.Fatal(err)
	}
	for _, m := range l.Layout {
		for _, place := range m.Folds(l.Spec) {
			if !place.Norm {
				continue
			}
			x, err := l.Files.Get(place.Name + ".weight")
			if err != nil {
				t.Fatal(err)
			}
			for i := range place.Channels {
				bits := uint16(x.Data[2*i]) | uint16(x.Data[2*i+1])<<8
				if exponent := bits >> 10 & 31; bits&0x7fff != 0 && (exponent == 0 || exponent == 31) {
					t.Fatalf("%s: weight %d is %#x", place.Name, i, bits)
				}
			}
		}
	}
}

// A rotation does what scaling channels does, and nothing for a model without outliers.
func TestRotates(t *testing.T) {
	d := devtest.CPU(t)
	planted := open(t, foldtest.Norms)
	_, folds := uneven(t, d, planted)
	for name, c := range map[string]struct {
		l     *model.Loader
		folds model.Folding
		want  bool
	}{"plain": {open(t, nil), nil, false}, "planted": {planted, nil, true}, "planted, folded": {planted, folds, false}} {
		t.Run(name, func(t *testing.T) {
			p, tokens := prober(t, d, c.l)
			defer p.Pass.Free()
			got, err := p.Rotates(context.Background(), tokens, c.folds, func(string) {})
			if err != nil || got != c.want {
				t.Errorf("%v, %v, want %v", got, err, c.want)
			}
		})
	}
}

// The channels of the stream differ by what is written to it.
func TestStream(t *testing.T) {
	d, dir := devtest.CPU(t), t.TempDir()
	if err := foldtest.PlantStream(tiny, dir, 1); err != nil {
		t.Fatal(err)
	}
	turned, files, err := model.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	most := func(l *model.Loader) float64 {
		all := 0.0
		for _, spec := range l.Layout {
			m, err := l.Load(d, spec)
			if err != nil {
				t.Fatal(err)
			}
			octaves, err := fold.Stream(d, m)
			if err != nil {
				t.Fatal(err)
			}
			all = max(all, octaves)
			m.Free()
		}
		return all
	}
	before, after := most(open(t, nil)), most(turned)
	t.Logf("%.2f octaves, turned %.2f", before, after)
	if !(before < fold.StreamOutlier && after > before) {
		t.Errorf("%.2f octaves, turned %.2f", before, after)
	}
}
