//go:build linux || darwin

package dylib

import "github.com/ebitengine/purego"

func open(name string, global bool) (Library, error) {
	mode := purego.RTLD_NOW | purego.RTLD_LOCAL
	if global {
		mode = purego.RTLD_NOW | purego.RTLD_GLOBAL
	}
	handle, err := purego.Dlopen(name, mode)
	return Library{handle}, err
}

func (l Library) symbol(name string) (uintptr, error) { return purego.Dlsym(l.handle, name) }
