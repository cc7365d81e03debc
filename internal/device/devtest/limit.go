package devtest

import (
	"bytes"
	"fmt"
	"math"

	"exl2/internal/tensor"
)

// A limit says how far a device's result may be from the reference: each
// element by abs + rms·(root mean square of the result) + rel·|element|, all of
// them together by nmse, the squared error over the squared result. The zero
// limit asks for equal numbers.
type limit struct {
	abs, rms, rel float64
	nmse          float64
	bits          bool    // the bytes must be equal, and types are the same
	share         float64 // of bytes, integers or fp16 numbers that may differ at all
	any           bool    // the result is of no use
	why           string
}

// ulp is the distance of neighbouring fp16 numbers, relative to them: results
// that differ before rounding may round to neighbours.
const ulp = 0x1p-10

var exact = limit{why: "nothing is rounded but the result"}

// compare returns the first elements of a result that are too far off. The
// reference is rounded to the result's type before.
func (l limit) compare(name string, t tensor.Tensor, got []byte, wantType tensor.Type, want []byte) error {
	if l.any {
		return nil
	}
	if l.share > 0 {
		return l.compareShare(name, t, got, want)
	}
	if l.bits || t.Type == tensor.U8 {
		if !bytes.Equal(got, want) {
			return fmt.Errorf("%s: byte %d of %d differs", name, firstDifference(got, want), len(want))
		}
		return nil
	}
	if t.Type == tensor.I32 {
		return compareInts(name, t, decodeInts(got), decodeInts(want))
	}
	a, b := decodeWide(t.Type, got), decodeWide(wantType, want)
	for i := range b {
		if t.Type != tensor.F64 {
			b[i] = float64(roundTo(t.Type, float32(b[i])))
		}
	}
	return l.compareFloats(name, t, a, b)
}

// compareShare counts the elements that differ.
func (l limit) compareShare(name string, t tensor.Tensor, got, want []byte) error {
	size, differ := t.Type.Size(), 0
	for i := 0; i < len(want); i += size {
		if !bytes.Equal(got[i:i+size], want[i:i+size]) {
			differ++
		}
	}
	if n := len(want) / size; float64(differ) > l.share*float64(n) {
		return fmt.Errorf("%s: %d of %d elements differ, want at most %.3g of all (%s)", name, differ, n, l.share, l.why)
	}
	return nil
}

func firstDifference(a, b []byte) int {
	for i := range a {
		if i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return len(a)
}

func compareInts(name string, t tensor.Tensor, got, want []int32) error {
	for i := range want {
		if got[i] != want[i] {
			return fmt.Errorf("%s[%d, %d] is %d, want %d", name, i/t.Cols, i%t.Cols, got[i], want[i])
		}
	}
	return nil
}

func (l limit) compareFloats(name string, t tensor.Tensor, got, want []float64) error {
	scale := l.rms * rms(want)
	var bad, first int
	var errors, squares, worst float64
	for i := range want {
		a, b := got[i], want[i]
		if a == b || a != a && b != b {
			squares += finiteSquare(b)
			continue
		}
		diff := math.Abs(a - b)
		errors, squares = errors+diff*diff, squares+finiteSquare(b)
		if allowed := l.abs + scale + l.rel*math.Abs(b); !(diff <= allowed) || math.IsInf(b, 0) {
			if bad++; bad == 1 {
				first = i
			}
			worst = max(worst, diff)
		}
	}
	if bad > 0 {
		return fmt.Errorf("%s, %v: %d elements of %d are off, by %.3g at most; [%d, %d] is %v, want %v (%s)", name, t, bad, len(want), worst,
			first/t.Cols, first%t.Cols, got[first], want[first], l.why)
	}
	if l.nmse > 0 && !(errors <= l.nmse*squares) {
		return fmt.Errorf("%s, %v: the error is %.2g of the result, squared, want at most %.2g (%s)", name, t, errors/squares, l.nmse, l.why)
	}
	return nil
}

func finiteSquare(x float64) float64 {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return 0
	}
	return x * x
}

// rms returns the root mean square of the finite elements.
func rms(v []float64) float64 {
	sum, n := 0.0, 0
	for _, x := range v {
		if s := finiteSquare(x); s > 0 {
			sum += s
			n++
		}
	}
	return math.Sqrt(sum / float64(max(n, 1)))
}
