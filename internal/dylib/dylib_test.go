package dylib

import (
	"math"
	"runtime"
	"testing"

	"github.com/ebitengine/purego"
)

// libraries are a library of each system with a function that adds nothing to
// what Go has: float64 pow(float64, float64).
var libraries = map[string]string{"linux": "libm.so.6", "darwin": "/usr/lib/libSystem.B.dylib", "windows": "msvcrt.dll"}

func TestCall(t *testing.T) {
	name := libraries[runtime.GOOS]
	for how, open := range map[string]func(string) (Library, error){"global": Open, "local": OpenLocal} {
		l, err := open(name)
		if err != nil {
			t.Skipf("%s: %v", how, err)
		}
		address, err := l.Symbol("pow")
		if err != nil || address == 0 {
			t.Fatalf("%s: pow at %#x, error %v", how, address, err)
		}
		var pow func(x, y float64) float64
		purego.RegisterFunc(&pow, address)
		if got := pow(1.5, 2.5); math.Abs(got-math.Pow(1.5, 2.5)) > 1e-12 {
			t.Errorf("%s: pow(1.5, 2.5) = %v", how, got)
		}
		if address, err := l.Symbol("no_such_function"); err == nil || address != 0 {
			t.Errorf("%s: no_such_function at %#x, error %v", how, address, err)
		}
	}
	if _, err := Open("no-such-library"); err == nil {
		t.Error("no-such-library is there")
	}
}
