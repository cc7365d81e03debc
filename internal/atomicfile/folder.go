package atomicfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// MakeFolder makes a folder, and those that it lies in. remove takes away again those
// that were not there before, as far as they are empty.
func MakeFolder(dir string) (remove func(), err error) {
	var made []string // the innermost first
	for d := dir; ; d = filepath.Dir(d) {
		if _, err := os.Stat(d); !errors.Is(err, fs.ErrNotExist) || d == filepath.Dir(d) {
			break
		}
		made = append(made, d)
	}
	remove = func() {
		for _, d := range made {
			os.Remove(d) // which fails where there are files
		}
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		remove()
		return nil, err
	}
	return remove, nil
}

// TryFolder writes to a folder, made if it is not there, and leaves nothing.
func TryFolder(dir string) error {
	remove, err := MakeFolder(dir)
	if err != nil {
		return err
	}
	defer remove()
	f, err := Create(filepath.Join(dir, "trial"))
	if err != nil {
		return fmt.Errorf("no file can be written to %s: %w; give another folder", dir, errors.Unwrap(err))
	}
	f.Abort()
	return nil
}
