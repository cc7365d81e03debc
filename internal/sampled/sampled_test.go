package sampled

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/device/devtest"
	"exl2/internal/model"
)

func open(t testing.TB, name string) *Sampler {
	t.Helper()
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	l.Spec.SetContext(32)
	d := devtest.CPU(t)
	s, err := New(d, l, l.On(d), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func start(*rand.Rand) int32 { return 0 }
func special(id int32) bool  { return id < 3 }

// Rows have what is asked for, no special tokens, and are the same every time,
// however many there are.
func TestRows(t *testing.T) {
	for _, name := range []string{"llama", "qwen2_moe", "gpt2", "deepseek_v3"} {
		t.Run(name, func(t *testing.T) {
			s := open(t, name)
			o := Options{Rows: 70, Length: 16, Seed: 5, Start: start, Special: special}
			shares := 0
			o.Progress = func(share float64) { shares++ }
			rows, err := s.Rows(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(rows) != o.Rows || shares < 16 {
				t.Fatalf("%d rows, progress %d times", len(rows), shares)
			}
			for i, row := range rows {
				if len(row) != o.Length || slices.ContainsFunc(row, special) {
					t.Errorf("row %d is %v", i, row)
				}
			}
			o.Rows = 3
			few, err := s.Rows(context.Background(), o)
			if err != nil {
				t.Fatal(err)
			}
			for i := range few {
				if !slices.Equal(few[i], rows[i]) {
					t.Errorf("row %d of a few is %v, of many %v", i, few[i], rows[i])
				}
			}
		})
	}
}

// Rows are kept while others are not done, and from any of those that were kept on the rest
// is the same.
func TestKept(t *testing.T) {
	s := open(t, "llama")
	o := Options{Rows: 2*mostOnCPU + 5, Length: 4, Seed: 5, Start: start, Special: special}
	var kept [][][]int32
	o.Keep = func(rows [][]int32) error { kept = append(kept, slices.Clone(rows)); return nil }
	want, err := s.Rows(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 2 || len(kept[0]) != mostOnCPU || len(kept[1]) != 2*mostOnCPU {
		t.Fatalf("kept %d times", len(kept))
	}
	for _, first := range kept {
		o.Kept, o.Keep = first, nil
		steps := 0
		o.Progress = func(share float64) {
			if steps++; share < float64(len(first))/float64(o.Rows) {
				t.Errorf("behind %d rows a share of %v is done", len(first), share)
			}
		}
		got, err := s.Rows(context.Background(), o)
		if err != nil {
			t.Fatal(err)
		}
		if !slices.EqualFunc(got, want, slices.Equal) {
			t.Errorf("behind %d rows others follow", len(first))
		}
	}
	full := errors.New("the disk is full")
	o.Kept, o.Progress, o.Keep = nil, nil, func([][]int32) error { return full }
	if _, err := s.Rows(context.Background(), o); err != full {
		t.Errorf("error %v, want that of Keep", err)
	}
}

// Tokens come as often as the model says: the first after the start token.
func TestFrequencies(t *testing.T) {
	s := open(t, "llama")
	const n = 4000
	rows, err := s.Rows(context.Background(), Options{Rows: n, Length: 1, Seed: 1, Start: start, Special: func(int32) bool { return false }})
	if err != nil {
		t.Fatal(err)
	}
	seen := map[int32]float64{}
	for _, r := range rows {
		seen[r[0]]++
	}
	c := model.NewCache(s.dev, s.loader.Spec, model.WholeCache(s.loader.Spec, 1, 1))
	state := model.NewState(s.dev, s.loader.Spec, model.Size{Rows: 1, Logits: 1}, c)
	state.Use([]model.Run{{}}, 1, []int32{0})
	for _, m := range s.modules {
		m.Forward(state)
	}
	logits, err := state.Logits()
	if err != nil {
		t.Fatal(err)
	}
	total := 0.0
	for _, x := range logits[0] {
		total += math.Exp(float64(x))
	}
	for id, x := range logits[0] {
		p := math.Exp(float64(x)) / total
		if got, sigma := seen[int32(id)], math.Sqrt(n*p); math.Abs(got-n*p) > 5*sigma+1 {
			t.Errorf("token %d was drawn %v times of %d, want %.1f", id, got, n, n*p)
		}
	}
}

// A text that ends begins another one: the row goes on.
func TestTextsEnd(t *testing.T) {
	s := open(t, "llama")
	often := func(id int32) bool { return id%2 == 0 }
	rows, err := s.Rows(context.Background(), Options{Rows: 5, Length: 20, Seed: 2, Start: start, Special: often})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if len(row) != 20 || slices.ContainsFunc(row, often) {
			t.Errorf("row %v", row)
		}
	}
}

// A model that ends its texts at once, or after a token or two, is given up: the longer
// rows are, the sooner.
func TestShort(t *testing.T) {
	s := open(t, "llama")
	for name, o := range map[string]Options{
		"at once":       {Rows: 1, Length: 4, Start: start, Special: func(int32) bool { return true }},
		"after two":     {Rows: 3, Length: 2000, Start: start, Special: func(id int32) bool { return id%3 == 0 }},
		"never a token": {Rows: 1, Length: 4, Start: start, Special: special, Unused: func(int32) bool { return true }},
	} {
		steps := 0
		o.Progress = func(float64) { steps++ }
		if _, err := s.Rows(context.Background(), o); !errors.Is(err, ErrShort) || steps > 300 {
			t.Errorf("%s: %v after %d steps", name, err, steps)
		}
	}
}

// Columns behind the vocabulary are never drawn, and ids that are no tokens are drawn
// again: neither ends a text.
func TestPadding(t *testing.T) {
	s := open(t, "llama")
	odd := func(id int32) bool { return id%2 == 1 }
	seen := map[int32]bool{}
	o := Options{Rows: 8, Length: 30, Seed: 2, Vocab: 50, Start: start, Unused: odd, Special: func(id int32) bool {
		seen[id] = true
		return false
	}}
	rows, err := s.Rows(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if len(row) != 30 || slices.ContainsFunc(row, odd) || slices.Max(row) >= 50 {
			t.Errorf("row %v", row)
		}
	}
	for id := range seen {
		if odd(id) || id >= 50 {
			t.Errorf("%d was asked about", id)
		}
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := open(t, "llama").Rows(ctx, Options{Rows: 1, Length: 4, Start: start, Special: special}); err != context.Canceled {
		t.Errorf("%v", err)
	}
}
