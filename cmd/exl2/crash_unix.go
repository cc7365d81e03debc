//go:build unix

package main

import (
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"
)

// crashLoudly makes what nobody can recover, such as running out of memory, end
// in SIGABRT: the runtime's own exit code for it is the one of a wrong command
// line. There is no core file, which would be as large as the model.
func crashLoudly() {
	if os.Getenv("GOTRACEBACK") != "" {
		return
	}
	unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
	debug.SetTraceback("crash")
}
