package convert

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// jobStates makes a model and keeps the job's folder as it was when the job was
// half measured, half quantized, and all but joined.
func jobStates(f *testing.F) (*Options, []string) {
	o := options(f, sourceModel(f, "llama"), "4.0")
	job := filepath.Join(o.Work, "job")
	var states []string
	w := &watcher{}
	w.step = func() {
		if w.stage == "measure" && w.done == 3 || w.stage == "quantize 4.0" && (w.done == 2 || w.done == 5) { // of 4, and of 5
			states = append(states, filepath.Join(f.TempDir(), "state"))
			if err := os.CopyFS(states[len(states)-1], os.DirFS(job)); err != nil {
				f.Fatal(err)
			}
		}
	}
	if _, err := runOn(context.Background(), on(openCPU(f)), o, w); err != nil {
		f.Fatal(err)
	}
	head := filepath.Join("4.0", "head.json") // follows the last step
	copyFile(f, filepath.Join(states[2], head), filepath.Join(job, head))
	return o, states
}

// filesOf lists the files of a folder, in order, by their paths in it.
func filesOf(f *testing.F, dir string) []string {
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, path)
		}
		return err
	})
	if err != nil {
		f.Fatal(err)
	}
	return list
}

// linkTree makes a folder of the same files, which nothing changes in place.
func linkTree(t *testing.T, to, from string, files []string) {
	for _, name := range files {
		if err := os.MkdirAll(filepath.Join(to, filepath.Dir(name)), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.Link(filepath.Join(from, name), filepath.Join(to, name)); err != nil {
			t.Fatal(err)
		}
	}
}

// Whatever is in one of a job's files, a run goes on, or ends with an error of
// one line. Runs are stopped after the first step that was not done before.
func FuzzJobFiles(f *testing.F) {
	done, states := jobStates(f)
	var files [][]string
	for i, dir := range states {
		files = append(files, filesOf(f, dir))
		for k, name := range files[i] {
			if data, err := os.ReadFile(filepath.Join(dir, name)); err == nil && len(data) < 1<<15 {
				f.Add(uint(i), uint(k), data)
			}
			f.Add(uint(i), uint(k), []byte("{}"))
		}
	}
	f.Fuzz(func(t *testing.T, state, file uint, data []byte) {
		i := state % uint(len(states))
		o := *done
		o.Work = t.TempDir()
		job := filepath.Join(o.Work, "job")
		linkTree(t, job, states[i], files[i])
		path := filepath.Join(job, files[i][file%uint(len(files[i]))])
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		w := &watcher{}
		w.step = func() {
			if !strings.HasSuffix(w.steps[len(w.steps)-1], "done before") {
				cancel()
			}
		}
		if _, err := runOn(ctx, on(openCPU(t)), &o, w); err != nil && strings.Contains(err.Error(), "\n") {
			t.Fatalf("error of several lines: %q", err)
		}
	})
}
