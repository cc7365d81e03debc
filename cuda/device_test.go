package cuda

import (
	"errors"
	"testing"

	"exl2/internal/device"
	"exl2/internal/device/devtest"
)

// openGPU opens a GPU, or skips the test where there is none.
func openGPU(t testing.TB) *Device {
	t.Helper()
	d, err := Open(0)
	if errors.Is(err, ErrNoDevice) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func open(t testing.TB) device.Device { return openGPU(t) }

func TestDevice(t *testing.T) { devtest.Run(t, open) }

func BenchmarkDevice(b *testing.B) { devtest.Bench(b, open) }
