package dylib

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// open looks for a bare name in the system's folder first, where drivers put
// their libraries, then where Windows looks. What a library with a path needs
// itself is looked for beside it. (Whether others see a library's functions is
// no question on Windows.)
func open(name string, _ bool) (Library, error) {
	flags := []uintptr{windows.LOAD_LIBRARY_SEARCH_SYSTEM32, 0}
	if filepath.IsAbs(name) {
		flags = []uintptr{windows.LOAD_WITH_ALTERED_SEARCH_PATH}
	}
	var err error
	for _, f := range flags {
		var handle windows.Handle
		if handle, err = windows.LoadLibraryEx(name, 0, f); err == nil {
			return Library{uintptr(handle)}, nil
		}
	}
	return Library{}, fmt.Errorf("%s: %w", name, err)
}

func (l Library) symbol(name string) (uintptr, error) {
	address, err := windows.GetProcAddress(windows.Handle(l.handle), name)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	return address, nil
}
