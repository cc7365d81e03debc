package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// Of the folders that were made those go again that are empty, and no others.
func TestMakeFolder(t *testing.T) {
	there := t.TempDir()
	for _, c := range []struct {
		name, file string // that somebody puts there
		left       []string
	}{
		{"empty", "", []string{"."}},
		{"a file in the innermost", "a/b/file", []string{".", "a", "a/b"}},
		{"a file in between", "a/file", []string{".", "a"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			root := filepath.Join(there, c.name)
			if err := os.Mkdir(root, 0o777); err != nil {
				t.Fatal(err)
			}
			remove, err := MakeFolder(filepath.Join(root, "a", "b"))
			if err != nil {
				t.Fatal(err)
			}
			if c.file != "" {
				if err := os.WriteFile(filepath.Join(root, c.file), nil, 0o666); err != nil {
					t.Fatal(err)
				}
			}
			remove()
			for _, dir := range []string{".", "a", "a/b"} {
				_, err := os.Stat(filepath.Join(root, dir))
				if is, want := err == nil, slices.Contains(c.left, dir); is != want {
					t.Errorf("%s is there: %v, want %v", dir, is, want)
				}
			}
		})
	}
}
