package regular

import (
	"os"
	"path/filepath"
	"strings"
)

// WithSuffix lists the entries of a folder whose names end in suffix, sorted, with
// the folder in front; none if there is no such folder.
func WithSuffix(dir, suffix string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
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
