//go:build unix

package machine

import (
	"time"

	"golang.org/x/sys/unix"
)

// ProcessorTime returns the time that processors have worked for this process, all
// cores together, or 0 where that is not known.
func ProcessorTime() time.Duration {
	var r unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &r) != nil {
		return 0
	}
	return time.Duration(unix.TimevalToNsec(r.Utime) + unix.TimevalToNsec(r.Stime))
}
