//go:build unix

package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	for _, err := range []error{
		os.WriteFile(in("file"), []byte("text"), 0o666),
		os.WriteFile(in("pointer"), []byte(PointerHead+"v1\noid sha256:4d7a\nsize 12345\n"), 0o666),
		os.Symlink("file", in("link")),
		syscall.Mkfifo(in("pipe"), 0o666),
		os.Symlink("pipe", in("link to pipe")),
		os.Symlink("/dev/zero", in("link to device")),
		os.Symlink("nothing", in("link to nothing")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	cases := []struct{ path, want string }{
		{"file", ""},
		{"link", ""},
		{"pipe", "open pipe: a named pipe, not a regular file"},
		{"link to pipe", "open link to pipe: a named pipe, not a regular file"},
		{"link to device", "open link to device: a device, not a regular file"},
		{".", "open .: a folder, not a regular file"},
	}
	t.Chdir(dir)
	for _, c := range cases {
		t.Run(c.path, func(t *testing.T) {
			data, err := Read(c.path, 4)
			switch {
			case c.want == "" && (err != nil || string(data) != "text"):
				t.Errorf("read %q, %v", data, err)
			case c.want != "" && (err == nil || err.Error() != c.want):
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
	if _, err := Open("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("error %v, want one that it does not exist", err)
	}
	if list, err := WithSuffix("nothing", ""); list != nil || err != nil {
		t.Errorf("of no folder %v, %v", list, err)
	}
	_, opened := Open("link to nothing")
	_, listed := WithSuffix("link to nothing", "")
	for _, err := range []error{opened, listed, OptionalJSON("link to nothing", new(int))} {
		if err == nil || !strings.HasSuffix(err.Error(), "open link to nothing: a link to nothing, which is not there") || errors.Is(err, fs.ErrNotExist) {
			t.Errorf("error %v, want one of the link", err)
		}
	}
	if _, err := Read("pointer", 1<<10); err == nil || err.Error() != "read pointer: a Git LFS pointer, not the file itself: git lfs pull fetches that" {
		t.Errorf("error %v, want one about the pointer", err)
	}
	if _, err := Read("file", 3); err == nil || !strings.Contains(err.Error(), "read file: larger than 0 MB") {
		t.Errorf("error %v, want one of the size", err)
	}
}
