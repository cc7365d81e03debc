//go:build unix

package job

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A named pipe in the place of a file of the job is an error, and is not waited for.
func TestPipesInTheJob(t *testing.T) {
	for _, name := range []string{settingsName, listName, "a.json"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j := open(t, dir)
			if err := j.Settle(first); err != nil {
				t.Fatal(err)
			}
			write(t, j, "a.json", "{}")
			j.Close()
			if err := errors.Join(os.Remove(filepath.Join(dir, name)), syscall.Mkfifo(filepath.Join(dir, name), 0o666)); err != nil {
				t.Fatal(err)
			}
			j, err := Open(dir)
			if err == nil {
				defer j.Close()
				if err = j.Compare(first); err == nil {
					_, err = j.ReadJSON("a.json", &struct{}{})
				}
			}
			if err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want one about %s", err, name)
			}
		})
	}
}

// What is no file is never replaced by one, with --overwrite neither.
func TestSpecialFilesInTheWay(t *testing.T) {
	work := t.TempDir()
	j := open(t, filepath.Join(work, "job"))
	defer j.Close()
	j.Overwrite = true
	folder, pipe, link := filepath.Join(work, "folder"), filepath.Join(work, "pipe"), filepath.Join(work, "link")
	if err := errors.Join(os.Mkdir(folder, 0o777), syscall.Mkfifo(pipe, 0o666), os.Symlink("pipe", link)); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{folder: folder + " is a folder, which no file replaces; move it away", pipe: pipe + " is a named pipe"} {
		if err := j.Write(path, text("the job's")); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
	write(t, j, link, "the job's")
	for path, want := range map[string]os.FileMode{folder: os.ModeDir, pipe: os.ModeNamedPipe, link: 0} {
		if info, err := os.Lstat(path); err != nil || info.Mode().Type() != want {
			t.Errorf("%s is %v, %v", path, info.Mode(), err)
		}
	}
}
