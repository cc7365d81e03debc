//go:build !unix && !windows

package machine

// DiskOf is not known here.
func DiskOf(string) (Disk, bool) { return Disk{}, false }
