package convert

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/device/devtest"
)

// openFiles lists the files that this process has open, by their names.
func openFiles(t *testing.T) (names []string) {
	t.Helper()
	const folder = "/proc/self/fd"
	list, err := os.ReadDir(folder)
	if err != nil {
		t.Skip("this system does not tell what files are open")
	}
	for _, e := range list {
		// what the runtime has opened for itself, and the folder that is being listed, which is closed by now, are no files
		if name, err := os.Readlink(filepath.Join(folder, e.Name())); err == nil && filepath.IsAbs(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Wherever a job ends, at its end, by an interruption after any step or by an
// error, what it took of the device and of files is given back.
func TestEverythingIsFreed(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	for stop := 0; ; {
		o := options(t, source, "4.0")
		o.Data.File, o.conditions.inMemory = data, 0 // hidden states are files
		d := devtest.Counting(openCPU(t))
		ctx, cancel := context.WithCancel(context.Background())
		files, w := openFiles(t), &watcher{}
		w.step = func() {
			if len(w.steps) > stop {
				cancel()
			}
		}
		_, err := runOn(ctx, on(d), o, w)
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if live := d.Live(); len(live) > 0 || d.Faults() != nil || !slices.Equal(openFiles(t), files) {
			t.Fatalf("after %d steps (%v): not freed: %q; %v; open are %q, were %q", len(w.steps), err, live, d.Faults(), openFiles(t), files)
		}
		if err == nil {
			return
		}
		stop = len(w.steps)
	}
}

// So it is where a module cannot be loaded or written.
func TestEverythingIsFreedOnErrors(t *testing.T) {
	for name, spoil := range map[string]func(t *testing.T, o *Options, w *watcher){
		"the source is cut": func(t *testing.T, o *Options, w *watcher) {
			if err := os.Truncate(o.Source+"/model.safetensors", 20000); err != nil {
				t.Fatal(err)
			}
		},
		"the job's folder is gone": func(t *testing.T, o *Options, w *watcher) {
			if err := os.RemoveAll(o.Work); err != nil {
				t.Fatal(err)
			}
		},
	} {
		for _, stage := range []string{"measure", "quantize 4.0"} {
			t.Run(name+", "+strings.Fields(stage)[0], func(t *testing.T) {
				o := options(t, sourceModel(t, "llama"), "4.0")
				o.conditions.inMemory = 0
				d := devtest.Counting(openCPU(t))
				files, w := openFiles(t), &watcher{}
				w.step = func() {
					if w.stage == stage && w.done == 2 {
						spoil(t, o, w)
					}
				}
				if _, err := runOn(context.Background(), on(d), o, w); err == nil {
					t.Fatal("it ended well")
				}
				if live := d.Live(); len(live) > 0 || d.Faults() != nil || !slices.Equal(openFiles(t), files) {
					t.Errorf("not freed: %q; %v; open are %q, were %q", live, d.Faults(), openFiles(t), files)
				}
			})
		}
	}
}
