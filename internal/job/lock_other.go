//go:build !linux && !darwin && !windows

package job

import "os"

// lock opens a file, made if it is not there. It does not lock it here.
func lock(path string) (*os.File, error) { return os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o666) }
