package atomicfile

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// names lists the files of dir.
func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		all = append(all, e.Name())
	}
	return all
}

// wantFolder checks that dir holds exactly the file "out" with this content.
func wantFolder(t *testing.T, dir, content string) {
	t.Helper()
	if got := names(t, dir); !slices.Equal(got, []string{"out"}) {
		t.Errorf("folder holds %q, want only out", got)
	}
	got, err := os.ReadFile(filepath.Join(dir, "out"))
	if err != nil || string(got) != content {
		t.Errorf("out = %q, %v, want %q", got, err, content)
	}
}

func old(t *testing.T) (dir, path string) {
	t.Helper()
	dir = t.TempDir()
	path = filepath.Join(dir, "out")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	return dir, path
}

func TestWriteReplaces(t *testing.T) {
	dir, path := old(t)
	if err := Write(path, []byte("new")); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, dir, "new")
}

func TestWriteCreates(t *testing.T) {
	dir := t.TempDir()
	if err := Write(filepath.Join(dir, "out"), nil); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, dir, "")
}

func TestWriteInPlaces(t *testing.T) {
	dir, path := old(t)
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Abort()
	steps := []func() error{
		func() error { _, err := f.WriteAt([]byte("xyz"), 4); return err },
		func() error { _, err := f.Write([]byte("abcd")); return err },
		func() error { _, err := f.Seek(-1, io.SeekEnd); return err },
		func() error { _, err := f.Write([]byte("Z!")); return err },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("before Commit the file reads %q, want old", got)
	}
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, dir, "abcdxyZ!")
}

func TestAbortLeavesTheOldFile(t *testing.T) {
	dir, path := old(t)
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("new")); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	f.Abort()
	wantFolder(t, dir, "old")
	if _, err := f.Write(nil); err == nil {
		t.Error("Write after Abort succeeds")
	}
	if err := f.Commit(); err == nil {
		t.Error("Commit after Abort succeeds")
	}
	wantFolder(t, dir, "old")
}

func TestAbortAfterCommitDoesNothing(t *testing.T) {
	dir, path := old(t)
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte("new"))
	if err := f.Commit(); err != nil {
		t.Fatal(err)
	}
	f.Abort()
	wantFolder(t, dir, "new")
	if err := f.Commit(); err == nil {
		t.Error("second Commit succeeds")
	}
}

// TestFullDisk lets the temporary file be a device that is always full.
func TestFullDisk(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no /dev/full on this system")
	}
	writes := map[string]func(f *File) error{
		"Write":   func(f *File) error { _, err := f.Write([]byte("new")); return err },
		"WriteAt": func(f *File) error { _, err := f.WriteAt([]byte("new"), 0); return err },
		"WriteAt from several sides": func(f *File) (err error) {
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() { f.WriteAt([]byte("new"), int64(8*i)) })
			}
			all.Wait()
			_, err = f.WriteAt([]byte("new"), 64)
			return err
		},
	}
	for name, write := range writes {
		t.Run(name, func(t *testing.T) {
			dir, path := old(t)
			f, err := Create(path)
			if err != nil {
				t.Fatal(err)
			}
			real := f.temp
			f.temp = full
			if err := write(f); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), path) {
				t.Errorf("error %q, want no space left, with the path", err)
			}
			f.temp = real
			if err := f.Commit(); !errors.Is(err, syscall.ENOSPC) {
				t.Errorf("Commit returns %v, want the failed write", err)
			}
			wantFolder(t, dir, "old")
		})
	}
}

func TestFailedRename(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	if err := os.MkdirAll(filepath.Join(path, "inside"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("new")); err == nil || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("writing over a folder: error %v, want one that names it", err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"out"}) {
		t.Errorf("folder holds %q, want only out", got)
	}
}

func TestNoFolder(t *testing.T) {
	path := filepath.Join(t.TempDir(), "missing", "out")
	if err := Write(path, nil); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), path+": ") {
		t.Errorf("error %v, want one that names the path and says that its folder is missing", err)
	}
}

// TestKilledBeforeRename runs itself as a second process that dies when its
// file is complete and has no name yet.
func TestKilledBeforeRename(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs a process that can kill itself")
	}
	if path := os.Getenv("ATOMICFILE_TEST_PATH"); path != "" {
		BeforeRename = func(string) {
			self, _ := os.FindProcess(os.Getpid())
			self.Kill()
			select {}
		}
		Write(path, []byte("new"))
		t.Fatal("survived")
	}
	dir, path := old(t)
	child := exec.Command(os.Args[0], "-test.run=^TestKilledBeforeRename$")
	child.Env = append(os.Environ(), "ATOMICFILE_TEST_PATH="+path)
	if err := child.Run(); err == nil || strings.Contains(err.Error(), "exit status") {
		t.Fatalf("the child ended with %v, want a signal", err)
	}
	if got := names(t, dir); len(got) != 2 || !IsTemporary(got[1]) {
		t.Fatalf("after the crash the folder holds %q, want out and a temporary file", got)
	}
	if err := Clean(dir); err != nil {
		t.Fatal(err)
	}
	wantFolder(t, dir, "old")
}

func TestCleanRemovesOnlyTemporaries(t *testing.T) {
	dir := t.TempDir()
	kept := []string{
		"out" + suffix,
		"out.0123" + suffix,
		"out.0123456789abcdeg" + suffix,
		".0123456789abcdef" + suffix,
		"out.0123456789abcdef" + suffix + ".txt",
		"out.safetensors",
	}
	for _, name := range append(kept, "out.0123456789abcdef"+suffix, filepath.Base(temporary("out"))) {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	folder := "sub.0123456789abcdef" + suffix
	if err := os.Mkdir(filepath.Join(dir, folder), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Clean(dir); err != nil {
		t.Fatal(err)
	}
	want := append(kept, folder)
	slices.Sort(want)
	if got := names(t, dir); !slices.Equal(got, want) {
		t.Errorf("left %q\nwant %q", got, want)
	}
}

// What somebody is writing is not what a crash has left.
func TestCleanSparesTheLiving(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	f, err := Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(temporary(path), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if runtime.GOOS == "windows" {
		t.Skip("files that are open cannot be removed")
	}
	if err := Clean(dir); err != nil {
		t.Fatal(err)
	}
	if n := len(names(t, dir)); n != 1 {
		t.Errorf("%d files are left, want that which is being written", n)
	}
	if err := f.Commit(); err != nil {
		t.Error(err)
	}
	wantFolder(t, dir, "")
}

func TestCleanOfAMissingFolder(t *testing.T) {
	if err := Clean(filepath.Join(t.TempDir(), "missing")); err != nil {
		t.Error(err)
	}
}
