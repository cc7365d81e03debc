package atomicfile

import (
	"os"

	"golang.org/x/sys/unix"
)

// begin has the system begin to write a range of a file to disk, so that less is left
// when the file is synced. It is a hint: errors are those of the sync.
func begin(f *os.File, off, n int64) {
	unix.SyncFileRange(int(f.Fd()), off, n, unix.SYNC_FILE_RANGE_WRITE)
}
