// Package atomicfile writes files that appear whole or not at all.
//
// The nouns: a [File] is written under a temporary name in the folder of its
// final path. Commit makes its bytes durable and renames it over the path, so
// that a reader sees the old file or the new one, never a part; Abort leaves
// the old file as it was. A temporary file that a crash left behind is known
// by its name ([IsTemporary]) and taken away by [Clean].
package atomicfile

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// BeforeRename, if not nil, is called by Commit with the final path when the
// temporary file is complete and durable but does not have its name yet.
// It exists for tests that kill the program at this point.
var BeforeRename func(path string)

// errDone is the state of a File after Commit or Abort.
var errDone = errors.New("file already committed or aborted")

// A File is a file that does not have its name yet. Its methods are not safe
// for concurrent use, except WriteAt on ranges that do not overlap.
type File struct {
	path string // where Commit puts it
	temp *os.File

	mu  sync.Mutex // of err, as WriteAt may be called from several sides
	err error      // the first failed write, or errDone

	complete func(content *os.File, durable func() error) error
}

// OnComplete has Commit call f with the file, which does not have its name yet; durable
// waits until its bytes are on the disk, on their way to which they may be read. An error
// of f stops it there.
func (f *File) OnComplete(call func(content *os.File, durable func() error) error) {
	f.complete = call
}

// Create starts a file that Commit will put at path, replacing what is there.
// The folder must exist.
func Create(path string) (*File, error) {
	for {
		temp, err := os.OpenFile(temporary(path), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o666)
		if errors.Is(err, fs.ErrExist) {
			continue // 64 random bits met a leftover: draw again
		}
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", path, cause(err))
		}
		claim(temp)
		return &File{path: path, temp: temp}, nil
	}
}

// Write puts data at path: Create, Write and Commit in one.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.Write(data); err != nil {
		return err
	}
	return f.Commit()
}

// Write appends p at the current offset.
func (f *File) Write(p []byte) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	n, err := f.temp.Write(p)
	return n, f.keep(err)
}

// worthwhile is from how many bytes on WriteAt asks the system to write them to disk.
const worthwhile = 1 << 20

// WriteAt writes p at byte off of the file. What is skipped reads as zeros.
func (f *File) WriteAt(p []byte, off int64) (int, error) {
	if err := f.failed(); err != nil {
		return 0, err
	}
	n, err := f.temp.WriteAt(p, off)
	if n >= worthwhile {
		begin(f.temp, off, int64(n))
	}
	return n, f.keep(err)
}

// Seek sets the offset of the next Write, as os.File.Seek does.
func (f *File) Seek(offset int64, whence int) (int64, error) {
	if f.err != nil {
		return 0, f.err
	}
	return f.temp.Seek(offset, whence)
}

// keep remembers the first failed write, named after the final path, so that
// Commit cannot publish a file with a hole in it.
func (f *File) keep(err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("write %s: %w", f.path, cause(err))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
	return err
}

// failed returns what Commit would fail with so far.
func (f *File) failed() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}

// cause is err without the temporary name that the operating system saw.
func cause(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Commit writes the file through to the disk, gives it its name, and writes
// the folder through as well. If any of this fails, or an earlier write
// failed, the old file is untouched, the temporary one is gone, and the error
// says why. The File is used up either way.
func (f *File) Commit() error {
	if f.err != nil {
		err := f.err
		f.Abort()
		return err
	}
	if err := f.publish(); err != nil {
		f.Abort()
		return fmt.Errorf("write %s: %w", f.path, cause(err))
	}
	f.err = errDone
	return syncFolder(filepath.Dir(f.path))
}

// publish is Commit up to and including the rename.
func (f *File) publish() error {
	synced := make(chan error, 1)
	go func() { synced <- f.temp.Sync() }()
	durable := sync.OnceValue(func() error { return <-synced })
	var err error
	if f.complete != nil {
		err = f.complete(f.temp, durable)
	}
	if err := errors.Join(err, durable()); err != nil {
		return err
	}
	if err := f.temp.Close(); err != nil {
		return err
	}
	if BeforeRename != nil {
		BeforeRename(f.path)
	}
	return os.Rename(f.temp.Name(), f.path)
}

// Abort drops the file. After Commit or another Abort it does nothing, so it
// can always be deferred.
func (f *File) Abort() {
	if errors.Is(f.err, errDone) {
		return
	}
	f.err = errDone
	// Closing fails only if Commit had closed the file; a temporary file that
	// cannot be removed is what Clean is for.
	f.temp.Close()
	os.Remove(f.temp.Name())
}

// suffix ends the name of every temporary file. In front of it stand a dot
// and randomDigits hexadecimal digits.
const (
	suffix       = ".exl2-partial"
	randomDigits = 16
)

// temporary returns a new temporary name for path, in its folder.
func temporary(path string) string {
	var r [randomDigits / 2]byte
	rand.Read(r[:])
	return path + "." + hex.EncodeToString(r[:]) + suffix
}

// IsTemporary says whether a file name is one that this package gives to
// files that are being written.
func IsTemporary(name string) bool {
	rest := len(name) - len(suffix) - randomDigits - 1
	if rest < 1 || name[len(name)-len(suffix):] != suffix || name[rest] != '.' {
		return false
	}
	_, err := hex.DecodeString(name[rest+1 : rest+1+randomDigits])
	return err == nil
}

// Clean removes the temporary files that crashes left in dir itself, not in
// its subfolders. Those that somebody is writing stay. A folder that does
// not exist is clean.
func Clean(dir string) error {
	entries, err := os.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if !e.Type().IsRegular() || !IsTemporary(e.Name()) || alive(path) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	return nil
}
