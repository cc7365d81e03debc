package convert

import (
	"runtime"

	"exl2/internal/device"
	"exl2/internal/device/cpu"
)

// withCores runs f on the given number of cores.
func withCores(n int, f func()) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(n))
	f()
}

func newCPU() (device.Quantize, error) { return cpu.New() }
