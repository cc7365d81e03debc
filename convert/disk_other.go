//go:build !unix && !windows

package convert

// freeDisk is not known here.
var freeDisk = func(string) (int, bool) { return 0, false }
