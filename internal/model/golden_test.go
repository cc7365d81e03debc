package model_test

import (
	"encoding/binary"
	"errors"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/device/devtest"
	"exl2/internal/goldens"
	"exl2/internal/half"
	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// open loads the model of a folder and the file with what is expected of it.
func open(t testing.TB, dir string) (*model.Loader, *safetensors.File) {
	t.Helper()
	l, files, err := model.Open(dir)
	if errors.Is(err, arch.ErrUnsupported) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { files.Close() })
	golden, err := safetensors.Open(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { golden.Close() })
	return l, golden
}

// ints and floats read a golden tensor, which has numbers.
func ints(t testing.TB, f *safetensors.File, name string) ([]int32, []int) {
	t.Helper()
	return words(t, f, name, "I32")
}

// words reads a golden tensor of a type of 32 bits, two dimensions or more, and some numbers.
func words(t testing.TB, f *safetensors.File, name, dtype string) (v []int32, shape []int) {
	t.Helper()
	x, err := f.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	if x.DType != dtype || len(x.Shape) < 2 || len(x.Data) == 0 {
		t.Fatalf("%s is %s %v, want %s [sequences, positions, ...] with numbers", name, x.DType, x.Shape, dtype)
	}
	for i := 0; i+4 <= len(x.Data); i += 4 {
		v = append(v, int32(binary.LittleEndian.Uint32(x.Data[i:])))
	}
	return v, x.Shape
}

func floats(t testing.TB, f *safetensors.File, name string) (v []float32, shape []int) {
	t.Helper()
	bits, shape := words(t, f, name, "F32")
	for _, b := range bits {
		v = append(v, math.Float32frombits(uint32(b)))
	}
	return v, shape
}

// logits runs the model over input_ids [sequences, length] in one pass and
// returns the logits of the first rows positions of each sequence.
func logits(t testing.TB, l *model.Loader, ids []int32, sequences, rows int) []float32 {
	t.Helper()
	d := devtest.CPU(t)
	l.Spec.SetContext(len(ids) / sequences)
	modules, err := l.LoadAll(d)
	if err != nil {
		t.Fatal(err)
	}
	length := len(ids) / sequences
	c := model.NewCache(d, l.Spec, model.WholeCache(l.Spec, sequences, length))
	s := model.NewState(d, l.Spec, model.Size{Rows: len(ids), Logits: len(ids)}, c)
	all := pass(t, modules, s, ids, sequences, 0, length)
	var out []float32
	for q := range sequences {
		out = append(out, slices.Concat(all[q*length:q*length+rows]...)...)
	}
	return out
}

// pass runs positions lo to hi of all sequences and returns their logits.
func pass(t testing.TB, modules []*model.Module, s *model.State, ids []int32, sequences, lo, hi int) [][]float32 {
	t.Helper()
	length := len(ids) / sequences
	var part []int32
	var runs []model.Run
	for q := range sequences {
		part = append(part, ids[q*length+lo:q*length+hi]...)
		runs = append(runs, model.Run{Sequence: q, Position: lo})
	}
	s.Use(runs, hi-lo, part)
	for _, m := range modules {
		m.Forward(s)
	}
	all, err := s.Logits()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// difference returns the mean and largest absolute difference.
func difference(a, b []float32) (mean, most float64) {
	for i := range a {
		d := math.Abs(float64(a[i]) - float64(b[i]))
		mean += d / float64(len(a))
		most = max(most, d)
	}
	return mean, most
}

// A number that is none is never near another one, wherever it stands.
func TestDifference(t *testing.T) {
	nan := float32(math.NaN())
	for _, c := range []struct {
		name       string
		a, b       []float32
		mean, most float64
	}{
		{"equal", []float32{1, 2}, []float32{1, 2}, 0, 0},
		{"the largest in front", []float32{3, 2, 1}, []float32{1, 2, 2}, 1, 2},
		{"NaN in front", []float32{nan, 1}, []float32{1, 1}, math.NaN(), math.NaN()},
		{"NaN at the end", []float32{1, 1}, []float32{1, nan}, math.NaN(), math.NaN()},
		{"NaN in both", []float32{nan, 1}, []float32{nan, 1}, math.NaN(), math.NaN()},
	} {
		mean, most := difference(c.a, c.b)
		if same := func(x, y float64) bool { return x == y || math.IsNaN(x) && math.IsNaN(y) }; !same(mean, c.mean) || !same(most, c.most) {
			t.Errorf("%s: %v on average, %v at most, want %v and %v", c.name, mean, most, c.mean, c.most)
		}
	}
}

// Logits are those that transformers computes in fp32.
func TestArchitectures(t *testing.T) { compareGoldens(t, "arch") }

// Those of models that other programs have quantized are what transformers computes of the
// weights that these programs decode.
func TestQuantized(t *testing.T) { compareGoldens(t, "quantized") }

func compareGoldens(t *testing.T, kind string) {
	for _, dir := range goldens.Dirs(t, kind) {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			want, _ := floats(t, golden, "logits")
			got := logits(t, l, ids, shape[0], shape[1])
			if len(got) != len(want) {
				t.Fatalf("%d logits, want %d", len(got), len(want))
			}
			if mean, most := difference(got, want); !(most <= 1e-3) {
				t.Errorf("logits differ by %.2g on average, %.2g at most, want at most 1e-3", mean, most)
			}
		})
	}
}

// Position by position behind a prompt, logits are those of one pass, and all
// memory, which is as much as expected, comes back.
func TestStepByStep(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "arch") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			ids, shape := ints(t, golden, "input_ids")
			sequences, length := shape[0], shape[1]
			want, _ := floats(t, golden, "logits")
			d := devtest.Counting(devtest.CPU(t))
			l.Spec.SetContext(length)
			modules, err := l.LoadAll(d)
			if err != nil {
				t.Fatal(err)
			}
			z, room := model.Size{Rows: len(ids), Logits: len(ids)}, model.WholeCache(l.Spec, sequences, length)
			loaded := d.Bytes()
			c := model.NewCache(d, l.Spec, room)
			s := model.NewState(d, l.Spec, z, c)
			if n, want := d.Bytes()-loaded, model.Bytes(l.Spec, z, d.Activation())+model.CacheBytes(d, l.Spec, room); n != want {
				t.Errorf("state and cache take %d bytes, %d expected", n, want)
			}
			if len(want) != len(ids)*l.Spec.Vocab {
				t.Fatalf("%d logits, want %d of %d tokens", len(want), l.Spec.Vocab, len(ids))
			}
			prompt := max(1, length-6)
			pass(t, modules, s, ids, sequences, 0, prompt)
			for at := prompt; at < length; at++ {
				for q, got := range pass(t, modules, s, ids, sequences, at, at+1) {
					row := (q*length + at) * l.Spec.Vocab
					if _, most := difference(got, want[row:row+l.Spec.Vocab]); !(most <= 1e-3) {
						t.Fatalf("sequence %d, position %d: logits differ by %.2g, want at most 1e-3", q, at, most)
					}
				}
			}
			for _, m := range modules {
				m.Free()
			}
			s.Free()
			c.Free()
			if left := d.Live(); len(left) > 0 || d.Faults() != nil {
				t.Errorf("not freed: %v; %v", left, d.Faults())
			}
		})
	}
}

// Matrices decode to ExLlamaV2's own bits, and logits are near those of its
// fp16 arithmetic.
func TestEXL2(t *testing.T) {
	for _, dir := range goldens.Dirs(t, "exl2") {
		t.Run(goldens.Name(dir), func(t *testing.T) {
			l, golden := open(t, dir)
			t.Run("matrices", func(t *testing.T) { compareMatrices(t, l, golden) })
			t.Run("logits", func(t *testing.T) {
				ids, shape := ints(t, golden, "input_ids")
				want, wantShape := floats(t, golden, "logits")
				got := logits(t, l, ids, shape[0], wantShape[1])
				if len(got) != len(want) {
					t.Fatalf("%d logits, want %d", len(got), len(want))
				}
				mean, most := difference(got, want)
				t.Logf("logits differ by %.4f on average, %.4f at most", mean, most)
				if !(mean <= 0.02 && most <= 0.5) {
					t.Errorf("logits differ by %.4f on average, %.4f at most, want 0.02 and 0.5", mean, most)
				}
			})
		})
	}
}

func compareMatrices(t *testing.T, l *model.Loader, golden *safetensors.File) {
	compared := 0
	for _, name := range golden.Names() {
		key, ok := cutPrefix(name, "dequant.")
		if !ok {
			continue
		}
		want, err := golden.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.ReadMatrix(l.Files, key)
		if err != nil {
			t.Fatal(err)
		}
		if m.In != want.Shape[0] || m.Out != want.Shape[1] {
			t.Fatalf("%s is %d x %d, want %v", key, m.In, m.Out, want.Shape)
		}
		decoded := m.Decode()
		for i, stored := range m.InvPerm {
			for c := range m.Out {
				w := half.F16(binary.LittleEndian.Uint16(want.Data[2*(i*m.Out+c):]))
				if got := decoded[int(stored)*m.Out+c]; got != w && got.Float32() != w.Float32() {
					t.Fatalf("%s: row %d, column %d is %v, want %v", key, i, c, got.Float32(), w.Float32())
				}
			}
		}
		compared++
	}
	if compared == 0 {
		t.Fatal("no matrices to compare with")
	}
}

func cutPrefix(s, prefix string) (string, bool) {
	if len(s) > len(prefix) && s[:len(prefix)] == prefix {
		return s[len(prefix):], true
	}
	return s, false
}
