//go:build unix

package convert

import "golang.org/x/sys/unix"

// freeDisk returns the bytes that are free for this user where dir is, and
// whether that is known.
var freeDisk = func(dir string) (int, bool) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return 0, false
	}
	return int(s.Bavail) * int(s.Bsize), true
}
