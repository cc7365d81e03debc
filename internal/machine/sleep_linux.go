package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// Sleep sleeps for a time, to some microseconds. (Go's own timers may round up to
// a millisecond, and the system's to 50 µs where a thread does not say that it minds.)
func Sleep(d time.Duration) {
	const slack = time.Microsecond
	unix.Prctl(unix.PR_SET_TIMERSLACK, uintptr(slack.Nanoseconds()), 0, 0, 0) // of the thread that the system's call is made by, which may be another one next time
	t := unix.NsecToTimespec(d.Nanoseconds())
	unix.Nanosleep(&t, nil) // a signal may end it early
}
