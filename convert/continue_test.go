package convert

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// measureOnly measures in the folder of a job, and stops after some steps.
func measureOnly(t *testing.T, o Options, steps int) {
	t.Helper()
	o.Targets, o.HeadBits, o.Data.Rows, o.Data.Length = nil, 8, 3, 32 // without meaning there
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	w := &watcher{}
	w.step = func() {
		if len(w.steps) == steps {
			cancel()
		}
	}
	if _, err := measureOn(ctx, on(openCPU(t)), &o, w); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// A conversion continues what was measured in its folder, all or half, and ends
// with the bytes of one that did it all.
func TestMeasureThenConvert(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	job := func() Options {
		o := options(t, source, "3.5", "5")
		o.Data.File, o.Out = data, filepath.Join(filepath.Dir(o.Work), "model")
		return *o
	}
	straight := job()
	mustRun(t, &straight)
	want := outputs(t, straight)
	for name, c := range map[string]struct{ steps, measured int }{"all": {0, 4}, "half": {2, 2}, "sensitivities": {7, 4}} {
		t.Run(name, func(t *testing.T) {
			o := job()
			measureOnly(t, o, c.steps)
			_, w := mustRun(t, &o)
			mustEqual(t, outputs(t, o), want)
			again := 0
			for _, s := range w.steps {
				if strings.HasPrefix(s, "measure ") && !strings.HasSuffix(s, "done before") {
					again++
				}
			}
			if again != 4-c.measured {
				t.Errorf("%d sublayers measured, want %d", again, 4-c.measured)
			}
			measureOnly(t, o, 1) // which has nothing left to do, and spoils nothing
			mustEqual(t, outputs(t, o), want)
		})
	}
}

// A run that is interrupted before hidden states are written does not measure again what has
// been measured, on the way to the head and back, however often it is: the bytes are the same.
func TestMeasuredIsKept(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	job := func() Options {
		o := options(t, source, "3.5")
		o.conditions.every = time.Hour
		o.Data.File, o.Out = data, filepath.Join(filepath.Dir(o.Work), "model")
		return *o
	}
	straight, o := job(), job()
	mustRun(t, &straight)
	const steps = 4 + 5 // sublayers there; head and sublayers back
	for before := range steps {
		ctx, cancel := context.WithCancel(context.Background())
		w := &watcher{}
		w.step = func() {
			last := w.steps[len(w.steps)-1]
			if done := strings.HasSuffix(last, "done before"); done != (len(w.steps) <= before) {
				t.Errorf("step %d, %s, when %d have been done", len(w.steps), last, before)
			}
			if len(w.steps) > before {
				cancel()
			}
		}
		if _, err := runOn(ctx, on(openCPU(t)), &o, w); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	mustRun(t, &o)
	mustEqual(t, outputs(t, o), outputs(t, straight))
}

// What measuring depends on must be the same.
func TestMeasureThenConvertOtherwise(t *testing.T) {
	o := *options(t, sourceModel(t, "llama"), "4.0")
	measureOnly(t, o, 1)
	for flag, change := range map[string]func(o *Options){
		"--measurement-rows": func(o *Options) { o.Data.MeasureRows = 2 },
		"--cal-dataset":      func(o *Options) { o.Data.File = "other.txt" },
		"--rope-scale":       func(o *Options) { o.RopeScale = 2 },
	} {
		other := o
		change(&other)
		if _, err := runOn(context.Background(), on(openCPU(t)), &other, &watcher{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: error %v", flag, err)
		}
	}
}

// A job that is worked on is refused to a second process, restart or not, and
// free again afterwards.
func TestSecondProcess(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	tried := 0
	w := &watcher{step: func() {
		if tried++; tried > 2 {
			return
		}
		second := *o
		second.Restart = tried == 2
		_, err := runOn(context.Background(), on(openCPU(t)), &second, &watcher{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "another process is working on the job in "+o.Work) {
			t.Errorf("error %v", err)
		}
	}}
	if _, err := runOn(context.Background(), on(openCPU(t)), o, w); err != nil || tried < 2 {
		t.Fatalf("error %v after %d tries", err, tried)
	}
	mustRun(t, o)
}

// Both ends of the range that a refusal names are accepted, and nothing past
// them.
func TestRangeIsAccepted(t *testing.T) {
	src, err := openSource(options(t, sourceModel(t, "llama")))
	if err != nil {
		t.Fatal(err)
	}
	defer src.close()
	lo, hi := limits(src.unmeasured())
	for _, lo := range []int{lo, lo + 1, lo + 997} {
		var least, most float64
		text := src.reachable(lo, hi, []Target{{"99", 99}}).Error()
		if _, err := fmt.Sscanf(text[strings.Index(text, "can have"):], "can have %g to %g", &least, &most); err != nil {
			t.Fatal(err)
		}
		for bits, want := range map[float64]bool{least: true, most: true, (least + most) / 2: true, least - 0.001: false, most + 0.001: false} {
			if got := src.reachable(lo, hi, []Target{{"", bits}}) == nil; got != want {
				t.Errorf("%v: accepted %v, want %v (%v to %v)", bits, got, want, least, most)
			}
		}
	}
}

// A conversion that goes on after its head still says which sublayers are to
// blame for a damaged result.
func TestAlarmAfterResuming(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = t.TempDir()
	obstacle := filepath.Join(o.Out, "model.safetensors")
	w := &watcher{}
	w.step = func() {
		if len(w.steps) == 4+5+1 { // the first of quantizing
			if err := os.WriteFile(obstacle, nil, 0o666); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := runOn(context.Background(), on(openCPU(t)), o, w); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), obstacle) {
		t.Fatalf("error %v", err)
	}
	if err := os.Remove(obstacle); err != nil {
		t.Fatal(err)
	}
	j := openJob(t, o)
	if err := j.WriteJSON("4.0/head.json", headReport{300, 100}); err != nil {
		t.Fatal(err)
	}
	j.Close()
	_, w = mustRun(t, o)
	if len(w.warnings) != 1 {
		t.Fatalf("warnings %q", w.warnings)
	}
	before, worst, _ := strings.Cut(w.warnings[0], "; the largest errors: ")
	named := map[string]bool{}
	for i, word := range strings.Fields(worst) {
		if i%2 == 0 { // a name, then its error
			named[word] = strings.HasPrefix(word, "model.layers.")
		}
	}
	if !strings.HasSuffix(before, "3.00 times the source's 100") || len(named) != 3 {
		t.Errorf("warning %q", w.warnings[0])
	}
}

// reader interrupts a run while it reads the source.
type reader struct {
	*watcher
	interrupt func()
}

func (r reader) Step(what, note string) {
	r.watcher.Step(what, note)
	if r.stage == readingStage {
		r.interrupt()
	}
}

// A run that is interrupted before it begins again has changed nothing, and says so.
func TestInterruptedBeforeRestart(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	mustRun(t, o)
	model, files := contents(t, o.Work), contents(t, o.jobDir())
	o.Restart = true
	ctx, cancel := context.WithCancel(context.Background())
	_, err := runOn(ctx, on(openCPU(t)), o, reader{&watcher{}, cancel})
	if !errors.Is(err, context.Canceled) || !errors.Is(err, ErrUnchanged) {
		t.Errorf("error %v, want an interruption that has changed nothing", err)
	}
	mustEqual(t, contents(t, o.Work), model)
	mustEqual(t, contents(t, o.jobDir()), files)
	w := &watcher{}
	ctx, cancel = context.WithCancel(context.Background())
	w.step = cancel
	if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) || errors.Is(err, ErrUnchanged) {
		t.Errorf("error %v, want an interruption of a job that has begun again", err)
	}
}
