//go:build linux || darwin

package convert

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lock opens a file, made if it is not there, and locks it until it is closed or
// the process ends, however it ends. errLocked says that another process has
// done so; a file system that cannot lock is no obstacle.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		f.Close()
		return nil, errLocked
	}
	return f, nil
}
