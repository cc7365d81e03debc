//go:build unix

package mapped

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// mapFile maps the first size bytes of a file for reading.
func mapFile(file *os.File, size int64) ([]byte, error) {
	if int64(int(size)) != size {
		return nil, errors.New("too large to be mapped on a 32-bit machine")
	}
	return unix.Mmap(int(file.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
}

func unmapFile(mapped []byte) error { return unix.Munmap(mapped) }
