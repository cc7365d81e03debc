package convert

import (
	"context"
	"errors"
	"exl2/internal/model"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A job's folder has the options that continue the job, also after it has moved.
func TestResume(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	if _, err := measureOn(context.Background(), on(openCPU(t)), o, &watcher{}); err != nil {
		t.Fatal(err)
	}
	if asked, err := Resume(o.Work); err != nil || len(asked.Targets) != 0 {
		t.Fatalf("after measuring: %+v, error %v; want options without targets", asked, err)
	}
	o.Restart = true
	r, err := runOn(context.Background(), on(openCPU(t)), o, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	moved := filepath.Join(t.TempDir(), "moved")
	if err := os.Rename(o.Work, moved); err != nil {
		t.Fatal(err)
	}
	asked, err := Resume(moved)
	if err != nil {
		t.Fatal(err)
	}
	if asked.Restart || asked.Work != moved || len(asked.Targets) != 1 || asked.Targets[0] != o.Targets[0] {
		t.Errorf("resumed with %+v", asked)
	}
	again, err := runOn(context.Background(), on(openCPU(t)), asked, &watcher{})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := again.Outputs[0], r.Outputs[0]; got.FileBytes != want.FileBytes || got.Perplexity != want.Perplexity {
		t.Errorf("resumed: %+v, want %+v", got, want)
	}
	if _, err := Resume(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an empty folder: error %v", err)
	}
}

// A job goes on with names that are not UTF-8, which are any bytes on most systems.
func TestNamesOfAnyBytes(t *testing.T) {
	const name = "\xff %41\xc3"
	parent := t.TempDir()
	odd := func(base string) string { return filepath.Join(parent, base+name) }
	o := options(t, sourceModel(t, "llama"), "4.0")
	if err := os.CopyFS(odd("source"), os.DirFS(o.Source)); err != nil {
		t.Skip("no such names here: ", err)
	}
	mustWrite(t, filepath.Join(odd("source"), name+".txt"), "a note")
	data, err := os.ReadFile(o.Data.File)
	if err != nil {
		t.Fatal(err)
	}
	mustWrite(t, odd("data"), string(data))
	o.Source, o.Work, o.Out, o.Data.File = odd("source"), odd("work"), odd("out"), odd("data")
	first, _ := mustRun(t, o)
	for range 2 {
		asked, err := Resume(o.Work)
		if err != nil {
			t.Fatal(err)
		}
		asked.conditions = o.conditions
		again, err := runOn(context.Background(), on(openCPU(t)), asked, &watcher{})
		if err != nil {
			t.Fatal(err)
		}
		if again.Outputs[0] != first.Outputs[0] || again.Outputs[0].Path != o.Out {
			t.Errorf("resumed: %+v, want %+v", again.Outputs[0], first.Outputs[0])
		}
		if err := os.RemoveAll(o.Out); err != nil { // the second time it is made again
			t.Fatal(err)
		}
	}
	o.Restart = true
	mustRun(t, o)
}

// What no target can be met with is one number, not a range that ends below its
// beginning.
func TestReachableRange(t *testing.T) {
	s := &source{shapes: []model.LinearSpec{{Name: "model.layers.0.self_attn.q_proj", In: 64, Out: 64}}}
	size := 8.51 * 64 * 64
	err := s.reachable(int(size), int(size), []Target{{"4.0", 4}})
	if want := "refused: 4.0 bits per weight are out of reach: this model can have 8.527 only"; err == nil || err.Error() != want {
		t.Errorf("error %v, want %s", err, want)
	}
	if err := s.reachable(int(size), int(size), []Target{{"8.527", 8.527}}); err != nil {
		t.Errorf("8.527: %v", err)
	}
}
