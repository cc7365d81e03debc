package synth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/half"
	"exl2/internal/machine"
	"exl2/internal/model"
)

// small is a shape with everything in it: biases, padding, a short last group.
const small = `{"architectures":["Qwen2ForCausalLM"],"hidden_size":96,"intermediate_size":160,"num_hidden_layers":2,
"num_attention_heads":6,"num_key_value_heads":2,"vocab_size":250,"tie_word_embeddings":false}`

func newModel(t testing.TB, seed uint64, bits float64) *Model {
	t.Helper()
	s, err := FromConfig("config.json", []byte(small))
	if err != nil {
		t.Fatal(err)
	}
	m, err := New(s, seed, bits)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A model that no machine has room for is refused before anything is written.
func TestNoRoom(t *testing.T) {
	if _, known := machine.FreeMemory(); !known {
		t.Skip("the system does not tell what is free")
	}
	ended, end := context.WithCancel(t.Context()) // should a disk have 20 TB
	end()
	for name, c := range map[string]struct {
		sizes *strings.Replacer
		want  string
	}{
		"a tensor beyond memory": {strings.NewReplacer(`"hidden_size":96`, `"hidden_size":16777212`), "out of memory: config.json: model.layers.0.self_attn.q_proj.weight takes 5629"},
		"a model beyond disks":   {strings.NewReplacer(`"hidden_size":96`, `"hidden_size":12288`, `e_size":160`, `e_size":65536`, `layers":2`, `layers":4096`), "out of disk: config.json takes 2"},
	} {
		s, err := FromConfig("config.json", []byte(c.sizes.Replace(small)))
		if err != nil {
			t.Fatal(err)
		}
		m, err := New(s, 1, 0)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "model")
		if err := m.Write(ended, dir, "", func(string) {}); err == nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: have %v, want %s", name, err, c.want)
		}
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a folder is there: %v", name, err)
		}
	}
}

// A random model loads and runs, from memory and from files, and is the same
// from both.
func TestModelsRun(t *testing.T) {
	for _, bits := range []float64{0, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 8} {
		m := newModel(t, 1, bits)
		dir := filepath.Join(t.TempDir(), "model")
		if err := m.Write(t.Context(), dir, "", func(string) {}); err != nil {
			t.Fatal(err)
		}
		l, files, err := model.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		a, b := logits(t, model.NewLoader(m.Spec, m)), logits(t, l)
		files.Close()
		if !slices.Equal(a, b) {
			t.Errorf("%v bits: logits differ", bits)
		}
		for _, v := range a {
			if v != v || math.Abs(float64(v)) > 100 {
				t.Fatalf("%v bits: logit %v", bits, v)
			}
		}
	}
}

// logits runs a model over a few tokens.
func logits(t testing.TB, l *model.Loader) []float32 {
	t.Helper()
	d := devtest.CPU(t)
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	c := model.NewCache(d, l.Spec, model.WholeCache(l.Spec, 1, 4))
	s := model.NewState(d, l.Spec, model.Size{Rows: 4, Logits: 4}, c)
	s.Use([]model.Run{{}}, 4, []int32{3, 100, 7, 249})
	for _, m := range modules {
		m.Forward(s)
	}
	rows, err := s.Logits()
	if err != nil {
		t.Fatal(err)
	}
	return slices.Concat(rows...)
}

// The same seed gives the same bytes on any number of cores, another seed
// others.
func TestSeeds(t *testing.T) {
	first := bytesOfAll(t, newModel(t, 7, 4.5))
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if got := bytesOfAll(t, newModel(t, 7, 4.5)); !slices.Equal(got, first) {
		t.Error("the same seed gave other bytes")
	}
	if got := bytesOfAll(t, newModel(t, 8, 4.5)); slices.Equal(got, first) {
		t.Error("another seed gave the same bytes")
	}
}

func bytesOfAll(t testing.TB, m *Model) []byte {
	t.Helper()
	var all []byte
	for _, i := range m.Infos() {
		x, err := m.Get(i.Name)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, x.Data...)
	}
	return all
}

// Weights have the deviation that they should have, in fp16 and in EXL2.
func TestDeviation(t *testing.T) {
	for _, bits := range []float64{0, 2, 3, 4, 5, 6, 8} {
		m := newModel(t, 1, bits)
		var weights []half.F16
		if bits == 0 {
			x, err := m.Get("model.layers.0.mlp.up_proj.weight")
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < len(x.Data); i += 2 {
				weights = append(weights, half.F16(uint16(x.Data[i])|uint16(x.Data[i+1])<<8))
			}
		} else {
			q, err := model.ReadMatrix(m, "model.layers.0.mlp.up_proj")
			if err != nil {
				t.Fatal(err)
			}
			weights = q.Decode()
		}
		sum := 0.0
		for _, w := range weights {
			sum += float64(w.Float32()) * float64(w.Float32())
		}
		if got := math.Sqrt(sum / float64(len(weights))); got < deviation/3 || got > deviation*3 {
			t.Errorf("%v bits: deviation %v, want about %v", bits, got, deviation)
		}
	}
}

// Every known shape is a configuration that is understood or refused by name.
func TestKnownShapes(t *testing.T) {
	for _, name := range Names() {
		s, err := Known(name)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := s.spec()
		switch {
		case name == "mixtral-8x7b" || name == "qwen3-30b-a3b":
			if err == nil && !slices.ContainsFunc(arch.Known(), func(e arch.Entry) bool { return e.Name == spec.Arch }) {
				t.Errorf("%s: neither known nor refused", name)
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		}
	}
	for text, want := range map[string]bool{"llama2-7b@4.0": true, "llama2-7b@2.5": true, "llama2-7b": false, "x@4": false, "llama2-7b@4.2": false, "llama2-7b@7": false, "llama2-7b@4.0x": false} {
		if _, _, err := Parse(text); (err == nil) != want {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// A random model of every golden architecture loads.
func TestArchitecturesLoad(t *testing.T) {
	for _, golden := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(golden), func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join(golden, "config.json"))
			if err != nil {
				t.Fatal(err)
			}
			s, err := FromConfig("config.json", data)
			if err != nil {
				t.Fatal(err)
			}
			m, err := New(s, 1, 0)
			if err != nil {
				t.Fatal(err)
			}
			dir := filepath.Join(t.TempDir(), "model")
			if err := m.Write(t.Context(), dir, "", func(string) {}); err != nil {
				t.Fatal(err)
			}
			l, files, err := model.Open(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer files.Close()
			modules, err := l.LoadAll(devtest.CPU(t))
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range modules {
				m.Free()
			}
		})
	}
}

// Files that are in the way are named, and stay; folders may have any name.
func TestWriteKeepsWhatIsThere(t *testing.T) {
	tokenizer := filepath.Join(t.TempDir(), "[tokenizer")
	if err := os.Mkdir(tokenizer, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(tokenizer, "tokenizer.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"model.safetensors", "config.json", "tokenizer.json"} {
		dir := filepath.Join(t.TempDir(), "a[b")
		if err := os.Mkdir(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("mine"), 0o666); err != nil {
			t.Fatal(err)
		}
		if err := newModel(t, 1, 0).Write(t.Context(), dir, tokenizer, func(string) {}); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: error %v", name, err)
		}
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != "mine" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
		if left := entries(t, dir); len(left) != 1 {
			t.Errorf("%s: %v beside it", name, left)
		}
	}
}

// A model that is not written to its end leaves nothing.
func TestWriteInterrupted(t *testing.T) {
	dir, tokenizer := filepath.Join(t.TempDir(), "model"), t.TempDir()
	if err := os.WriteFile(filepath.Join(tokenizer, "tokenizer.json"), []byte("{}"), 0o666); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := newModel(t, 1, 0).Write(ctx, dir, tokenizer, func(string) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder is left: %v", err)
	}
}

// entries lists a folder.
func entries(t *testing.T, dir string) []os.DirEntry {
	t.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// What EXL2 cannot hold is refused by name, and written as fp16.
func TestUnpackable(t *testing.T) {
	odd := strings.Replace(small, `"intermediate_size":160`, `"intermediate_size":150`, 1)
	s, err := FromConfig("config.json", []byte(odd))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(s, 1, 4); err == nil || !strings.Contains(err.Error(), "model.layers.0.mlp.down_proj has 150 inputs; EXL2 needs a multiple of 32") {
		t.Errorf("error %v", err)
	}
	if _, err := New(s, 1, 0); err != nil {
		t.Errorf("fp16: %v", err)
	}
}

// What models are loaded from is a shape: a field that stands twice, and Python's numbers.
func TestOddConfig(t *testing.T) {
	odd := strings.Replace(small, "{", `{"intermediate_size":7,"noise":NaN,`, 1)
	s, err := FromConfig("config.json", []byte(odd))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := New(s, 1, 4); err != nil {
		t.Error(err)
	}
	if _, err := FromConfig("config.json", []byte("[]")); err == nil || err.Error() != `config.json: not a JSON object: "[]"` {
		t.Errorf("error %v", err)
	}
}

// Random models have widths that EXL2 has, or halves between two of them; others are told
// what there is.
func TestRecipeFor(t *testing.T) {
	for _, c := range []struct {
		bits   float64
		recipe string // "": refused
	}{
		{2, "1:2b_128g"}, {4, "1:4b_128g"}, {8, "1:8b_128g"}, {2.5, "0.5:3b_64g/0.5:2b_64g"}, {5.5, "0.5:6b_64g/0.5:5b_64g"},
		{1, ""}, {1.5, ""}, {6.5, ""}, {7, ""}, {7.5, ""}, {8.5, ""}, {16, ""}, {4.3, ""}, {-1, ""}, {math.NaN(), ""}, {math.Inf(1), ""},
	} {
		r, err := RecipeFor(c.bits)
		switch {
		case c.recipe != "":
			if err != nil || r.String() != c.recipe {
				t.Errorf("%v bits: %v, %v, want %s", c.bits, r, err, c.recipe)
			}
		case err == nil || err.Error() != fmt.Sprintf("%v bits per weight, want 2 to 6, whole or half, or 8", c.bits):
			t.Errorf("%v bits: %v, %v", c.bits, r, err)
		}
	}
}
