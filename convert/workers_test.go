package convert

import (
	"context"
	"errors"
	"maps"
	"testing"

	"exl2/internal/device"
)

func someCPUs(t *testing.T, n int) (list []device.Quantize) {
	for range n {
		list = append(list, openCPU(t))
	}
	return list
}

// Any number of devices makes the same files, of one target and of several, without a
// break and after one anywhere.
func TestSeveralDevices(t *testing.T) {
	source := sourceModel(t, "llama")
	want := options(t, source, "3.0", "4.0")
	mustRun(t, want)
	for _, devices := range []int{2, 3} {
		for _, stop := range []int{0, 1, 3, 6, 9, 13} { // 0: never
			o := options(t, source, "3.0", "4.0")
			if stop > 0 {
				ctx, cancel := context.WithCancel(context.Background())
				steps := 0
				w := &watcher{step: func() {
					if steps++; steps == stop {
						cancel()
					}
				}}
				if _, err := runOn(ctx, someCPUs(t, devices), o, w); !errors.Is(err, context.Canceled) {
					t.Fatalf("stopped at step %d: error %v", stop, err)
				}
			}
			r, err := runOn(context.Background(), someCPUs(t, devices), o, &watcher{})
			if err != nil {
				t.Fatalf("%d devices, stopped at step %d: %v", devices, stop, err)
			}
			if len(r.Devices) != devices {
				t.Errorf("devices %v, want %d", r.Devices, devices)
			}
			for i, target := range want.Targets {
				if !maps.Equal(contents(t, want.folder(target)), contents(t, o.folder(o.Targets[i]))) {
					t.Errorf("%d devices, stopped at step %d: other files of %s than on one", devices, stop, target.Text)
				}
			}
		}
	}
}
