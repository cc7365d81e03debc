// Package regular opens regular files and nothing else. The files of a model
// come from anywhere: opening a named pipe waits for a writer that may never
// come, and a device may have no end.
package regular

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
)

// Open opens a regular file, or a link to one, for reading. What is something
// else is a *fs.PathError that says what it is.
func Open(path string) (*os.File, error) {
	// Some devices act on being opened, so the path is looked at first; it may
	// be something else a moment later, so the open file is looked at as well.
	info, err := os.Stat(path)
	if err == nil {
		err = check(path, info)
	}
	if err != nil {
		return nil, led(path, err)
	}
	f, err := os.OpenFile(path, os.O_RDONLY|noWait, 0)
	if err != nil {
		return nil, err
	}
	if info, err = f.Stat(); err == nil {
		err = check(path, info)
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// led says of what is not there if that is because a link leads to nothing, as in a cache whose
// files have gone. fs.ErrNotExist is not in its chain: who put the link there has meant a file.
func led(path string, err error) error {
	link, no := os.Readlink(path)
	if no != nil || !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("a link to %s, which is not there", link)}
}

// Read returns the bytes of a regular file that has at most limit of them.
func Read(path string, limit int64) ([]byte, error) {
	f, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := readAll(f, path, limit)
	if err == nil && IsPointer(data) {
		err = &fs.PathError{Op: "read", Path: path, Err: ErrPointer}
	}
	return data, err
}

// PointerHead begins what Git LFS leaves in the place of a large file that has not been fetched
// (github.com/git-lfs/git-lfs, docs/spec.md).
const PointerHead = "version https://git-lfs.github.com/spec/"

// ByteOrderMark may stand in front of a text in UTF-8 and is no part of it.
const ByteOrderMark = "\xef\xbb\xbf"

// ErrPointer says that a file is such a pointer, and what to do.
var ErrPointer = errors.New("a Git LFS pointer, not the file itself: git lfs pull fetches that")

// IsPointer reports whether a file that begins with head is one.
func IsPointer(head []byte) bool { return bytes.HasPrefix(head, []byte(PointerHead)) }

// ReadOwn returns the bytes of a regular file that the program has written itself, however
// many: in its place there may be something else by now.
func ReadOwn(path string) ([]byte, error) { return Read(path, math.MaxInt64-1) }

// errLarge is in the chain of errors about what is too large.
var errLarge = errors.New("larger than")

// ReadAll returns what is left of r, which may be without end, if that is at most
// limit bytes.
func ReadAll(r io.Reader, limit int64) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(data)) > limit {
		return nil, fmt.Errorf("%w %d MB", errLarge, limit>>20)
	}
	return data, err
}

// ReadFile is Read of a file that the user names, which may be a pipe.
func ReadFile(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, path, limit)
}

// readAll is ReadAll of an open file; its errors name the file.
func readAll(f *os.File, path string, limit int64) ([]byte, error) {
	data, err := ReadAll(f, limit)
	if errors.Is(err, errLarge) {
		err = &fs.PathError{Op: "read", Path: path, Err: err}
	}
	return data, err
}

func check(path string, info fs.FileInfo) error {
	if info.Mode().IsRegular() {
		return nil
	}
	return &fs.PathError{Op: "open", Path: path, Err: fmt.Errorf("%s, not a regular file", Kind(info.Mode()))}
}

// Kind names what is not a regular file.
func Kind(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a folder"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case mode&fs.ModeSocket != 0:
		return "a socket"
	case mode&fs.ModeDevice != 0:
		return "a device"
	}
	return "something special"
}
