//go:build unix

package convert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"exl2/internal/atomicfile"
	"exl2/internal/device"
)

// A crash is where a child process kills itself, as kill -9 would.
type crash struct {
	Options Options
	Step    int // after the step of this number, from 1

	FileLimit uint64 // no file can be larger, as on a full disk
}

const childVariable = "EXL2_TEST_CRASH"

func TestMain(m *testing.M) {
	if text := os.Getenv(childVariable); text != "" {
		os.Exit(child(text))
	}
	os.Exit(m.Run())
}

// child runs a job that kills itself on the way.
func child(text string) int {
	var c crash
	if err := json.Unmarshal([]byte(text), &c); err != nil {
		panic(err)
	}
	c.Options.conditions = conditionsOf()
	die := func() { syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }
	if c.FileLimit > 0 {
		signal.Ignore(syscall.SIGXFSZ)
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: c.FileLimit, Max: c.FileLimit}); err != nil {
			panic(err)
		}
	}
	steps := 0
	w := &watcher{step: func() {
		if steps++; steps == c.Step {
			die()
		}
	}}
	d, err := newCPU()
	if err == nil {
		_, err = runOn(context.Background(), on(d), &c.Options, w)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// start runs a child; killed tells how it ended.
func (c crash) start(t *testing.T) *exec.Cmd {
	t.Helper()
	text, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childVariable+"="+string(text))
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd
}

func killed(t *testing.T, err error) bool {
	t.Helper()
	var exit *exec.ExitError
	if err == nil {
		return false
	}
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGKILL {
		return true
	}
	t.Fatal(err)
	return false
}

// crashJob makes the options of a job, and what it writes when nothing happens.
func crashJob(t *testing.T) (func(t *testing.T) Options, map[string]string, time.Duration) {
	source := sourceModel(t, "llama")
	data := tokenFile(t)
	make := func(t *testing.T) Options {
		o := options(t, source, "3.5", "5")
		o.Data.File = data
		o.Out = filepath.Join(filepath.Dir(o.Work), "model")
		return *o
	}
	whole := make(t)
	begin := time.Now()
	if killed(t, crash{Options: whole}.start(t).Wait()) {
		t.Fatal("killed without reason")
	}
	return make, outputs(t, whole), time.Since(begin)
}

// finish runs a job to its end and compares with the one that was not killed.
func finish(t *testing.T, o Options, want map[string]string) {
	t.Helper()
	if killed(t, crash{Options: o}.start(t).Wait()) {
		t.Fatal("killed without reason")
	}
	if want != nil {
		mustEqual(t, outputs(t, o), want)
	}
}

// copyTree copies a folder.
func copyTree(t *testing.T, to, from string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
}

// Whatever is on disk before any rename and after any step, a job that is
// started again from it ends with the same bytes.
func TestAnyState(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "3.5", "5")
	base := filepath.Dir(o.Work)
	o.Out = filepath.Join(base, "model")
	var states []string
	snapshot := func() {
		dir := filepath.Join(t.TempDir(), "state")
		copyTree(t, dir, base)
		states = append(states, dir)
	}
	atomicfile.BeforeRename = func(string) { snapshot() }
	w := &watcher{}
	w.step = snapshot
	_, err := runOn(context.Background(), on(openCPU(t)), o, w)
	atomicfile.BeforeRename = nil
	if err != nil {
		t.Fatal(err)
	}
	want := outputs(t, *o)
	for i, state := range states {
		if err := os.RemoveAll(base); err != nil {
			t.Fatal(err)
		}
		copyTree(t, base, state)
		if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); err != nil {
			t.Fatalf("state %d of %d: %v", i, len(states), err)
		}
		mustEqual(t, outputs(t, *o), want)
	}
}

// Killed at ten random instants, likewise. Where a kill hits a finished job the
// next one hits a new job.
func TestKilledAtRandom(t *testing.T) {
	make, want, whole := crashJob(t)
	r := rand.New(rand.NewPCG(7, 11))
	o := make(t)
	for kills := 0; kills < 10; {
		cmd := crash{Options: o}.start(t)
		timer := time.AfterFunc(time.Duration(r.Float64()*0.6*float64(whole)), func() { cmd.Process.Kill() })
		if killed(t, cmd.Wait()) {
			kills++
			continue
		}
		timer.Stop()
		mustEqual(t, outputs(t, o), want)
		o = make(t)
	}
	finish(t, o, want)
}

// What only an unfinished job needs goes even if the job was killed just before
// deleting it.
func TestTidyAfterKill(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	mustRun(t, o)
	j := openJob(t, o)
	for _, name := range []string{"hidden.safetensors", "gradients.safetensors", "4.0/hidden.safetensors", "4.0/lm_head.safetensors"} {
		if err := j.Write(name, func(w io.Writer) error { _, err := w.Write([]byte("left over")); return err }); err != nil {
			t.Fatal(err)
		}
	}
	j.Close()
	want := contents(t, o.Work)
	mustRun(t, o)
	mustEqual(t, contents(t, o.Work), want)
	for _, dir := range []string{"job", "job/4.0"} {
		for name := range contents(t, filepath.Join(o.Work, dir)) {
			if filepath.Ext(name) == ".safetensors" && name != "calib.safetensors" {
				t.Errorf("%s/%s is still there", dir, name)
			}
		}
	}
}

// Killed by its own hand after a step of each stage, likewise.
func TestKilledInEachStage(t *testing.T) {
	make, want, _ := crashJob(t)
	o := make(t)
	// Steps: 4 measure, 5 sensitivities, 5 quantize for each target.
	for _, step := range []int{1, 2, 3, 4, 5, 2, 4, 6, 2, 6} {
		if !killed(t, crash{Options: o, Step: step}.start(t).Wait()) {
			t.Fatalf("step %d was not reached", step)
		}
	}
	finish(t, o, want)
}

// Killed while the source writes rows, it goes on behind those that are kept, and notices if
// they are not as they were.
func TestKilledInSampling(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	make := func() Options {
		o := options(t, source, "4.0")
		o.Data.File, o.Data.Length, o.SyntheticRows, o.Out = data, 16, 300, filepath.Join(filepath.Dir(o.Work), "model")
		return *o
	}
	whole, o, damaged := make(), make(), make()
	finish(t, whole, nil)
	for _, o := range []Options{o, damaged} {
		for range 2 {
			if !killed(t, crash{Options: o, Step: 18}.start(t).Wait()) {
				t.Fatal("it was not killed")
			}
		}
	}
	finish(t, o, nil)
	mustEqual(t, contents(t, o.Out), contents(t, whole.Out))
	mustWrite(t, filepath.Join(damaged.jobDir(), "synthetic.begun.safetensors"), "garbage")
	if _, err := runOn(context.Background(), on(openCPU(t)), &damaged, &watcher{}); err == nil || !strings.Contains(err.Error(), "synthetic.begun.safetensors: it is not as this job wrote it; --restart") {
		t.Errorf("error %v", err)
	}
}

// A disk that fills up ends the job with an error, and nothing half-made where
// a model is expected; once there is room it goes on.
func TestFullDisk(t *testing.T) {
	make, want, _ := crashJob(t)
	for _, limit := range []uint64{300, 9 << 10, 24 << 10, 60 << 10} {
		o := make(t)
		cmd := crash{Options: o, FileLimit: limit}.start(t)
		var exit *exec.ExitError
		if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 1 {
			t.Fatalf("files of %d bytes at most: %v", limit, err)
		}
		if _, err := os.Stat(filepath.Join(o.Out, "5bpw", "config.json")); err == nil {
			t.Error("a model seems to be there")
		}
		finish(t, o, want)
	}
}

// A job refuses to go on with other options, and says which.
func TestOtherOptions(t *testing.T) {
	make, _, _ := crashJob(t)
	o := make(t)
	if !killed(t, crash{Options: o, Step: 2}.start(t).Wait()) {
		t.Fatal("it was not killed")
	}
	for flag, change := range map[string]func(o *Options){
		"--bits":             func(o *Options) { o.Targets = o.Targets[:1] },
		"--head-bits":        func(o *Options) { o.HeadBits = 8 },
		"--dataset-rows":     func(o *Options) { o.Data.Rows = 7 },
		"--cal-dataset":      func(o *Options) { o.Data.File = "other.txt" },
		"--measurement-rows": func(o *Options) { o.Data.MeasureRows = 2 },
		"--shard-size":       func(o *Options) { o.ShardMB = 1 },
		"--rope-alpha":       func(o *Options) { o.RopeAlpha = 2 },
		"--measurement":      func(o *Options) { o.Measurement = "other.json" },
		"config.json has":    func(o *Options) { o.Source = sourceModel(t, "mistral") },
	} {
		other := o
		change(&other)
		_, err := runOn(context.Background(), on(openCPU(t)), &other, &watcher{})
		if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), flag) {
			t.Errorf("%s: error %v", flag, err)
		}
	}
}

// otherDevice is the CPU under another name, as with another BLAS.
type otherDevice struct{ device.Quantize }

func (otherDevice) Name() string { return "cpu, other BLAS" }

// A job refuses to go on with other arithmetic, whose results differ.
func TestOtherDevice(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	mustRun(t, o)
	_, err := runOn(context.Background(), on(otherDevice{openCPU(t)}), o, &watcher{})
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), `processor and its BLAS: "`+openCPU(t).Name()+`", not "cpu, other BLAS"`) {
		t.Errorf("error %v", err)
	}
}

// Started from another folder, --restart does not take the files there for its
// own because they have the same relative name.
func TestRestartElsewhere(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = "model"
	t.Chdir(t.TempDir())
	mustRun(t, o)
	t.Chdir(t.TempDir())
	if err := os.Mkdir("model", 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("model/config.json", []byte("mine"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "--compile-full") {
		t.Errorf("error %v", err)
	}
	o.Restart = true
	if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "config.json is there and this job did not write it") {
		t.Errorf("error %v", err)
	}
	if got, err := os.ReadFile("model/config.json"); err != nil || string(got) != "mine" {
		t.Errorf("%q, %v", got, err)
	}
}

// --restart deletes what this job wrote and what still is as it wrote it, and
// nothing else.
func TestRestart(t *testing.T) {
	make, want, _ := crashJob(t)
	o := make(t)
	finish(t, o, want)
	mine := map[string]string{
		filepath.Join(o.Work, "notes.txt"):                 "mine",
		filepath.Join(o.jobDir(), "notes.txt"):             "mine, too",
		filepath.Join(o.jobDir(), "kept.json"):             "{}",
		filepath.Join(o.jobDir(), "5", "1.json"):           "{}",
		filepath.Join(o.jobDir(), "5", "mine.safetensors"): "weights",
		filepath.Join(o.Out, "3.5bpw", "README.md"):        "and this",
		filepath.Join(o.Out, "5bpw", "other.json"):         "{}",
	}
	for name, text := range mine {
		mustWrite(t, name, text)
	}
	edited := filepath.Join(o.jobDir(), "5", "plan.json")
	mustWrite(t, edited, "{}")
	o.Restart = true
	o.HeadBits = 8
	if !killed(t, crash{Options: o, Step: 1}.start(t).Wait()) {
		t.Fatal("it was not killed")
	}
	mine[edited] = "{}"
	for name, text := range mine {
		if got, err := os.ReadFile(name); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"output.safetensors", "config.json"} {
		if exists(filepath.Join(o.Out, "5bpw", name)) {
			t.Errorf("the old %s is still there", name)
		}
	}
	o.HeadBits = 6
	finish(t, o, nil)
	if got, err := os.ReadFile(edited + ".kept"); err != nil || string(got) != "{}" {
		t.Errorf("the edited plan: %q, %v", got, err)
	}
	for name := range want {
		if got := outputs(t, o)[name]; got != want[name] {
			t.Errorf("%s differs", name)
		}
	}
}

// Restarting works whatever the list of files is worth, and does not take what it
// cannot know of for its own.
func TestRestartOfADamagedList(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = filepath.Join(filepath.Dir(o.Work), "model")
	mustRun(t, o)
	model := contents(t, o.Out)
	list := filepath.Join(o.jobDir(), "files.jsonl")
	mustWrite(t, list, "garbage\n"+contents(t, o.jobDir())["files.jsonl"])
	if _, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{}); err == nil || !strings.Contains(err.Error(), "files.jsonl: line 1 is not an entry; --restart") {
		t.Errorf("error %v", err)
	}
	o.Restart = true
	mustRun(t, o)
	mustEqual(t, contents(t, o.Out), model)

	mustWrite(t, list, "garbage\n")
	mustRefuse(t, o, filepath.Join(o.Out, "config.json")) // which may be anybody's now
	o.Overwrite = true
	_, w := mustRun(t, o)
	mustEqual(t, contents(t, o.Out), model)
	kept, err := filepath.Glob(filepath.Join(o.jobDir(), "*", "*.kept"))
	if err != nil || len(kept) == 0 || len(w.warnings) < len(kept) {
		t.Errorf("%d files are kept, %v, warnings %q", len(kept), err, w.warnings)
	}
}

// Killed anywhere while it begins again, a job that is started again with or
// without --restart ends with the bytes of a new one.
func TestKilledInRestart(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = filepath.Join(filepath.Dir(o.Work), "model")
	base := filepath.Dir(o.Work)
	mustRun(t, o)
	want := outputs(t, *o)
	saved := filepath.Join(t.TempDir(), "saved")
	copyTree(t, saved, base)
	r := rand.New(rand.NewPCG(3, 5))
	var names []string
	err := filepath.WalkDir(base, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && d.Name() != "files.jsonl" && d.Name() != "lock" && d.Name() != "job.json" {
			names = append(names, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 6 { // any part of the files may be gone, job.json is the last
		if err := os.RemoveAll(base); err != nil {
			t.Fatal(err)
		}
		copyTree(t, base, saved)
		for _, name := range names {
			if r.IntN(2) == 0 {
				if err := os.Remove(name); err != nil {
					t.Fatal(err)
				}
			}
		}
		again := *o
		again.Restart = true
		mustRun(t, &again)
		mustEqual(t, outputs(t, *o), want)
	}
}
