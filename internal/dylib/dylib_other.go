//go:build !linux && !darwin && !windows

package dylib

import "errors"

var errNone = errors.New("libraries cannot be loaded on this system")

func open(string, bool) (Library, error) { return Library{}, errNone }

func (Library) symbol(string) (uintptr, error) { return 0, errNone }
