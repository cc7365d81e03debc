package convert

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/device/devtest"
	"exl2/internal/job"
	"exl2/internal/machine"
	"exl2/internal/model"
	"exl2/internal/safetensors"
)

// watcher is a Progress that remembers warnings and calls step after every step,
// but for those that read the source, before there is a job.
type watcher struct {
	read     int // steps that read the source
	stage    string
	done     int // steps of the stage
	steps    []string
	warnings []string
	notes    []string
	step     func()
}

func (w *watcher) Start(stage string, _ int) { w.stage, w.done = stage, 0 }
func (w *watcher) Skip(what string)          { w.Step(what, "done before") }
func (w *watcher) Note(text string)          { w.notes = append(w.notes, text) }
func (w *watcher) Warn(text string)          { w.warnings = append(w.warnings, text) }
func (w *watcher) Close()                    {}

func (w *watcher) Step(what, note string) {
	if w.stage == readingStage {
		w.read++
		return
	}
	w.steps = append(w.steps, w.stage+" "+what+" "+note)
	w.done++
	if w.step != nil {
		w.step()
	}
}

func openCPU(t testing.TB) device.Quantize {
	t.Helper()
	return devtest.CPU(t)
}

func on(list ...device.Quantize) []device.Quantize { return list }

// sourceModel copies a golden model, two layers of 64, to a folder of its own.
func sourceModel(t testing.TB, name string) string {
	t.Helper()
	from, to := filepath.Join("..", "testdata", "golden", "arch", name), t.TempDir()
	for _, f := range []string{"config.json", "model.safetensors"} {
		copyFile(t, filepath.Join(to, f), filepath.Join(from, f))
	}
	return to
}

func copyFile(t testing.TB, to, from string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// tokenFile writes JSON lines of token ids below 128.
func tokenFile(t testing.TB) string {
	t.Helper()
	var b bytes.Buffer
	for row := range 40 {
		ids := make([]int, 64)
		for i := range ids {
			ids[i] = (row*row*7 + i*i*13 + i*row) % 128
		}
		line, err := json.Marshal(map[string]any{"input_ids": ids})
		if err != nil {
			t.Fatal(err)
		}
		b.Write(append(line, '\n'))
	}
	path := filepath.Join(t.TempDir(), "tokens.jsonl")
	if err := os.WriteFile(path, b.Bytes(), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

// options are those of a small job.
func options(t testing.TB, source string, bits ...string) *Options {
	o := &Options{
		conditions: conditionsOf(), Source: source, Work: filepath.Join(t.TempDir(), "work"), HeadBits: 6, RopeScale: 1, RopeAlpha: 1,
		Data: Data{File: tokenFile(t), Rows: 8, Length: 64, MeasureRows: 4, MeasureLength: 64},
	}
	for _, b := range bits {
		var v float64
		if _, err := fmt.Sscan(b, &v); err != nil {
			t.Fatal(err)
		}
		o.Targets = append(o.Targets, Target{b, v})
	}
	return o
}

// conditionsOf returns the usual conditions, but that hidden states are written
// after every module, and that what the machine has free of memory and disk is
// no concern of a test that does not say so.
func conditionsOf() *conditions {
	c := usual
	c.every = 0
	c.freeMemory = func() (int, bool) { return 16 << 30, true }
	c.disk = func(string) (machine.Disk, bool) { return machine.Disk{Free: math.MaxInt}, true }
	return &c
}

func mustRun(t testing.TB, o *Options) (*Report, *watcher) {
	t.Helper()
	w := &watcher{}
	r, err := runOn(context.Background(), on(openCPU(t)), o, w)
	if err != nil {
		t.Fatal(err)
	}
	return r, w
}

// contents returns the files of a folder, without folders in it.
func contents(t testing.TB, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Type().IsRegular() {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			if err != nil {
				t.Fatal(err)
			}
			out[e.Name()] = string(data)
		}
	}
	return out
}

func mustEqual(t testing.TB, got, want map[string]string) {
	t.Helper()
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s differs: %d bytes, want %d", name, len(got[name]), len(text))
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d files, want %d", len(got), len(want))
	}
}

// A conversion makes a folder that loads as EXL2, within the target, signed.
func TestConvert(t *testing.T) {
	for _, name := range []string{"llama", "llama_tied_bias", "mistral", "qwen2"} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, name), "4.5")
			report, w := mustRun(t, o)
			out := report.Outputs[0]
			if out.DecoderBPW > 4.5 || out.DecoderBPW < 4 || !(out.Perplexity > 0) || len(w.warnings) > 0 {
				t.Errorf("report %+v, warnings %v", out, w.warnings)
			}
			if report.Rows != 8 || report.Length != 64 {
				t.Errorf("%d rows of %d", report.Rows, report.Length)
			}
			checkModel(t, o, out)
		})
	}
}

// checkModel loads what was written and compares its size with the report.
func checkModel(t *testing.T, o *Options, out Output) {
	t.Helper()
	config, err := arch.ReadConfig(out.Path)
	if err != nil {
		t.Fatal(err)
	}
	l, files, err := model.Open(out.Path)
	if err != nil {
		t.Fatal(err)
	}
	defer files.Close()
	if _, err := l.LoadAll(openCPU(t)); err != nil {
		t.Fatal(err)
	}
	bits, weights := 0, 0
	for _, module := range l.Decoder() {
		for _, s := range module.Linears {
			m, err := l.Matrix(s)
			if err != nil || m == nil {
				t.Fatalf("%s: %v", s.Name, err)
			}
			bits, weights = bits+m.Bits(), weights+s.In*s.Out
		}
	}
	if bpw := float64(bits) / float64(weights); bpw != out.DecoderBPW {
		t.Errorf("decoder has %v bits per weight, the report says %v", bpw, out.DecoderBPW)
	}
	q := config.Object("quantization_config")
	if q.String("quant_method") != "exl2" || q.Float("bits") != out.Bits || q.Int("head_bits") != int(o.HeadBits) || q.Object("calibration").Int("rows") != 8 {
		t.Error("config.json is not signed")
	}
}

// The same input gives the same bytes on any number of cores, of which many have several
// workers.
func TestSameBytesOnAnyCores(t *testing.T) {
	source := sourceModel(t, "llama")
	var want map[string]string
	for _, cores := range []int{1, 2, 5, 16} {
		o := options(t, source, "4.0")
		withCores(cores, func() { mustRun(t, o) })
		got := contents(t, o.Work)
		if want == nil {
			want = got
		}
		mustEqual(t, got, want)
	}
}

// One measurement makes many models, each what it would be alone.
func TestSeveralTargets(t *testing.T) {
	source := sourceModel(t, "llama")
	o := options(t, source, "3.5", "6")
	report, _ := mustRun(t, o)
	if len(report.Outputs) != 2 || report.Outputs[0].Path != filepath.Join(o.Work, "3.5bpw") || report.Outputs[1].Path != filepath.Join(o.Work, "6bpw") {
		t.Fatalf("outputs %+v", report.Outputs)
	}
	alone := options(t, source, "6")
	alone.Data.File = o.Data.File
	mustRun(t, alone)
	mustEqual(t, contents(t, filepath.Join(o.Work, "6bpw")), contents(t, alone.Work))
}

// A measurement, ours or one that holds ExLlamaV2's part only, serves another
// job.
func TestMeasurementReuse(t *testing.T) {
	source := sourceModel(t, "llama")
	first := options(t, source, "4.0")
	first.SaveMeasurement = filepath.Join(t.TempDir(), "measurement.json")
	mustRun(t, first)

	again := options(t, source, "4.0")
	again.Measurement = first.SaveMeasurement
	_, w := mustRun(t, again)
	if strings.Contains(strings.Join(w.steps, "\n"), "measure ") {
		t.Error("it was measured again")
	}
	mustEqual(t, contents(t, again.Work), contents(t, first.Work))

	theirs := options(t, source, "5.0")
	theirs.Measurement = withoutTables(t, first.SaveMeasurement)
	report, _ := mustRun(t, theirs)
	if bpw := report.Outputs[0].DecoderBPW; bpw > 5 || bpw < 4 {
		t.Errorf("%v bits per weight, want at most 5", bpw)
	}
}

// Requests that cannot be met are refused before any work.
func TestRefusals(t *testing.T) {
	source := sourceModel(t, "llama")
	for name, c := range map[string]struct {
		change func(o *Options)
		want   string
	}{
		"too few bits":  {func(o *Options) { o.Targets = []Target{{"1.0", 1}} }, "out of reach: this model can have"},
		"too many bits": {func(o *Options) { o.Targets = []Target{{"16", 16}} }, "out of reach"},
		"quantized source": {func(o *Options) {
			o.Source = filepath.Join("..", "testdata", "golden", "exl2", "qwen2-bias-2.75bpw")
		}, "EXL2 already"},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, source, "4.0")
			c.change(o)
			_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want a refusal about %q", err, c.want)
			}
			if _, err := os.Stat(o.Work); !errors.Is(err, fs.ErrNotExist) {
				t.Error("something was written")
			}
		})
	}
}

// Weights of another file in the output folder would be loaded with ours.
func TestForeignWeightsInTheWay(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = t.TempDir()
	if err := os.WriteFile(filepath.Join(o.Out, "model.safetensors"), []byte("x"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); !errors.Is(err, ErrRefused) {
		t.Fatalf("error %v", err)
	}
	if _, err := os.Stat(filepath.Join(o.Out, "config.json")); err == nil {
		t.Error("a model seems to be there")
	}
}

// NaN and infinity in a source stop the job with the tensor's name.
func TestDamagedSource(t *testing.T) {
	source := sourceModel(t, "llama")
	poison(t, source, "model.layers.1.mlp.up_proj.weight")
	_, err := runOn(context.Background(), on(openCPU(t)), options(t, source, "4.0"), &watcher{})
	if err == nil || !strings.Contains(err.Error(), "model.layers.1.mlp.up_proj.weight") {
		t.Fatalf("error %v", err)
	}
}

// poison overwrites the first element of an F16 tensor.
func poison(t *testing.T, dir, name string) {
	t.Helper()
	path := filepath.Join(dir, "model.safetensors")
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	x, err := f.Get(name)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(data, x.Data)
	f.Close()
	copy(data[at:], []byte{0x00, 0x7e})
	if err := os.WriteFile(path, data, 0o666); err != nil {
		t.Fatal(err)
	}
}

// outputs reads what a job has made: models, measurement, plans.
func outputs(t *testing.T, o Options) map[string]string {
	t.Helper()
	all := map[string]string{}
	dirs := []string{o.jobDir()}
	for _, t := range o.Targets {
		dirs = append(dirs, o.folder(t), filepath.Join(o.jobDir(), t.Text))
	}
	for _, dir := range dirs {
		if !exists(dir) {
			continue
		}
		for name, text := range contents(t, dir) {
			if name == "files.jsonl" {
				continue // has what was written twice, too
			}
			text = strings.ReplaceAll(text, o.Out, "OUT") // the paths differ
			text = strings.ReplaceAll(text, o.Work, "WORK")
			all[strings.TrimPrefix(strings.TrimPrefix(dir, filepath.Dir(o.Work)), "/")+"/"+name] = text
		}
	}
	return all
}

// openJob opens the job of a conversion.
func openJob(t *testing.T, o *Options) *job.Job {
	t.Helper()
	j, err := job.Open(o.jobDir())
	if err != nil {
		t.Fatal(err)
	}
	return j
}
