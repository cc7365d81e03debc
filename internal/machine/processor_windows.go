package machine

import (
	"time"

	"golang.org/x/sys/windows"
)

// ProcessorTime returns the time that processors have worked for this process, all
// cores together, or 0 where that is not known.
func ProcessorTime() time.Duration {
	var begun, ended, kernel, user windows.Filetime
	if windows.GetProcessTimes(windows.CurrentProcess(), &begun, &ended, &kernel, &user) != nil {
		return 0
	}
	units := func(f windows.Filetime) int64 { return int64(f.HighDateTime)<<32 | int64(f.LowDateTime) }
	return 100 * time.Duration(units(kernel)+units(user))
}
