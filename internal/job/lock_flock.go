//go:build linux || darwin

package job

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock opens a file, made if it is not there, and locks it until it is closed or
// the process ends, however it ends. errLocked says that another process has
// done so; a file system that cannot lock is no obstacle.
func lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
		if err != nil {
			return nil, err
		}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
			f.Close()
			return nil, errLocked
		}
		mine, err := f.Stat()
		if err != nil {
			f.Close()
			return nil, err
		}
		if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
			return f, nil
		}
		f.Close() // it was deleted by one who had it: another one counts
	}
}
