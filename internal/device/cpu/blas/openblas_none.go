//go:build !((linux || darwin || windows) && (amd64 || arm64))

package blas

import "errors"

// libraries is empty: libraries are not loaded on this system.
var libraries []string

func openLibrary(string) (library, error) {
	return library{}, errors.New("libraries cannot be loaded on this system")
}
