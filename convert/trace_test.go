package convert

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"testing"
)

// Moments of columns that are in the job's files when it is interrupted stay there, and
// the model is that of a job that was not.
func TestTraceContinues(t *testing.T) {
	source := sourceModel(t, "llama")
	straight := options(t, source, "3.5")
	mustRun(t, straight)
	for _, stop := range []int{2, 5, 7, 8} {
		o := options(t, source, "3.5")
		ctx, cancel := context.WithCancel(context.Background())
		w := &watcher{}
		w.step = func() {
			if w.stage == "trace gradients" && w.done == stop {
				cancel()
			}
		}
		if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) {
			t.Fatalf("stopped at step %d: error %v", stop, err)
		}
		files, err := filepath.Glob(filepath.Join(o.jobDir(), "trace", "*.safetensors"))
		if err != nil || len(files) != max(0, stop-4) {
			t.Fatalf("stopped at step %d, %d files are there, %v", stop, len(files), err)
		}
		before := make([]os.FileInfo, len(files))
		for i, f := range files {
			if before[i], err = os.Stat(f); err != nil {
				t.Fatal(err)
			}
		}
		mustRun(t, o)
		for i, f := range files {
			if after, err := os.Stat(f); err != nil || !os.SameFile(before[i], after) {
				t.Errorf("stopped at step %d: %s was made again; %v", stop, f, err)
			}
		}
		if !maps.Equal(contents(t, o.folder(o.Targets[0])), contents(t, straight.folder(straight.Targets[0]))) {
			t.Errorf("stopped at step %d: another model", stop)
		}
	}
}
