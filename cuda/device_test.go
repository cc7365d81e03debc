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

// As on a GPU without code of its own and with little shared memory: kernels
// compiled from PTX, those that others have instead of Hopper's, and the packed
// product for little memory.
func TestDeviceOfAnotherKind(t *testing.T) {
	devtest.Run(t, func(t testing.TB) device.Device {
		return another(openGPU(t))
	})
}

func TestQuantizeOfAnotherKind(t *testing.T) {
	devtest.RunQuantize(t, func(t testing.TB) device.Quantize { return another(openGPU(t)) })
}

func another(d *Device) *Device {
	d.target, d.major, d.shared = "compute_80", 8, 48<<10
	return d
}

// As on a GPU of two multiprocessors, where a small matrix has many tiles.
func TestDeviceOfTwoUnits(t *testing.T) {
	devtest.Run(t, func(t testing.TB) device.Device {
		d := openGPU(t)
		d.sms = 2
		return d
	})
}

// As on a GPU that has clusters, and little shared memory.
func TestDeviceOfSmallBlocks(t *testing.T) {
	devtest.RunFewRows(t, func(t testing.TB) device.Device {
		d := openGPU(t)
		d.shared = min(d.shared, 99<<10)
		return d
	})
}

func openQuantizer(t testing.TB) device.Quantize { return openGPU(t) }

func TestDeviceBackward(t *testing.T) {
	devtest.RunBackward(t, func(t testing.TB) device.Backward { return openGPU(t) })
}

func TestDeviceTrain(t *testing.T) {
	devtest.RunTrain(t, func(t testing.TB) device.Train { return openGPU(t) })
}

func TestTrainOfAnotherKind(t *testing.T) {
	devtest.RunTrain(t, func(t testing.TB) device.Train { return another(openGPU(t)) })
}

func TestDeviceQuantize(t *testing.T) { devtest.RunQuantize(t, openQuantizer) }
