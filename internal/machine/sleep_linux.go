package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// Sleep sleeps for a time, to some tens of microseconds. (Go's own timers may round up to
// a millisecond.)
func Sleep(d time.Duration) {
	t := unix.NsecToTimespec(d.Nanoseconds())
	unix.Nanosleep(&t, nil) // a signal may end it early
}
