// Package cudatest opens GPUs for tests.
package cudatest

import (
	"errors"
	"testing"

	"exl2/cuda"
	"exl2/internal/device"
)

// Open opens the first n GPUs as Ds, interfaces of package device, until the test ends, or
// skips the test where there are fewer.
func Open[D device.Device](t testing.TB, n int) []D {
	t.Helper()
	if have, err := cuda.Count(); errors.Is(err, cuda.ErrNoDevice) || err == nil && have < n {
		t.Skipf("want %d GPUs, have %d (%v)", n, have, err)
	}
	list := make([]D, n)
	for i := range list {
		d, err := cuda.Open(i)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { d.Close() })
		list[i] = any(d).(D)
	}
	return list
}
