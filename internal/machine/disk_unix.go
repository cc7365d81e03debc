//go:build unix

package machine

import (
	"path/filepath"

	"golang.org/x/sys/unix"
)

// DiskOf returns the file system that a folder is on, or will be once it is made,
// and whether that is known.
func DiskOf(dir string) (Disk, bool) {
	var s unix.Statfs_t
	var f unix.Stat_t
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Disk{}, false
	}
	for unix.Stat(dir, &f) == unix.ENOENT && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	if unix.Statfs(dir, &s) != nil || unix.Stat(dir, &f) != nil {
		return Disk{}, false
	}
	return Disk{ID: uint64(f.Dev), Free: int(s.Bavail) * int(s.Bsize)}, true
}
