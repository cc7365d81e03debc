package main

import (
	"os"
	"path/filepath"
	"testing"
)

// What holds for two models is said once; what does not, of each.
func TestNotesAreSaidOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "stderr")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	a := &app{err: f}
	for _, text := range []string{"computing on the CPU", "one", "computing on the CPU", "two"} {
		a.note(text)
	}
	got, err := os.ReadFile(path)
	if want := "note: computing on the CPU\nnote: one\nnote: two\n"; err != nil || string(got) != want {
		t.Errorf("%q, %v, want %q", got, err, want)
	}
}
