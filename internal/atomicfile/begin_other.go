//go:build !linux

package atomicfile

import "os"

// begin does nothing: elsewhere than on Linux there is no such hint.
func begin(*os.File, int64, int64) {}
