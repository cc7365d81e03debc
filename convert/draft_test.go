package convert

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/atomicfile"
	"exl2/internal/machine"
)

// While a model is quantized its files are being written; a run that is interrupted
// leaves nothing of them, and the one that goes on makes those of one that is not.
func TestDraft(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	made := func() *Options {
		o := options(t, source, "4.0")
		o.Data.File, o.Out = data, filepath.Join(t.TempDir(), "model")
		return o
	}
	straight := made()
	mustRun(t, straight)
	for name, before := range map[string][]string{"no folder": nil, "a folder": {"notes.txt"}} {
		t.Run(name, func(t *testing.T) {
			o := made()
			for _, file := range before {
				os.Mkdir(o.Out, 0o777)
				if err := os.WriteFile(filepath.Join(o.Out, file), []byte("mine"), 0o666); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(context.Background())
			w := &watcher{}
			w.step = func() {
				if w.stage == "quantize 4.0" && w.done == 3 {
					if !slices.ContainsFunc(names(t, o.Out), atomicfile.IsTemporary) {
						t.Errorf("while quantizing: %q", names(t, o.Out))
					}
					cancel()
				}
			}
			if _, err := runOn(ctx, on(openCPU(t)), o, w); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			if left := names(t, o.Out); !slices.Equal(left, before) {
				t.Errorf("%q are left, want %q", left, before)
			}
			mustRun(t, o)
			for file, text := range contents(t, straight.Out) {
				if strings.HasPrefix(file, "output") && contents(t, o.Out)[file] != text {
					t.Errorf("%s is another", file)
				}
			}
		})
	}
}

// A model of more files than may be open at a time has no draft, and the same files.
func TestDraftOfManyFiles(t *testing.T) {
	source, data := sourceModel(t, "llama"), tokenFile(t)
	made := func(megabyte int, step func(o *Options, w *watcher)) map[string]string {
		o := options(t, source, "4.0")
		o.Data.File, o.Out, o.ShardMB = data, filepath.Join(t.TempDir(), "model"), 1
		o.conditions.megabyte = megabyte
		w := &watcher{}
		w.step = func() { step(o, w) }
		if _, err := runOn(context.Background(), on(openCPU(t)), o, w); err != nil {
			t.Fatal(err)
		}
		return contents(t, o.Out)
	}
	for _, megabyte := range []int{1, 4096} { // a file for every tensor, and a few
		open := 0
		files := len(made(megabyte, func(o *Options, w *watcher) {
			if w.stage == "quantize 4.0" {
				open = max(open, len(names(t, o.Out)))
			}
		}))
		if many := files > draftFiles; many != (megabyte == 1) || many != (open == 0) {
			t.Errorf("%d files, of which %d are open while quantizing", files, open)
		}
	}
}

// What a run that was killed has left unfinished, in the job's folder or the model's, takes
// no room from the one that goes on.
func TestRoomOfLeftovers(t *testing.T) {
	o := options(t, sourceModel(t, "llama"), "4.0")
	o.Out = filepath.Join(t.TempDir(), "model")
	stopped(t, o, 4+5+2)
	const name = "output.safetensors.0123456789abcdef.exl2-partial"
	left := []string{filepath.Join(o.Out, name), filepath.Join(o.jobDir(), "measure", name)}
	os.Mkdir(o.Out, 0o777)
	for _, path := range left {
		mustWrite(t, path, "half")
	}
	o.conditions.disk = func(string) (machine.Disk, bool) {
		if slices.ContainsFunc(left, exists) {
			return machine.Disk{}, true
		}
		return machine.Disk{Free: math.MaxInt}, true
	}
	mustRun(t, o)
}

// names lists a folder, nothing if there is none.
func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}
