//go:build !unix && !windows

package machine

import "time"

// ProcessorTime is not known here.
func ProcessorTime() time.Duration { return 0 }
