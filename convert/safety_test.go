package convert

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"exl2/internal/atomicfile"
)

// mustRefuse runs a job that must be refused with some words.
func mustRefuse(t *testing.T, o *Options, words ...string) {
	t.Helper()
	_, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
	if !errors.Is(err, ErrRefused) {
		t.Errorf("error %v, want a refusal with %q", err, words)
		return
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %v, want %q in it", err, w)
		}
	}
}

func mustWrite(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
}

func mustLink(t *testing.T, to, link string) {
	t.Helper()
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
}

func exists(path string) bool { _, err := os.Lstat(path); return err == nil }

// cached makes a model's snapshot in a Hugging Face cache of links to blobs.
func cached(t *testing.T, source string) (snapshot, blobs string) {
	t.Helper()
	model := filepath.Join(t.TempDir(), "hub", "models--org--name")
	snapshot, blobs = filepath.Join(model, "snapshots", "0123"), filepath.Join(model, "blobs")
	for name, text := range contents(t, source) {
		mustWrite(t, filepath.Join(blobs, "blob-of-"+name), text)
		if err := os.MkdirAll(snapshot, 0o777); err != nil {
			t.Fatal(err)
		}
		mustLink(t, filepath.Join("..", "..", "blobs", "blob-of-"+name), filepath.Join(snapshot, name))
	}
	return snapshot, blobs
}

// A folder that is, contains or links to the source is not written to.
func TestSourceIsNotWrittenTo(t *testing.T) {
	link := func(t *testing.T, to string) string {
		path := filepath.Join(t.TempDir(), "link")
		mustLink(t, to, path)
		return path
	}
	for name, change := range map[string]func(t *testing.T, o *Options){
		"OUT is it":                 func(_ *testing.T, o *Options) { o.Out = o.Source },
		"OUT is it, said otherwise": func(_ *testing.T, o *Options) { o.Out = o.Source + "/../" + filepath.Base(o.Source) + "/" },
		"OUT links to it":           func(t *testing.T, o *Options) { o.Out = link(t, o.Source) },
		"OUT contains it":           func(_ *testing.T, o *Options) { o.Out = filepath.Dir(o.Source) },
		"OUT links to what contains it": func(t *testing.T, o *Options) {
			o.Out = link(t, filepath.Dir(filepath.Dir(o.Source)))
		},
		"a model's folder links to it": func(t *testing.T, o *Options) {
			o.Targets = append(o.Targets, Target{"5", 5})
			o.Out = t.TempDir()
			mustLink(t, o.Source, filepath.Join(o.Out, "5bpw"))
		},
		"WORK is it":       func(_ *testing.T, o *Options) { o.Work, o.Out = o.Source, filepath.Join(o.Work, "out") },
		"WORK contains it": func(_ *testing.T, o *Options) { o.Work, o.Out = filepath.Dir(o.Source), filepath.Join(o.Work, "out") },
		"WORK/job links to it": func(t *testing.T, o *Options) {
			if err := os.MkdirAll(o.Work, 0o777); err != nil {
				t.Fatal(err)
			}
			mustLink(t, o.Source, o.jobDir())
		},
		"the source is a link": func(t *testing.T, o *Options) { o.Out, o.Source = o.Source, link(t, o.Source) },
		"OUT has its blobs":    func(t *testing.T, o *Options) { o.Source, o.Out = cached(t, o.Source) },
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, "llama"), "4.0")
			source := o.Source
			before := contents(t, source)
			change(t, o)
			for _, o.Overwrite = range []bool{false, true} {
				mustRefuse(t, o, "model to convert")
			}
			mustEqual(t, contents(t, source), before)
		})
	}
}

// A folder in the source is not it.
func TestWorkInSource(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	before := contents(t, o.Source)
	o.Work = filepath.Join(o.Source, "exl2")
	mustRun(t, o)
	mustEqual(t, contents(t, o.Source), before)
}

// A model in the job's own folder would take the job's files for its weights.
func TestModelInJob(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	if err := os.Mkdir(o.Work, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	mustLink(t, o.Work, link)
	for _, dir := range []string{o.jobDir(), filepath.Join(o.jobDir(), "4.0"), filepath.Join(link, "job"), filepath.Join(o.Work, "x", "..", "job", "a", "b")} {
		o.Out = dir
		mustRefuse(t, o, "--compile-full", "in the job's own folder")
	}
	if exists(o.jobDir()) {
		t.Error("there is a job")
	}
	o.Out = filepath.Join(o.Work, "jobs")
	mustRun(t, o)
}

// A folder that is a link to nothing cannot be made.
func TestLinkToNothing(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	link := filepath.Join(t.TempDir(), "link")
	mustLink(t, filepath.Join(t.TempDir(), "nothing"), link)
	o.Out = link
	mustRefuse(t, o, "--compile-full: "+link+" is a link that leads to nothing")
	o.Work, o.Out = link, ""
	mustRefuse(t, o, "--out-dir: "+link+" is a link that leads to nothing")
}

// What the job did not write is refused by name before any work, and replaced
// only if that is said.
func TestFilesInTheWay(t *testing.T) {
	for _, name := range []string{"config.json", "tokenizer.json", "output.safetensors", "output-00001-of-00002.safetensors", "model.safetensors", "pytorch_model.bin"} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, "llama"), "4.0")
			mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
			o.Out = t.TempDir()
			path := filepath.Join(o.Out, name)
			mustWrite(t, path, "mine")
			mustWrite(t, filepath.Join(o.Out, "notes.txt"), "mine, too")
			mustRefuse(t, o, path, "--overwrite")
			if got := contents(t, o.Out); got[name] != "mine" || len(got) != 2 || exists(o.Work) {
				t.Errorf("after the refusal: %d files, %q", len(got), got[name])
			}
			o.Overwrite = true
			report, _ := mustRun(t, o)
			checkModel(t, o, report.Outputs[0])
			got := contents(t, o.Out)
			if got[name] == "mine" || got["notes.txt"] != "mine, too" || len(got) != 4 || got["tokenizer.json"] != "a tokenizer" {
				t.Errorf("then: %d files, %q", len(got), got[name])
			}
			o.Overwrite = false
			mustRun(t, o) // which finds its own
		})
	}
}

// Links and what is no file are in the way, too, and what they lead to stays.
func TestLinksInTheWay(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = t.TempDir()
	before := contents(t, o.Source)
	mustLink(t, filepath.Join(o.Source, "config.json"), filepath.Join(o.Out, "config.json"))
	mustLink(t, filepath.Join(o.Source, "model.safetensors"), filepath.Join(o.Out, "output.safetensors"))
	mustRefuse(t, o, filepath.Join(o.Out, "config.json"))
	o.Overwrite = true
	mustRun(t, o)
	mustEqual(t, contents(t, o.Source), before)
	if len(contents(t, o.Out)) != 2 {
		t.Error("the links are still there")
	}
}

// A file that is there does not become the measurement.
func TestMeasurementInTheWay(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.SaveMeasurement = filepath.Join(t.TempDir(), "m.json")
	mustWrite(t, o.SaveMeasurement, "mine")
	mustRefuse(t, o, o.SaveMeasurement)
	o.Overwrite = true
	mustRun(t, o)
	o.Overwrite = false
	mustRun(t, o)
	o.SaveMeasurement = filepath.Join(o.jobDir(), "measurement.json")
	mustRefuse(t, o, "job's own folder")
	o.SaveMeasurement = filepath.Join(t.TempDir(), "missing", "m.json")
	if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); err != nil {
		t.Error(err)
	}
}

// From the first change of another model's folder to the last file of ours there
// is no config.json, so that nothing loads.
func TestNothingLoadsMeanwhile(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
	o.Out, o.Overwrite = t.TempDir(), true
	for _, name := range []string{"config.json", "output.safetensors", "tokenizer.json"} {
		mustWrite(t, filepath.Join(o.Out, name), "another model's")
	}
	var order []string
	defer func() { atomicfile.BeforeRename = nil }()
	atomicfile.BeforeRename = func(path string) {
		if filepath.Dir(path) != o.Out {
			return
		}
		order = append(order, filepath.Base(path))
		if exists(filepath.Join(o.Out, "config.json")) {
			t.Errorf("%s comes while config.json is there", path)
		}
	}
	mustRun(t, o)
	if got := strings.Join(order, " "); got != "output.safetensors tokenizer.json config.json" {
		t.Errorf("written: %s", got)
	}
}

// Links in the source are followed within it, and to the blobs of its cache.
func TestLinksInSource(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	mustWrite(t, secret, "not the model's")
	for name, c := range map[string]struct {
		change func(t *testing.T, o *Options)
		want   string // "": it converts
	}{
		"out of it": {func(t *testing.T, o *Options) { mustLink(t, secret, filepath.Join(o.Source, "vocab.txt")) }, "vocab.txt leads out of the model to " + secret},
		"out of it by two": {func(t *testing.T, o *Options) {
			mustLink(t, "b", filepath.Join(o.Source, "a"))
			mustLink(t, secret, filepath.Join(o.Source, "b"))
		}, "a leads out of the model to " + secret},
		"config.json, out of it": {func(t *testing.T, o *Options) {
			config, outside := filepath.Join(o.Source, "config.json"), filepath.Join(t.TempDir(), "config.json")
			if err := os.Rename(config, outside); err != nil {
				t.Fatal(err)
			}
			mustLink(t, outside, config)
		}, "config.json leads out"},
		"to nothing": {func(t *testing.T, o *Options) { mustLink(t, "missing", filepath.Join(o.Source, "merges.txt")) }, "merges.txt leads to nothing"},
		"within it": {func(t *testing.T, o *Options) {
			mustWrite(t, filepath.Join(o.Source, "a.txt"), "a")
			mustLink(t, "a.txt", filepath.Join(o.Source, "b.txt"))
		}, ""},
		"into its cache": {func(t *testing.T, o *Options) {
			mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
			o.Source, _ = cached(t, o.Source)
		}, ""},
		"out of a folder of its snapshot into its cache": {func(t *testing.T, o *Options) {
			mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
			snapshot, blobs := cached(t, o.Source)
			o.Source = filepath.Join(snapshot, "fp16", "hf")
			if err := os.MkdirAll(o.Source, 0o777); err != nil {
				t.Fatal(err)
			}
			for name := range contents(t, blobs) {
				mustLink(t, filepath.Join("..", "..", "..", "..", "blobs", name), filepath.Join(o.Source, strings.TrimPrefix(name, "blob-of-")))
			}
		}, ""},
		"into its cache, whose blobs are on another disk": {func(t *testing.T, o *Options) {
			mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
			snapshot, blobs := cached(t, o.Source)
			disk := filepath.Join(t.TempDir(), "disk")
			if err := os.Rename(blobs, disk); err != nil {
				t.Fatal(err)
			}
			mustLink(t, disk, blobs)
			o.Source = snapshot
		}, ""},
		"into another cache": {func(t *testing.T, o *Options) {
			_, blobs := cached(t, o.Source)
			mustLink(t, filepath.Join(blobs, "blob-of-config.json"), filepath.Join(o.Source, "other.json"))
		}, "other.json leads out"},
		"a folder": {func(t *testing.T, o *Options) { mustLink(t, ".", filepath.Join(o.Source, "self")) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			o := options(t, sourceModel(t, "llama"), "4.0")
			c.change(t, o)
			if c.want != "" {
				mustRefuse(t, o, c.want)
				return
			}
			report, _ := mustRun(t, o)
			checkModel(t, o, report.Outputs[0])
			for name := range contents(t, o.Source) {
				if exists(filepath.Join(o.Source, name)) && !isWeights(name) && !exists(filepath.Join(o.Work, name)) {
					t.Errorf("%s was not copied", name)
				}
			}
		})
	}
}

// Weights in other formats and archives stay where they are, and so does what is
// too large; the rest is copied.
func TestOtherFiles(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	for _, name := range []string{"tokenizer.json", "README.md", "notes.en.txt", "pytorch_model.bin", "model.safetensors.index.json", "original.ZIP", "tf_model.h5", "model.onnx_data", "weights.tar.gz", "x.GGUF", ".gitattributes"} {
		mustWrite(t, filepath.Join(o.Source, name), name)
	}
	if err := os.Remove(filepath.Join(o.Source, "model.safetensors.index.json")); err != nil { // it would be read
		t.Fatal(err)
	}
	huge := filepath.Join(o.Source, "huge.txt")
	mustWrite(t, huge, "")
	if err := os.Truncate(huge, 3<<30); err != nil {
		t.Fatal(err)
	}
	_, w := mustRun(t, o)
	if len(w.warnings) != 1 || !strings.Contains(w.warnings[0], "huge.txt is not copied: 3.2 GB") {
		t.Errorf("warnings %q", w.warnings)
	}
	got := contents(t, o.Work)
	for _, name := range []string{"tokenizer.json", "README.md", "notes.en.txt"} {
		if got[name] != name {
			t.Errorf("%s: %q", name, got[name])
		}
	}
	if len(got) != 5 {
		t.Errorf("%d files, want three others, config.json and the weights", len(got))
	}
}

// The measurement replaces nothing of a model, neither of the one that the job has made
// nor of the source, whatever is said of overwriting; and it is replaced by none.
func TestMeasurementAmongModels(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	mustWrite(t, filepath.Join(o.Source, "tokenizer.json"), "a tokenizer")
	o.Out = t.TempDir()
	mustRun(t, o)
	model, source := contents(t, o.Out), contents(t, o.Source)
	link := filepath.Join(t.TempDir(), "link")
	mustLink(t, o.Out, link)
	measure := func(path string, overwrite, restart bool) error {
		only := *o
		only.SaveMeasurement, only.Overwrite, only.Restart = path, overwrite, restart
		_, err := measureOn(context.Background(), on(openCPU(t)), &only, &watcher{})
		return err
	}
	for _, c := range []struct{ path, want string }{
		{filepath.Join(o.Out, "output.safetensors"), "is a file of a model that this job makes"},
		{filepath.Join(o.Out, "config.json"), "is a file of a model that this job makes"},
		{filepath.Join(o.Out, "tokenizer.json"), "is a file of a model that this job makes"},
		{filepath.Join(link, "output.safetensors"), "is a file of a model that this job makes"},
		{filepath.Join(o.Source, "measurement.json"), "is in the folder of the model to convert"},
		{filepath.Join(o.Source, "config.json"), "is in the folder of the model to convert"},
		{filepath.Join(o.Work, "job", "m.json"), "is in the job's own folder"},
	} {
		for _, restart := range []bool{false, true} {
			for _, overwrite := range []bool{false, true} {
				if err := measure(c.path, overwrite, restart); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), c.want) {
					t.Errorf("%s: error %v, want %q", c.path, err, c.want)
				}
			}
		}
	}
	mustEqual(t, contents(t, o.Out), model)
	mustEqual(t, contents(t, o.Source), source)

	// Beside the model it may be, again and again, and after a restart.
	beside := filepath.Join(o.Out, "m.json")
	for _, restart := range []bool{false, false, true} {
		if err := measure(beside, false, restart); err != nil {
			t.Errorf("restart %v: %v", restart, err)
		}
	}
	mustWrite(t, beside, "mine")
	if err := measure(beside, false, false); !errors.Is(err, ErrRefused) {
		t.Errorf("an edited measurement: error %v", err)
	}
}

// A model does not replace the measurement that its job has saved where its files go.
func TestModelOverMeasurement(t *testing.T) {
	for _, name := range []string{"config.json", "output.safetensors", "other.safetensors"} {
		o := options(t, sourceModel(t, "llama"), "4.0")
		o.Out = t.TempDir()
		only := *o
		only.SaveMeasurement = filepath.Join(o.Out, name)
		if _, err := measureOn(context.Background(), on(openCPU(t)), &only, &watcher{}); err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, o, only.SaveMeasurement+" is the measurement", "--overwrite")
		o.Overwrite = true
		report, _ := mustRun(t, o)
		checkModel(t, o, report.Outputs[0])
	}
}

// A measurement in the place of a finished model's file, as earlier versions have put it
// there, is not taken for the model.
func TestMeasurementInModel(t *testing.T) {
	for _, name := range []string{"config.json", "output.safetensors"} {
		o := options(t, sourceModel(t, "llama"), "4.0")
		mustRun(t, o)
		want, path := contents(t, o.Work), filepath.Join(o.Work, name)
		j := openJob(t, o)
		if err := j.Write(path, func(w io.Writer) error {
			_, err := io.WriteString(w, contents(t, o.jobDir())["measurement.json"])
			return err
		}); err != nil {
			t.Fatal(err)
		}
		j.Close()
		mustRefuse(t, o, path+" is the measurement")
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		mustRun(t, o)
		mustEqual(t, contents(t, o.Work), want)
	}
}
