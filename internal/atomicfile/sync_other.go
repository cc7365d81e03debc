//go:build !unix

package atomicfile

// syncFolder does nothing: elsewhere than on Unix folders cannot be synced.
func syncFolder(string) error { return nil }
