package regular

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// WithSuffix lists the entries of a folder whose names end in suffix, sorted, with
// the folder in front; none if there is no such folder.
func WithSuffix(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err = led(dir, err); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	var paths []string
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), suffix) {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	return paths, err
}
