//go:build unix

package regular

import "syscall"

// noWait opens a named pipe that has no writer at once.
const noWait = syscall.O_NONBLOCK
