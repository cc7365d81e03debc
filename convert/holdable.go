package convert

import (
	"encoding/binary"
	"fmt"
	"math"

	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/safetensors"
)

// holdable refuses floating-point numbers that a finished model, whose weights
// decode to fp16, cannot hold.
func holdable(t safetensors.Tensor) error {
	var i int
	var v float32
	switch t.DType {
	case safetensors.F16:
		if i = first16(t.Data, aboveF16); i >= 0 {
			v = half.F16(binary.LittleEndian.Uint16(t.Data[2*i:])).Float32()
		}
	case safetensors.BF16:
		if i = first16(t.Data, aboveBF16); i >= 0 {
			v = half.BF16(binary.LittleEndian.Uint16(t.Data[2*i:])).Float32()
		}
	case safetensors.F32:
		if i = first32(t.Data, aboveF32); i >= 0 {
			v = math.Float32frombits(binary.LittleEndian.Uint32(t.Data[4*i:]))
		}
	default:
		return nil
	}
	if i < 0 {
		return nil
	}
	if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
		return fmt.Errorf("%s: element %d is NaN or infinite: the source is damaged", t.Name, i)
	}
	return fmt.Errorf("%w: %s: element %d is %v, which fp16, and so EXL2, cannot hold", ErrRefused, t.Name, i, v)
}

// The bits of the least magnitudes above fp16's largest, 65504. Those of
// infinity and NaN are above them.
const (
	aboveF16  = 0x7c00
	aboveBF16 = 0x4780
	aboveF32  = 0x477fe001
)

// first16 returns the index of the first element of two bytes whose magnitude
// has bits of at least limit, or -1.
func first16(data []byte, limit uint16) int {
	const ones = 0x0001000100010001
	return first(data, 2, beyond{0x7fff * ones, uint64(0x8000-limit) * ones, 0x8000 * ones},
		func(e []byte) bool { return binary.LittleEndian.Uint16(e)&0x7fff >= limit })
}

// first32 is first16 for elements of four bytes.
func first32(data []byte, limit uint32) int {
	const ones = 0x0000000100000001
	return first(data, 4, beyond{0x7fffffff * ones, uint64(0x80000000-limit) * ones, 0x80000000 * ones},
		func(e []byte) bool { return binary.LittleEndian.Uint32(e)&0x7fffffff >= limit })
}

// beyond tells of elements side by side whether one's magnitude has bits of at least a
// limit: the sum of magnitude and more then reaches the sign.
type beyond struct{ magnitude, more, sign uint64 }

// within returns how many bytes of data, 32 at a time, have no such element.
func (b beyond) within(data []byte) int {
	n := 0
	for ; n+32 <= len(data); n += 32 {
		p := data[n : n+32 : n+32]
		v := binary.LittleEndian.Uint64(p)&b.magnitude + b.more
		v |= binary.LittleEndian.Uint64(p[8:])&b.magnitude + b.more
		v |= binary.LittleEndian.Uint64(p[16:])&b.magnitude + b.more
		v |= binary.LittleEndian.Uint64(p[24:])&b.magnitude + b.more
		if v&b.sign != 0 {
			break
		}
	}
	return n
}

// first returns the index of the first element of some bytes that is found, or -1.
func first(data []byte, size int, b beyond, found func(element []byte) bool) int {
	const chunk = 1 << 20
	at := make([]int, (len(data)+chunk-1)/chunk)
	parallel.Runs(len(data), chunk, func(lo, hi int) {
		at[lo/chunk] = -1
		for i := lo + b.within(data[lo:hi]); i+size <= hi; i += size {
			if found(data[i : i+size]) {
				at[lo/chunk] = i / size
				return
			}
		}
	})
	for _, i := range at {
		if i >= 0 {
			return i
		}
	}
	return -1
}
