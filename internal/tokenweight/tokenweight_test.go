package tokenweight

import (
	"context"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"exl2/internal/device/devtest"
	"exl2/internal/model"
)

const length = 16

func open(t *testing.T, name string, batch int) (*Weigher, *model.Loader) {
	t.Helper()
	l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", name))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	l.Spec.SetContext(length)
	d := devtest.CPU(t)
	w, err := New(d, l, l.On(d), batch, length)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w, l
}

func randomRows(n, vocab int) [][]int32 {
	r := rand.New(rand.NewPCG(1, 2))
	rows := make([][]int32, n)
	for i := range rows {
		for range length {
			rows[i] = append(rows[i], r.Int32N(int32(vocab)))
		}
	}
	return rows
}

func squares(t *testing.T, w *Weigher, rows [][]int32) map[string][]float64 {
	t.Helper()
	done := 0
	list, err := w.Squares(context.Background(), rows, 7, func(n int) { done = n })
	if err != nil {
		t.Fatal(err)
	}
	if done != len(rows) {
		t.Errorf("progress ends at %d rows of %d", done, len(rows))
	}
	return list
}

// Rows have the same norms however many go at once, at all sites that see all tokens.
func TestBatches(t *testing.T) {
	for _, c := range []struct {
		name  string
		sites int // of a layer
	}{{"llama", 4}, {"qwen2_moe", 0}, {"gemma2", 4}} {
		t.Run(c.name, func(t *testing.T) {
			one, l := open(t, c.name, 1)
			three, _ := open(t, c.name, 3)
			rows := randomRows(7, l.Spec.Vocab)
			a, b := squares(t, one, rows), squares(t, three, rows)
			if want := c.sites*l.Spec.Layers + 1; c.sites > 0 && len(a) != want {
				t.Errorf("%d sites, want %d", len(a), want)
			}
			for name, list := range a {
				if len(list) != len(rows)*length {
					t.Fatalf("%s: %d tokens", name, len(list))
				}
				for i, v := range list {
					if !(v >= 0) || math.Abs(v-b[name][i]) > 1e-4*v {
						t.Fatalf("%s: token %d has %v alone, %v beside others", name, i, v, b[name][i])
					}
				}
			}
		})
	}
}

// Behind the head the gradient is what the model says less the label that is drawn.
func TestHead(t *testing.T) {
	w, l := open(t, "llama", 1)
	rows := randomRows(1, l.Spec.Vocab)
	got := squares(t, w, rows)[w.head.Sites()[0].Linears[0].Name]
	c := model.NewCache(w.dev, l.Spec, model.WholeCache(l.Spec, 1, length))
	s := model.NewState(w.dev, l.Spec, model.Size{Rows: length, Logits: length}, c)
	s.Use([]model.Run{{}}, length, rows[0])
	for _, m := range slices.Concat([]*model.Module{w.embed}, w.layers, []*model.Module{w.head}) {
		m.Forward(s)
	}
	logits, err := s.Logits()
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(7, 0))
	for i, row := range logits {
		total := 0.0
		for _, x := range row {
			total += math.Exp(float64(x))
		}
		at, sum, label := float64(random.Float32()), 0.0, -1
		for j, x := range row {
			if sum += math.Exp(float64(x)) / total; label < 0 && sum > at {
				label = j
			}
		}
		want := 0.0
		for j, x := range row {
			g := math.Exp(float64(x)) / total
			if j == label {
				g--
			}
			want += g * g
		}
		if math.Abs(got[i]-want) > 1e-4*want {
			t.Errorf("token %d: %v, want %v", i, got[i], want)
		}
	}
}

// Weights rise with gradients, no one much above the others, and their mean is 1.
func TestRoots(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		list := rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 50).Draw(t, "squares")
		power := rapid.SampledFrom([]float64{0.25, 0.5, 1}).Draw(t, "power")
		roots, mean := Roots(slices.Clone(list), power), 0.0
		for i, r := range roots {
			mean += float64(r) * float64(r) / float64(len(roots))
			for j := range i {
				if list[i] > list[j] && r < roots[j] {
					t.Fatalf("%v weighs %v, %v weighs %v", list[i], r, list[j], roots[j])
				}
			}
		}
		if math.Abs(mean-1) > 1e-5 {
			t.Fatalf("mean weight %v of %v", mean, list)
		}
	})
}

// What it will take is known before, about, and all of it is given back.
func TestMemory(t *testing.T) {
	for _, name := range []string{"llama", "qwen2_moe", "gpt2"} {
		t.Run(name, func(t *testing.T) {
			l, files, err := model.Open(filepath.Join("..", "..", "testdata", "golden", "arch", name))
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			l.Spec.SetContext(length)
			d := devtest.Counting(devtest.CPU(t))
			w, err := New(d, l, l.On(d), 4, length)
			if err != nil {
				t.Fatal(err)
			}
			weights := 0
			for _, m := range slices.Concat([]*model.Module{w.embed, w.head}, w.layers) {
				weights += m.Bytes()
			}
			squares(t, w, randomRows(5, l.Spec.Vocab))
			if want, got := weights+Bytes(d, l, 4, length), d.Peak(); got > want+want/10 || got < want/2 {
				t.Errorf("%d bytes taken, %d planned", got, want)
			}
			w.Close()
			if d.Bytes() != 0 || d.Faults() != nil {
				t.Errorf("%d bytes are left: %v, %v", d.Bytes(), d.Live(), d.Faults())
			}
		})
	}
}
