package convert

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/fold/foldtest"
	"exl2/internal/model"
	"exl2/measure"
)

// plainAndPlanted returns a golden model in F32, where powers of two are exact, and the same with
// outliers.
func plainAndPlanted(t *testing.T, name string, exponents func(f model.Fold) []int8) (plain, planted string) {
	t.Helper()
	plain, planted = sourceModel(t, name), t.TempDir()
	rewrite(t, plain, func(string, [][]float32) string { return "F32" })
	if err := foldtest.Plant(plain, planted, exponents); err != nil {
		t.Fatal(err)
	}
	return plain, planted
}

// Outliers are found, fold to what the model is without them, and leave no other trace
// in what is made.
func TestPlantedOutliers(t *testing.T) {
	for _, c := range []struct {
		name      string
		exponents func(model.Fold) []int8
		want      Folded
		same      bool // bytes; elsewhere channels are scaled, too, that differ by chance
	}{
		{"llama", foldtest.Norms, Folded{5, 5, 0, 4, false}, true},
		{"llama", foldtest.Everywhere, Folded{5, 5, 4, 4, false}, false},
		{"llama_tied_bias", foldtest.Norms, Folded{4, 5, 0, 4, false}, true},
		{"qwen2", foldtest.Everywhere, Folded{5, 5, 4, 4, false}, false},
		{"cohere", foldtest.Norms, Folded{2, 3, 0, 4, false}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			plain, planted := plainAndPlanted(t, c.name, c.exponents)
			a, b := options(t, plain, "4.0"), options(t, planted, "4.0")
			b.Data.File = a.Data.File
			report, _ := mustRun(t, a)
			if report.Folded != nil {
				t.Errorf("without outliers %v", report.Folded)
			}
			if !c.same {
				b.Fold = FoldNorms // so few random tokens may say that a rotation pays, too
			}
			report, _ = mustRun(t, b)
			if report.Folded == nil || *report.Folded != c.want {
				t.Errorf("%v, want %v", report.Folded, c.want)
			}
			if c.same {
				mustEqual(t, contents(t, b.Work), contents(t, a.Work))
			}
		})
	}
}

// Rows that the source writes, and training with it as the teacher, see the folded source.
func TestFoldedTraining(t *testing.T) {
	plain, planted := plainAndPlanted(t, "llama", foldtest.Norms)
	a, b := trained(t, plain, "3.0"), trained(t, planted, "3.0")
	for _, o := range []*Options{a, b} {
		o.Data.File, o.SyntheticRows = a.Data.File, 2
		mustRun(t, o)
	}
	mustEqual(t, contents(t, b.Work), contents(t, a.Work))
}

// A head that is the embedding, whose channels differ, becomes a matrix of its own.
func TestTiedHeadFolds(t *testing.T) {
	source := sourceModel(t, "llama_tied_bias")
	rewrite(t, source, func(name string, rows [][]float32) string {
		for _, row := range rows {
			for i := 0; strings.Contains(name, "embed_tokens") && i < len(row); i += 32 {
				row[i] *= 16
			}
		}
		return "F32"
	})
	o := options(t, source, "7.5")
	o.Fold, o.HeadBits = FoldNorms, 8
	report, _ := mustRun(t, o)
	if report.Folded == nil || *report.Folded != (Folded{1, 5, 0, 4, false}) {
		t.Errorf("%v, want the last norm alone", report.Folded)
	}
	out := report.Outputs[0]
	checkModel(t, o, out)
	if text := contents(t, out.Path)[configName]; !strings.Contains(text, `"tie_word_embeddings": false`) {
		t.Error("config.json says that the head is the embedding")
	}
	if change := math.Log(float64(out.Perplexity / report.Reference)); !(math.Abs(change) < 0.02) {
		t.Errorf("perplexity %v, of the source %v", out.Perplexity, report.Reference)
	}
}

// A job that folds ends with the same bytes wherever it was interrupted, from another
// job's measurement, after measuring alone, and on several devices.
func TestFoldingGoesOn(t *testing.T) {
	_, planted := plainAndPlanted(t, "llama", foldtest.Norms)
	straight := options(t, planted, "4.0")
	straight.SaveMeasurement = filepath.Join(t.TempDir(), "measurement.json")
	_, all := mustRun(t, straight)
	want := contents(t, straight.Work)
	again := func() *Options {
		o := options(t, planted, "4.0")
		o.Data.File = straight.Data.File
		return o
	}
	for _, steps := range []int{1, 3, 6, 9, len(all.steps) - 6} {
		o := again()
		for stop := steps; stop < steps+2; stop++ { // twice
			ctx, cancel := context.WithCancel(context.Background())
			w := &watcher{}
			w.step = func() {
				if len(w.steps) >= stop {
					cancel()
				}
			}
			if _, err := runOn(ctx, on(openCPU(t)), o, w); err != nil && !errors.Is(err, context.Canceled) {
				t.Fatalf("stopped after %d steps: error %v", stop, err)
			}
		}
		mustRun(t, o)
		mustEqual(t, contents(t, o.Work), want)
	}
	o := again()
	measureOnly(t, *o, 0)
	mustRun(t, o)
	mustEqual(t, contents(t, o.Work), want)
	o = again()
	o.Measurement = straight.SaveMeasurement
	if report, _ := mustRun(t, o); report.Folded == nil {
		t.Error("the measurement's folding was not made")
	}
	mustEqual(t, contents(t, o.Work), want)
	o = again()
	if _, err := runOn(context.Background(), someCPUs(t, 2), o, &watcher{}); err != nil {
		t.Fatal(err)
	}
	mustEqual(t, contents(t, o.Work), want)
}

// What is asked of folding is held against the measurement, and the job.
func TestFoldRefusals(t *testing.T) {
	plain, planted := plainAndPlanted(t, "llama", foldtest.Norms)
	first := options(t, planted)
	first.SaveMeasurement = filepath.Join(t.TempDir(), "measurement.json")
	if _, err := measureOn(context.Background(), on(openCPU(t)), first, &watcher{}); err != nil {
		t.Fatal(err)
	}
	f, err := measure.ReadFile(first.SaveMeasurement)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(o *Options)
		want   string
	}{
		"none, and a measurement that folds":  {func(o *Options) { o.Fold = FoldNone }, "was measured with 5 norms and matrices folded, rotated: false; leave"},
		"of a norm that is not there":         {func(o *Options) { f.Folds[0].Key = "model.layers.7.input_layernorm" }, "model.layers.7.input_layernorm cannot be folded"},
		"of channels that are not there":      {func(o *Options) { f.Folds[0].Channels[1] = 1000 }, "has 64 channels, and 1000 is folded"},
		"rotation, and a measurement without": {func(o *Options) { o.Fold = FoldRotation }, "was measured without rotation"},
		"unknown":                             {func(o *Options) { o.Fold = "all" }, "want one of auto, none, norms, rotation"},
	} {
		t.Run(name, func(t *testing.T) {
			key, channel := f.Folds[0].Key, f.Folds[0].Channels[1]
			defer func() { f.Folds[0].Key, f.Folds[0].Channels[1] = key, channel }()
			o := options(t, plain, "4.0")
			o.Measurement = filepath.Join(t.TempDir(), "m.json")
			c.change(o)
			var b bytes.Buffer
			if err := f.Write(&b); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(o.Measurement, b.Bytes(), 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one about %q", err, c.want)
			}
		})
	}
	other := *first
	other.Fold = FoldNorms
	if _, err := measureOn(context.Background(), on(openCPU(t)), &other, &watcher{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--fold") {
		t.Errorf("another --fold: error %v", err)
	}
}

// A rotated model computes what its source does, in a plain file, wherever its job was
// interrupted, and from its measurement.
func TestRotation(t *testing.T) {
	for _, name := range []string{"llama", "llama_tied_bias", "qwen3", "qwen2_moe"} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, name), "7.5")
			o.Fold, o.HeadBits, o.SaveMeasurement = FoldRotation, 8, filepath.Join(t.TempDir(), "measurement.json")
			report, all := mustRun(t, o)
			out := report.Outputs[0]
			if report.Folded == nil || !report.Folded.Rotated {
				t.Fatalf("%v, want a rotation", report.Folded)
			}
			checkModel(t, o, out)
			if change := math.Log(float64(out.Perplexity / report.Reference)); !(math.Abs(change) < 0.02) {
				t.Errorf("perplexity %v, of the source %v", out.Perplexity, report.Reference)
			}
			want := contents(t, o.Work)
			again := *o
			again.Work, again.SaveMeasurement = filepath.Join(t.TempDir(), "again"), ""
			ctx, cancel := context.WithCancel(context.Background())
			w := &watcher{}
			w.step = func() {
				if len(w.steps) > len(all.steps)/2 {
					cancel()
				}
			}
			if _, err := runOn(ctx, on(openCPU(t)), &again, w); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			mustRun(t, &again)
			mustEqual(t, contents(t, again.Work), want)
			again.Work, again.Measurement, again.Fold = filepath.Join(t.TempDir(), "measured"), o.SaveMeasurement, FoldAuto
			mustRun(t, &again)
			mustEqual(t, contents(t, again.Work), want)
		})
	}
}

// A rotation that fp16 cannot hold is refused by name.
func TestRotationTooLarge(t *testing.T) {
	source := sourceModel(t, "llama")
	rewrite(t, source, func(name string, rows [][]float32) string {
		if strings.Contains(name, "embed") {
			fill(rows, 60000, everywhere)
		}
		return "F16"
	})
	o := options(t, source, "4.0")
	o.Fold = FoldRotation
	_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "model.embed_tokens.weight: rotated, it is too large for fp16") {
		t.Errorf("error %v", err)
	}
}

// Architectures whose stream cannot be rotated are refused to --fold rotation before there is
// a job.
func TestRotationRefused(t *testing.T) {
	o := options(t, sourceModel(t, "cohere"), "4.0")
	o.Fold = FoldRotation
	_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "the residual stream of CohereForCausalLM cannot be rotated") {
		t.Errorf("error %v", err)
	}
	if _, err := os.Stat(o.Work); !errors.Is(err, fs.ErrNotExist) {
		t.Error("something was written")
	}
}
