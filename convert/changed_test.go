package convert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"exl2/internal/machine"
)

// stopped runs a job until it has made some steps.
func stopped(t *testing.T, o *Options, steps int) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watcher{}
	w.step = func() {
		if len(w.steps) == steps {
			cancel()
		}
	}
	if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want an interruption", err)
	}
}

// keepTime changes a file and leaves its time as it was.
func keepTime(t *testing.T, path string, change func()) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	change()
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
}

func double(tensor string) func(name string, rows [][]float32) string {
	return func(name string, rows [][]float32) string {
		if name == tensor {
			for _, row := range rows {
				for i := range row {
					row[i] *= 2
				}
			}
		}
		return "F16"
	}
}

// A source that is edited between two runs is noticed: at the start if time or
// size say so, else where the weights are read again.
func TestEditedSource(t *testing.T) {
	const last = "model.layers.1.mlp.down_proj.weight"
	for name, c := range map[string]struct {
		edit func(t *testing.T, o *Options)
		want string // "": it goes on
		work bool   // noticed after some
	}{
		"nothing": {func(*testing.T, *Options) {}, "", false},
		"its time only": {func(t *testing.T, o *Options) {
			for name := range contents(t, o.Source) {
				if err := os.Chtimes(filepath.Join(o.Source, name), time.Time{}, time.Now().Add(time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}, "", false},
		"the size of config.json": {func(t *testing.T, o *Options) {
			path := filepath.Join(o.Source, "config.json")
			mustWrite(t, path, contents(t, o.Source)["config.json"]+" ")
		}, "config.json has 7", false},
		"a number in config.json": {func(t *testing.T, o *Options) {
			path := filepath.Join(o.Source, "config.json")
			keepTime(t, path, func() {
				mustWrite(t, path, strings.Replace(contents(t, o.Source)["config.json"], "10000.0", "20000.0", 1))
			})
		}, "config.json is not what it was", false},
		"a tokenizer that is gone": {func(t *testing.T, o *Options) {
			if err := os.Remove(filepath.Join(o.Source, "tokenizer.json")); err != nil {
				t.Fatal(err)
			}
		}, "tokenizer.json was there when the job began", false},
		"weights":      {func(t *testing.T, o *Options) { rewrite(t, o.Source, double(last)) }, last + ": the weights are not what they were", false},
		"an embedding": {func(t *testing.T, o *Options) { rewrite(t, o.Source, double("model.embed_tokens.weight")) }, "model.embed_tokens.weight: the weights", false},
		"weights whose file keeps its time": {func(t *testing.T, o *Options) {
			keepTime(t, filepath.Join(o.Source, "model.safetensors"), func() { rewrite(t, o.Source, double(last)) })
		}, last + ": the weights are not what they were", true},
		"an embedding whose file keeps its time": {func(t *testing.T, o *Options) {
			keepTime(t, filepath.Join(o.Source, "model.safetensors"), func() { rewrite(t, o.Source, double("model.norm.weight")) })
		}, "model.norm.weight: the weights are not what they were", true},
		"another file": {func(t *testing.T, o *Options) { mustWrite(t, filepath.Join(o.Source, "notes.txt"), "new") }, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, "llama"), "4.0")
			mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
			stopped(t, o, 2)
			c.edit(t, o)
			w := &watcher{}
			_, err := runOn(context.Background(), on(openCPU(t)), o, w)
			if c.want == "" && err != nil || c.want != "" && (!errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want)) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if c.want != "" && (len(w.steps) > 0) != c.work {
				t.Errorf("noticed after %d steps", len(w.steps))
			}
		})
	}
}

// A file of weights that is cut while it is in use is an error of one line, and
// the job goes on once it is whole again.
func TestSourceCutMeanwhile(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	whole := options(t, o.Source, "4.0")
	whole.Data.File = o.Data.File
	mustRun(t, whole)
	path := filepath.Join(o.Source, "model.safetensors")
	text := contents(t, o.Source)["model.safetensors"]
	w := &watcher{}
	w.step = func() {
		if len(w.steps) == 2 {
			if err := os.Truncate(path, int64(len(text)/2)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := runOn(context.Background(), on(openCPU(t)), o, w); err == nil || !strings.Contains(err.Error(), "truncated") || strings.Contains(err.Error(), "\n") {
		t.Fatalf("error %v", err)
	}
	mustWrite(t, path, text)
	mustRun(t, o)
	mustEqual(t, contents(t, o.Work), contents(t, whole.Work))
}

// A job of another version of the algorithm is refused.
func TestOtherAlgorithm(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	mustRun(t, o)
	path := filepath.Join(o.jobDir(), "job.json")
	text := contents(t, o.jobDir())["job.json"]
	mustWrite(t, path, strings.Replace(text, fmt.Sprintf(`"algorithm": %d`, algorithm), `"algorithm": 99`, 1))
	mustRefuse(t, o, fmt.Sprint("algorithm 99, this one has ", algorithm), "--restart")
	mustWrite(t, path, `[{"flag":"--bits","value":"4.0"}]`)
	mustRefuse(t, o, fmt.Sprint("algorithm 0, this one has ", algorithm), "--restart")
	o.Restart = true
	mustRun(t, o)
	if got := contents(t, o.jobDir()); got["job.json"] != text || got["job.json.kept"] == "" {
		t.Error("job.json was not kept and made again")
	}
}

// A finished job whose model is gone makes it again, to the same bytes; one whose
// weights are others' now does not touch them.
func TestOutputGone(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "3.5", "5")
	mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
	first, _ := mustRun(t, o)
	want := map[string]map[string]string{}
	for _, out := range first.Outputs {
		want[out.Path] = contents(t, out.Path)
	}
	gone := first.Outputs[1].Path
	for name, remove := range map[string]func() error{
		"all":         func() error { return os.RemoveAll(gone) },
		"weights":     func() error { return os.Remove(filepath.Join(gone, "output.safetensors")) },
		"config.json": func() error { return os.Remove(filepath.Join(gone, "config.json")) },
		"tokenizer":   func() error { return os.Remove(filepath.Join(gone, "tokenizer.json")) },
	} {
		t.Run(name, func(t *testing.T) {
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			report, w := mustRun(t, o)
			if len(w.steps) != 5 || report.Outputs[1] != first.Outputs[1] {
				t.Errorf("%d steps, report %+v", len(w.steps), report.Outputs[1])
			}
			for dir, files := range want {
				mustEqual(t, contents(t, dir), files)
			}
		})
	}
	mustWrite(t, filepath.Join(gone, "output.safetensors"), "mine")
	mustRefuse(t, o, filepath.Join(gone, "output.safetensors"))
	mustWrite(t, filepath.Join(gone, "config.json"), "edited") // is the user's to do
	o.Overwrite = true
	mustRun(t, o)
	for dir, files := range want {
		mustEqual(t, contents(t, dir), files)
	}
}

// What was wrong in a command can be right in the next, as nothing was written.
func TestNextCommand(t *testing.T) {
	good := func(t *testing.T) *Options { return options(t, sourceModel(t, "llama"), "4.0") }
	for name, c := range map[string]struct {
		spoil func(t *testing.T, o *Options)
		want  string
	}{
		"no such data":        {func(_ *testing.T, o *Options) { o.Data.File = "nowhere.jsonl" }, "nowhere.jsonl"},
		"no such measurement": {func(_ *testing.T, o *Options) { o.Measurement = "nowhere.json" }, "nowhere.json"},
		"another's measurement": {func(t *testing.T, o *Options) {
			o.Measurement = filepath.Join("..", "testdata", "golden", "exl2", "small.measurement.json")
		}, "it is another model's"},
		"rows too long": {func(_ *testing.T, o *Options) { o.Data.Length = 1 << 19 }, "row"},
		"OUT is a file": {func(t *testing.T, o *Options) {
			o.Out = filepath.Join(t.TempDir(), "file")
			mustWrite(t, o.Out, "")
		}, "not a folder"},
		"OUT in a file": {func(t *testing.T, o *Options) {
			o.Out = filepath.Join(t.TempDir(), "file", "out")
			mustWrite(t, filepath.Dir(o.Out), "")
		}, "not a directory"},
		"no room for the measurement": {func(t *testing.T, o *Options) {
			o.SaveMeasurement = filepath.Join(t.TempDir(), "file", "m.json")
			mustWrite(t, filepath.Dir(o.SaveMeasurement), "")
		}, "not a directory"},
		"a tensor that is missing": {func(t *testing.T, o *Options) { o.Source = sourceWithout(t, "model.layers.1.mlp.up_proj.weight") }, "model.layers.1.mlp.up_proj.weight"},
		"no disk": {func(_ *testing.T, o *Options) {
			c := *o.conditions
			c.disk = func(string) (machine.Disk, bool) { return machine.Disk{Free: 1000}, true }
			o.conditions = &c
		}, "give another --out-dir"},
		"no memory": {func(_ *testing.T, o *Options) {
			c := *o.conditions
			c.freeMemory = func() (int, bool) { return 1000, true }
			o.conditions = &c
		}, "of memory, 0 MB are free"},
	} {
		t.Run(name, func(t *testing.T) {
			o := good(t)
			bad := *o
			c.spoil(t, &bad)
			_, err := runOn(context.Background(), on(openCPU(t)), &bad, &watcher{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want %q", err, c.want)
			}
			if exists(o.Work) {
				t.Error("something was written")
			}
			stopped(t, o, 1)
		})
	}
}

// sourceWithout makes a model that lacks a tensor.
func sourceWithout(t *testing.T, tensor string) string {
	dir := sourceModel(t, "llama")
	path := filepath.Join(dir, "model.safetensors")
	text := contents(t, dir)["model.safetensors"]
	mustWrite(t, path, strings.Replace(text, tensor, tensor[:len(tensor)-1]+"x", 1))
	return dir
}

// The disk must hold what is not written yet; what is there counts, and a job
// that is finished needs nothing.
func TestDiskOnResume(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	asked := 0
	free := math.MaxInt
	o.conditions.disk = func(string) (machine.Disk, bool) { asked++; return machine.Disk{Free: free}, true }
	stopped(t, o, 4+5+2) // two sublayers are quantized
	free = 1000
	mustRefuse(t, o, "free some and give the same command again")
	src, err := openSource(o)
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	r := &run{ctx: context.Background(), dev: openCPU(t), opts: o, src: src, job: openJob(t, o)}
	if err := r.calibrate(); err != nil {
		t.Fatal(err)
	}
	if err := r.planMemory(); err != nil {
		t.Fatal(err)
	}
	e := r.estimate()
	inWork, _ := r.job.Written()
	if inWork < 1000 {
		t.Fatalf("%d bytes are written", inWork)
	}
	r.job.Close()
	free = e.Work + e.Models - int(inWork) - 1
	mustRefuse(t, o, "on disk")
	free++
	mustRun(t, o)
	free, asked = 0, 0
	mustRun(t, o)
	if asked > 0 {
		t.Error("a finished job asks for disk")
	}
}

// Advice is given where it helps: fewer rows if they are what takes the room.
func TestAdvice(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	refusal := func(free int) string {
		o.conditions.disk = func(string) (machine.Disk, bool) { return machine.Disk{Free: free}, true }
		_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
		if !errors.Is(err, ErrRefused) {
			t.Fatalf("error %v", err)
		}
		return err.Error()
	}
	o.Data.Rows = 40
	if got := refusal(1000); strings.Contains(got, "--dataset-rows") {
		t.Errorf("rows would not help, and it says %s", got)
	}
	const enough = 2_500_000 // more than measuring takes, less than 40 rows
	if got := refusal(enough); !strings.Contains(got, "or fewer --dataset-rows") {
		t.Errorf("rows would help, and it says %s", got)
	}
	o.conditions.disk = func(string) (machine.Disk, bool) { return machine.Disk{Free: enough}, true }
	o.Data.Rows = 4
	mustRun(t, o) // as advised
}

// Weights and OUT on another disk are counted there.
func TestTwoDisks(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = filepath.Join(t.TempDir(), "model")
	o.conditions.disk = func(dir string) (machine.Disk, bool) {
		if dir == o.Out {
			return machine.Disk{ID: 1, Free: 1000}, true
		}
		return machine.Disk{ID: 2, Free: math.MaxInt}, true
	}
	mustRefuse(t, o, "the models need", "give another --compile-full")
}

// Values that EXL2 cannot hold stop the job at once, by the tensor's name.
func TestTooLargeForEXL2(t *testing.T) {
	for _, name := range []string{"model.embed_tokens.weight", "model.layers.1.mlp.down_proj.weight", "model.norm.weight", "lm_head.weight"} {
		for _, kind := range []string{"BF16", "F32"} {
			source := sourceModel(t, "llama")
			rewrite(t, source, func(n string, rows [][]float32) string {
				if n == name {
					rows[0][5] = -70000
				}
				return kind
			})
			o, w := options(t, source, "4.0"), &watcher{}
			_, err := runOn(context.Background(), on(openCPU(t)), o, w)
			if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), name+": element 5 is -7") || len(w.steps) > 0 || exists(o.Work) {
				t.Errorf("%s of %s: error %v after %d steps", kind, name, err, len(w.steps))
			}
		}
	}
}

// Options that cannot be are said before anything is opened.
func TestImpossibleOptions(t *testing.T) {
	for want, change := range map[string]func(o *Options){
		"bits: none given":         func(o *Options) { o.Targets = nil },
		"length: 1, want 2":        func(o *Options) { o.Data.Length = 1 },
		"measurement length: -4":   func(o *Options) { o.Data.MeasureLength = -4 },
		"rows: 0, want 1":          func(o *Options) { o.Data.Rows = 0 },
		"rope scale and alpha: +I": func(o *Options) { o.RopeScale = math.Inf(1) },
		"--output-measurement":     func(o *Options) { o.Measurement, o.SaveMeasurement = "a", "b" },
	} {
		o := options(t, "nowhere", "4.0")
		change(o)
		if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
