package machine

import (
	"testing"
	"time"
)

// Work is seen, where it can be.
func TestProcessorTime(t *testing.T) {
	before := ProcessorTime()
	if before == 0 {
		t.Skip("not known here")
	}
	for start := time.Now(); time.Since(start) < 20*time.Millisecond; {
	}
	if after := ProcessorTime(); after < before {
		t.Errorf("%v after %v", after, before)
	}
}
