package convert

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// lock opens a file, made if it is not there, and locks it until it is closed or
// the process ends, however it ends. errLocked says that another process has
// done so; a file system that cannot lock is no obstacle.
func lock(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666)
	if err != nil {
		return nil, err
	}
	flags := uint32(windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY)
	err = windows.LockFileEx(windows.Handle(f.Fd()), flags, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		f.Close()
		return nil, errLocked
	}
	return f, nil
}
