package devtest

import (
	"testing"

	"exl2/internal/device/cpu"
)

// CPU opens the reference, for tests of what runs on any device; it is closed
// when the test ends.
func CPU(t testing.TB) *cpu.Device {
	t.Helper()
	d, err := cpu.New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
