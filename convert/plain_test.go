package convert

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/tensor"
	"exl2/measure"
)

// stubborn is a CPU that finds no matrix positive definite.
type stubborn struct{ device.Quantize }

func (d stubborn) InverseFactor(_, _ tensor.Tensor, _ float32, ok tensor.Tensor) { d.Clear(ok) }

// measured measures a model on a device and returns what the file holds.
func measured(t *testing.T, d device.Quantize, source string) (*measure.File, *watcher) {
	t.Helper()
	o := options(t, source)
	o.SaveMeasurement = filepath.Join(t.TempDir(), "m.json")
	w := &watcher{}
	if _, err := measureOn(context.Background(), on(d), o, w); err != nil {
		t.Fatal(err)
	}
	f, err := measure.ReadFile(o.SaveMeasurement)
	if err != nil {
		t.Fatal(err)
	}
	return f, w
}

// mustFall checks that a table's errors are those of weights that lose less
// with every bit.
func mustFall(t *testing.T, table measure.Table) {
	t.Helper()
	last := math.Inf(1)
	for _, c := range table.Candidates {
		if r := exl2.MustRecipe(c.Recipe); len(r) != 1 || r[0].Group != 64 {
			continue
		}
		if !(c.Error > 0 && c.Error < 0.5*last && c.Error < 0.5) {
			t.Errorf("%s: %v has an error of %v, fewer bits %v", table.Key, c.Recipe, c.Error, last)
		}
		last = c.Error
	}
}

// Hessians that cannot be factored: every matrix is rounded to nearest, with errors
// that mean something, and a warning names it.
func TestPlainMeasurement(t *testing.T) {
	f, w := measured(t, stubborn{openCPU(t)}, sourceModel(t, "llama"))
	if len(w.warnings) != 9 { // 4 sublayers with 2 steps that read, and the head
		t.Errorf("%d warnings: %q", len(w.warnings), w.warnings)
	}
	all := strings.Join(w.warnings, "\n")
	for _, h := range f.Sublayers {
		for _, table := range h.Tables {
			mustFall(t, table)
			if !strings.Contains(all, table.Key) {
				t.Errorf("no warning names %s", table.Key)
			}
		}
	}
}

// Inputs whose squares overflow: the matrices that read them are rounded to nearest,
// and no others.
func TestInfiniteMeasurement(t *testing.T) {
	source := sourceModel(t, "llama")
	rewrite(t, source, func(name string, rows [][]float32) string {
		for r := range rows {
			for c := range rows[r] {
				switch {
				case strings.Contains(name, "layers.1.post_attention_layernorm"), strings.Contains(name, "layers.1.mlp.gate_proj"), strings.Contains(name, "layers.1.mlp.up_proj"):
					rows[r][c] *= 3e4
				case strings.Contains(name, "layers.1.mlp.down_proj"):
					rows[r][c] *= 1e-15
				}
			}
		}
		return "F32"
	})
	f, w := measured(t, openCPU(t), source)
	if len(w.warnings) != 1 || !strings.HasPrefix(w.warnings[0], "model.layers.1.mlp.down_proj: rounded to nearest") {
		t.Errorf("warnings %q", w.warnings)
	}
	for _, h := range f.Sublayers {
		for _, table := range h.Tables {
			for _, c := range table.Candidates {
				if !(c.Error >= 0 && c.Error <= 1.001) {
					t.Errorf("%s: %v has an error of %v", table.Key, c.Recipe, c.Error)
				}
			}
		}
	}
}

// A conversion names all matrices that it rounds to nearest.
func TestPlainConversion(t *testing.T) {
	o, w := options(t, sourceModel(t, "llama"), "6.0"), &watcher{}
	if _, err := runOn(context.Background(), on(stubborn{openCPU(t)}), o, w); err != nil {
		t.Fatal(err)
	}
	quantizing := w.warnings[9:]
	for i, want := range []string{"q_proj, model.layers.0.self_attn.k_proj, model.layers.0.self_attn.v_proj", "o_proj"} {
		if got := quantizing[i]; !strings.HasPrefix(got, "model.layers.0.self_attn."+want+": rounded to nearest") {
			t.Errorf("warning %q, want %s", got, want)
		}
	}
	if got := quantizing[len(quantizing)-1]; !strings.HasPrefix(got, "lm_head: ") {
		t.Errorf("the last warning is %q", got)
	}
}
