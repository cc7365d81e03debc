package main

import (
	"path/filepath"
	"slices"
	"strings"
)

// settled returns a path to write to without names that ".." takes back, which would be
// made on the way: missing/../model is model, and is checked as that. Links are followed
// first, as the system does.
func settled(path string) string {
	parts := strings.Split(filepath.ToSlash(path), "/")
	named := slices.IndexFunc(parts, func(p string) bool { return p != "" && p != "." && p != ".." })
	if named < 0 || !slices.Contains(parts[named:], "..") {
		return path
	}
	done := strings.Join(parts[:named], "/")
	if done == "" && filepath.IsAbs(path) {
		done = "/"
	}
	for _, p := range parts[named:] {
		if p == ".." {
			if real, err := filepath.EvalSymlinks(done); err == nil {
				done = real
			}
		}
		done = filepath.Join(done, p)
	}
	return done
}
