package convert

import "golang.org/x/sys/windows"

// freeDisk returns the bytes that are free for this user where dir is, and
// whether that is known.
var freeDisk = func(dir string) (int, bool) {
	path, err := windows.UTF16PtrFromString(dir)
	if err != nil {
		return 0, false
	}
	var free uint64
	if err := windows.GetDiskFreeSpaceEx(path, &free, nil, nil); err != nil {
		return 0, false
	}
	return int(free), true
}
