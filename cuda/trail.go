package cuda

import (
	"slices"
	"strings"
)

// trail is the last few kernels launched since the device was idle: those that
// may have caused a failure that the driver reports later.
type trail struct {
	names []string // distinct, oldest first
}

const trailLength = 8

func (t *trail) add(name string) {
	if slices.Contains(t.names, name) {
		return
	}
	if len(t.names) == trailLength {
		t.names = slices.Delete(t.names, 0, 1)
	}
	t.names = append(t.names, name)
}

func (t *trail) clear() { t.names = t.names[:0] }

// blame says whose failure it is that came out of the given operation.
func (t *trail) blame(op string) string {
	switch len(t.names) {
	case 0:
		return op
	case 1:
		return "launch of " + t.names[0]
	}
	return "launch of one of " + strings.Join(t.names, ", ") + " (CUDA_LAUNCH_BLOCKING=1 tells which)"
}
