package convert

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"exl2/internal/half"
	"exl2/internal/machine"
	"exl2/internal/safetensors"
	"exl2/internal/tensor"
)

// rewrite changes the tensors of a model's file: change gets each one's name and
// values, as rows of columns, and returns the type to store them in.
func rewrite(t *testing.T, dir string, change func(name string, rows [][]float32) string) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var infos []safetensors.Info
	data := map[string][]byte{}
	for _, name := range f.Names() {
		x, err := f.Get(name)
		if err != nil {
			t.Fatal(err)
		}
		cols := x.Shape[len(x.Shape)-1]
		flat := make([]float32, len(x.Data)/2)
		for i := range flat {
			flat[i] = half.F16(uint16(x.Data[2*i]) | uint16(x.Data[2*i+1])<<8).Float32()
		}
		var rows [][]float32
		for i := 0; i < len(flat); i += cols {
			rows = append(rows, flat[i:i+cols])
		}
		info := safetensors.Info{Name: name, DType: change(name, rows), Shape: x.Shape}
		switch info.DType {
		case safetensors.F32:
			data[name] = tensor.BytesOf(flat)
		case safetensors.BF16:
			out := make([]half.BF16, len(flat))
			for i, v := range flat {
				out[i] = half.ToBF16(v)
			}
			data[name] = tensor.BytesOf(out)
		default:
			out := make([]half.F16, len(flat))
			half.NarrowF16(out, flat)
			data[name] = tensor.BytesOf(out)
		}
		infos = append(infos, info)
	}
	f.Close()
	w, err := safetensors.Create(path, infos)
	if err != nil {
		t.Fatal(err)
	}
	for name, d := range data {
		if err := w.Write(name, d); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Commit(); err != nil {
		t.Fatal(err)
	}
}

// fill sets every element that a condition on its place selects.
func fill(rows [][]float32, v float32, where func(r, c int) bool) {
	for r := range rows {
		for c := range rows[r] {
			if where(r, c) {
				rows[r][c] = v
			}
		}
	}
}

func everywhere(int, int) bool { return true }

// What of a config.json is no JSON, and read nevertheless, stands in the converted model
// as it stood.
func TestOddConfig(t *testing.T) {
	source := sourceModel(t, "llama")
	path := filepath.Join(source, "config.json")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "{", `{"attention_dropout": 0.5, "router_noise": NaN, "vocab_size": 7,`, 1)
	mustWrite(t, path, text)
	o := options(t, source, "4.0")
	report, _ := mustRun(t, o)
	checkModel(t, o, report.Outputs[0])
	written := contents(t, report.Outputs[0].Path)["config.json"]
	for _, want := range []string{`"attention_dropout": 0.0,`, `"router_noise": NaN,`, `"vocab_size": 128`} {
		if strings.Count(written, want) != 1 {
			t.Errorf("%s stands %d times in %s", want, strings.Count(written, want), written)
		}
	}
}

// Sources that make others' converters give up.
func TestOddSources(t *testing.T) {
	for name, change := range map[string]func(name string, rows [][]float32) string{
		"a matrix of zeros": func(name string, rows [][]float32) string {
			if strings.Contains(name, "layers.0.mlp.up_proj") || strings.Contains(name, "layers.1.self_attn.k_proj") {
				fill(rows, 0, everywhere)
			}
			return "F16"
		},
		"inputs that are always zero": func(name string, rows [][]float32) string {
			if strings.Contains(name, "layernorm") {
				fill(rows, 0, func(_, c int) bool { return c%3 == 0 })
			}
			if strings.Contains(name, "layers.1.mlp.gate_proj") {
				fill(rows, 0, func(r, _ int) bool { return r < 40 })
			}
			return "F16"
		},
		"a sublayer that sees nothing": func(name string, rows [][]float32) string {
			if strings.Contains(name, "layers.0.post_attention_layernorm") {
				fill(rows, 0, everywhere)
			}
			return "F16"
		},
		"columns of zeros and tiny ones": func(name string, rows [][]float32) string {
			if strings.Contains(name, "_proj") {
				fill(rows, 0, func(r, _ int) bool { return r%7 == 0 })
				fill(rows, 6e-8, func(r, _ int) bool { return r%7 == 1 })
			}
			return "F16"
		},
		"an outlier in every matrix": func(name string, rows [][]float32) string {
			if strings.Contains(name, "_proj") {
				rows[0][0] = 60
			}
			return "F16"
		},
		"a residual stream beyond fp16": func(name string, rows [][]float32) string {
			if strings.Contains(name, "embed") {
				fill(rows, 60000, func(_, c int) bool { return c%2 == 0 })
			}
			if strings.Contains(name, "layers.0.mlp.down_proj") {
				fill(rows, 30000, func(_, c int) bool { return c == 0 })
			}
			return "F16"
		},
		"bfloat16": func(string, [][]float32) string { return "BF16" },
		"float32":  func(string, [][]float32) string { return "F32" },
	} {
		t.Run(name, func(t *testing.T) {
			source := sourceModel(t, "llama")
			rewrite(t, source, change)
			o := options(t, source, "4.0")
			report, _ := mustRun(t, o)
			out := report.Outputs[0]
			if !(out.Perplexity >= 1) || out.Perplexity.None() || out.DecoderBPW > 4 {
				t.Errorf("report %+v", out)
			}
			checkModel(t, o, out)
		})
	}
}

// A head that rules the text out gives a perplexity that float64 cannot hold,
// and a report all the same.
func TestPerplexityOverflows(t *testing.T) {
	source := sourceModel(t, "llama")
	rewrite(t, source, func(name string, rows [][]float32) string {
		if strings.Contains(name, "lm_head") || strings.Contains(name, "model.norm") {
			for _, row := range rows {
				for i := range row {
					row[i] *= 300
				}
			}
		}
		return "F16"
	})
	report, w := mustRun(t, options(t, source, "4.0"))
	if !report.Reference.None() || !strings.Contains(strings.Join(w.warnings, "\n"), "no probability") {
		t.Errorf("perplexity of the source %v, warnings %v", report.Reference, w.warnings)
	}
	if text, err := json.Marshal(report); err != nil || !strings.Contains(string(text), `"reference_perplexity":null`) {
		t.Errorf("the report says %s, %v", text, err)
	}
}

// Hidden states that overflow float32 stop the job with the module's name.
func TestOverflow(t *testing.T) {
	source := sourceModel(t, "llama")
	rewrite(t, source, func(name string, rows [][]float32) string {
		if strings.Contains(name, "layers.1.mlp") {
			fill(rows, 3e38, everywhere)
		}
		return "F32"
	})
	_, err := runOn(context.Background(), on(openCPU(t)), options(t, source, "4.0"), &watcher{})
	if err == nil || !strings.Contains(err.Error(), "model.layers.1.mlp") {
		t.Fatalf("error %v", err)
	}
}

// A value that fp16 cannot hold, where the finished model must hold fp16.
func TestEmbeddingBeyondF16(t *testing.T) {
	source := sourceModel(t, "llama")
	rewrite(t, source, func(name string, rows [][]float32) string {
		if name == "model.embed_tokens.weight" {
			rows[3][5] = 70000
		}
		return "F32"
	})
	_, err := runOn(context.Background(), on(openCPU(t)), options(t, source, "4.0"), &watcher{})
	if err == nil || !strings.Contains(err.Error(), "model.embed_tokens.weight: element 197 is 70000") {
		t.Fatalf("error %v", err)
	}
}

// Hidden states on disk give the same bytes as in memory.
func TestSpill(t *testing.T) {
	source := sourceModel(t, "llama")
	inMemory := options(t, source, "4.0")
	mustRun(t, inMemory)
	onDisk := options(t, source, "4.0")
	onDisk.conditions.inMemory = 0
	onDisk.Data.File = inMemory.Data.File
	mustRun(t, onDisk)
	mustEqual(t, contents(t, onDisk.Work), contents(t, inMemory.Work))
}

// Shards, and an output folder that another job filled.
func TestShards(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	whole := options(t, o.Source, "4.0")
	whole.Data.File = o.Data.File
	one, _ := mustRun(t, whole)
	o.conditions.megabyte = 20 << 10
	o.ShardMB = 1
	report, _ := mustRun(t, o)
	shards, err := filepath.Glob(filepath.Join(o.Work, "output-*-of-*.safetensors"))
	if err != nil || len(shards) < 3 {
		t.Fatalf("shards %v, %v", shards, err)
	}
	checkModel(t, o, report.Outputs[0])
	if _, err := os.Stat(filepath.Join(o.Work, "model.safetensors.index.json")); err == nil {
		t.Error("an index was written")
	}
	if report.Outputs[0].Perplexity != one.Outputs[0].Perplexity {
		t.Error("perplexities differ")
	}
}

// A disk that is too small for the job is refused, and says what is needed, and what would take
// less.
func TestDiskTooSmall(t *testing.T) {
	for name, c := range map[string]struct {
		sampled int // rows
		free    int
		want    string
	}{
		"for anything":        {0, 1000, "give another --out-dir$"},
		"for the rows":        {0, 1_800_000, "or fewer --dataset-rows$"},
		"for sampled rows":    {5000, 50 << 20, "or fewer --synthetic-rows$"},
		"for what is sampled": {5000, 1000, "give another --out-dir$"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, "llama"), "4.0")
			o.SyntheticRows, o.Data.Rows = SyntheticRows(c.sampled), 40
			o.conditions.disk = func(string) (machine.Disk, bool) { return machine.Disk{Free: c.free}, true }
			_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
			if err == nil || !regexp.MustCompile("more on disk, .*"+c.want).MatchString(err.Error()) {
				t.Fatalf("error %v, want %s", err, c.want)
			}
		})
	}
}

// Rows that are longer than what a model is made for are warned of when a job begins, but not
// where positions are scaled.
func TestRowsBeyondTheContext(t *testing.T) {
	for name, c := range map[string]struct {
		source           string
		length, measured int
		scale            float64
		warns            bool
	}{
		"as long":            {"llama", 256, 256, 1, false},
		"longer":             {"llama", 257, 64, 1, true},
		"longer to measure":  {"llama", 64, 257, 1, true},
		"scaled by the user": {"llama", 257, 64, 2, false},
		"scaled by config":   {"llama_yarn", 257, 64, 1, false},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, c.source), "4.0")
			o.Data.Length, o.Data.MeasureLength, o.RopeScale = c.length, c.measured, c.scale
			for _, warns := range []bool{c.warns, false} { // and not again when it goes on
				w := &watcher{}
				r, err := open(context.Background(), on(openCPU(t)), o, w)
				if err != nil {
					t.Fatal(err)
				}
				r.close()
				if got := slices.ContainsFunc(w.warnings, func(text string) bool { return strings.Contains(text, "longer than the 256 positions") }); got != warns {
					t.Errorf("warnings %q, want one %v", w.warnings, warns)
				}
			}
		})
	}
}
