package stream_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// A pinner is a device that reaches the host's memory, or has none left.
type pinner struct {
	*devtest.Counter
	none bool
}

func (p pinner) AllocHost(t tensor.Type, rows, cols int) (tensor.Tensor, bool) {
	if p.none {
		return tensor.Tensor{}, false
	}
	return p.Alloc(t, rows, cols), true
}

// places are where stores can be.
func places(t *testing.T, d device.Device) map[string]stream.Place {
	none := pinner{devtest.Counting(devtest.CPU(t)), true}
	return map[string]stream.Place{
		"in memory": {}, "on disk": {Folder: t.TempDir()}, "on the device": {Device: d}, "on disk, beside a device": {Device: d, Host: true, Folder: t.TempDir()},
		"in page-locked memory": {Device: d, Host: true}, "in memory, as none is page-locked": {Device: none, Host: true},
	}
}

func newStore(t *testing.T, rows, floats int, place stream.Place) *stream.Store {
	t.Helper()
	s, err := place.Store(rows, floats)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestStore(t *testing.T) {
	for name, place := range places(t, pinner{devtest.Counting(devtest.CPU(t)), false}) {
		t.Run(name, func(t *testing.T) {
			s := newStore(t, 3, 4, place)
			row := make([]float32, 4)
			if err := s.Read(row, 1); err != nil || !slices.Equal(row, []float32{0, 0, 0, 0}) {
				t.Errorf("a new row is %v, %v, want zeros", row, err)
			}
			if err := s.Write([]float32{1, 2, 3, 4, 5, 6, 7, 8}, 1); err != nil {
				t.Fatal(err)
			}
			all := make([]float32, 12)
			if err := s.Read(all, 0); err != nil || !slices.Equal(all, []float32{0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8}) {
				t.Errorf("rows are %v, %v", all, err)
			}
			if left, _ := filepath.Glob(filepath.Join(place.Folder, "*")); place.Folder != "" && len(left) > 0 {
				t.Errorf("%v is in the folder, where it stays if the process is killed", left)
			}
		})
	}
	if _, err := (stream.Place{Folder: filepath.Join(t.TempDir(), "nowhere")}).Store(1, 1); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a store in a folder that is not there: error %v", err)
	}
}

// Rows that go through the modules one by one, wherever they are kept meanwhile,
// end with the logits of whole passes, and everything is given back.
func TestPass(t *testing.T) {
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", "llama"))
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	const rows, length = 3, 300 // logits come in two parts
	tokens := make([][]int32, rows)
	for i := range tokens {
		for k := range length {
			tokens[i] = append(tokens[i], int32((i*i*31+k*k*7+k)%l.Spec.Vocab))
		}
	}
	d := pinner{devtest.Counting(devtest.CPU(t)), false}
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	head, ctx := modules[len(modules)-1], context.Background()
	want := wholePasses(t, d, l, modules, tokens)
	for name, place := range places(t, d) {
		t.Run(name, func(t *testing.T) {
			p := stream.NewPass(d, l.Spec, length, 1)
			defer p.Free()
			x, y := newStore(t, rows, length*l.Spec.Hidden, place), newStore(t, rows, length*l.Spec.Hidden, place)
			if err := p.Embed(ctx, modules[0], tokens, x); err != nil {
				t.Fatal(err)
			}
			for _, m := range modules[1 : len(modules)-1] {
				if err := p.Forward(ctx, m, x, y); err != nil {
					t.Fatal(err)
				}
				x, y = y, x
			}
			err := p.Each(ctx, x, func(lane *stream.Lane, row int) error {
				return lane.State.EachLogits([]*model.Module{head}, 0, length, func(first int, logits [][]float32) error {
					for i, got := range logits {
						if !slices.Equal(got, want[row][first+i]) {
							t.Errorf("row %d, position %d: other logits", row, first+i)
						}
					}
					return nil
				})
			})
			if err != nil {
				t.Error(err)
			}
			stopped, stop := context.WithCancel(ctx)
			stop()
			if err := p.Forward(stopped, modules[1], x, y); !errors.Is(err, context.Canceled) {
				t.Errorf("after cancelling: error %v", err)
			}
		})
	}
	for _, m := range modules {
		m.Free()
	}
	if live := d.Live(); len(live) > 0 || d.Faults() != nil {
		t.Errorf("not freed: %q; %v", live, d.Faults())
	}
}

// wholePasses returns the logits of rows, each run through all modules at once.
func wholePasses(t *testing.T, d device.Device, l *model.Loader, modules []*model.Module, tokens [][]int32) [][][]float32 {
	t.Helper()
	length := len(tokens[0])
	cache := model.NewCache(d, l.Spec, model.WholeCache(l.Spec, 1, length))
	defer cache.Free()
	s := model.NewState(d, l.Spec, model.Size{Rows: length, Logits: length}, cache)
	defer s.Free()
	var all [][][]float32
	for _, ids := range tokens {
		s.Use([]model.Run{{}}, length, ids)
		for _, m := range modules {
			m.Forward(s)
		}
		logits, err := s.Logits()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, logits)
	}
	return all
}
