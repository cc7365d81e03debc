package tensor

import (
	"encoding/binary"
	"math"

	"exl2/internal/half"
)

// Widen returns little-endian elements of a floating-point type as float32.
func Widen(t Type, data []byte) []float32 {
	out := make([]float32, len(data)/t.Size())
	for i := range out {
		out[i] = t.at(data, i)
	}
	return out
}

// Narrow rounds little-endian F32 or BF16 elements to F16 and stores them in dst,
// which may be data. It returns the index of the first one that F16 cannot hold, or
// -1, and how many bytes of dst it has filled.
func Narrow(dst, data []byte, t Type) (unfit, n int) {
	unfit = -1
	for i := range len(data) / t.Size() {
		f := t.at(data, i)
		if unfit < 0 && !(math.Abs(float64(f)) <= half.MaxF16) {
			unfit = i
		}
		binary.LittleEndian.PutUint16(dst[2*i:], uint16(half.ToF16(f)))
		n += 2
	}
	return unfit, n
}

// at returns element i of data.
func (t Type) at(data []byte, i int) float32 {
	switch t {
	case F16:
		return half.F16(binary.LittleEndian.Uint16(data[2*i:])).Float32()
	case BF16:
		return half.BF16(binary.LittleEndian.Uint16(data[2*i:])).Float32()
	}
	return math.Float32frombits(binary.LittleEndian.Uint32(data[4*i:]))
}
