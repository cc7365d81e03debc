//go:build (linux || darwin || windows) && (amd64 || arm64)

package blas

import (
	"strings"
	"testing"

	"gonum.org/v1/gonum/blas"

	"exl2/internal/dylib"
)

func TestVersion(t *testing.T) {
	for config, want := range map[string]string{
		"OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY SkylakeX MAX_THREADS=64": "0.3.21",
		"OpenBLAS": "unknown",
		"":         "unknown",
	} {
		if got := version(config); got != want {
			t.Errorf("%q: version %q, want %q", config, got, want)
		}
	}
}

// A library without OpenBLAS's functions is refused.
func TestNotOpenBLAS(t *testing.T) {
	const path = "libm.so.6"
	if _, err := dylib.OpenLocal(path); err != nil {
		t.Skipf("no %s here", path)
	}
	if _, _, err := open(path); err == nil || !strings.Contains(err.Error(), "not an OpenBLAS") {
		t.Errorf("error %v", err)
	}
}

// Operands that are too short never reach the library.
func TestOpenBLASRefuses(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	(&openBLAS{}).Sgemm(blas.NoTrans, blas.NoTrans, 2, 2, 2, 1, make([]float32, 3), 2, make([]float32, 4), 2, 0, make([]float32, 4), 2)
}
