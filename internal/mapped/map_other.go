//go:build !unix && !windows

package mapped

import (
	"fmt"
	"io"
	"os"
)

// mapFile reads the file: there is no mapping elsewhere than on Unix and Windows.
func mapFile(file *os.File, size int64) ([]byte, error) {
	all := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(file, 0, size), all); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTruncated, err)
	}
	return all, nil
}

func unmapFile([]byte) error { return nil }
