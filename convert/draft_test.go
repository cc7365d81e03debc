package convert

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"exl2/internal/atomicfile"
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
