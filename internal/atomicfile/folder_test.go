package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
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

// A folder that can be written to has nothing in it afterwards, and of another it is said.
func TestTryFolder(t *testing.T) {
	dir := t.TempDir()
	if err := TryFolder(filepath.Join(dir, "new", "folder")); err != nil {
		t.Error(err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) > 0 {
		t.Errorf("it leaves %v, %v", names, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, c := range [][2]string{{filepath.Join(file, "in"), file}, {"/proc", "no file can be written to /proc: "}} {
		if _, err := os.Stat("/proc"); err != nil && c[0] == "/proc" {
			continue
		}
		if err := TryFolder(c[0]); err == nil || !strings.Contains(err.Error(), c[1]) || strings.Contains(err.Error(), "trial") {
			t.Errorf("%s: error %v, want %q", c[0], err, c[1])
		}
	}
}
