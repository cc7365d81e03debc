package machine

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// DiskOf returns the volume that a folder is on, or will be once it is made, and
// whether that is known.
func DiskOf(dir string) (Disk, bool) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Disk{}, false
	}
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err != nil {
		return Disk{}, false
	}
	var free uint64
	var serial uint32
	if windows.GetDiskFreeSpaceEx(root, &free, nil, nil) != nil || windows.GetVolumeInformation(root, nil, 0, &serial, nil, nil, nil, 0) != nil {
		return Disk{}, false
	}
	return Disk{ID: uint64(serial), Free: int(free)}, true
}
