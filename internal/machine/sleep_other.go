//go:build !linux

package machine

import "time"

// Sleep sleeps for a time, as exactly as Go's timers do.
func Sleep(d time.Duration) { time.Sleep(d) }
