package model

import (
	"encoding/binary"
	"fmt"
	"math"

	"exl2/internal/tensor"
)

// toUnit divides a vector by its Euclidean norm, but for zero.
func toUnit(v []float32) {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if sum == 0 {
		return
	}
	for i := range v {
		v[i] = float32(float64(v[i]) / math.Sqrt(sum))
	}
}

// narrow returns F32 or BF16 elements as F16 and refuses what does not fit.
func narrow(t tensor.Type, data []byte) ([]byte, error) {
	out := make([]byte, len(data)/t.Size()*2)
	if i, _ := tensor.Narrow(out, data, t); i >= 0 {
		size := t.Size()
		return nil, fmt.Errorf("element %d is %v, which fp16 cannot hold; --devices cpu can", i, tensor.Widen(t, data[i*size:(i+1)*size])[0])
	}
	return out, nil
}

// firstNotFinite returns the index of the first NaN or infinity, or -1. Those
// are the values whose exponent bits are all ones.
func firstNotFinite(t tensor.Type, data []byte) int {
	switch t {
	case tensor.F32:
		for i := 0; i+4 <= len(data); i += 4 {
			if binary.LittleEndian.Uint32(data[i:])&0x7f800000 == 0x7f800000 {
				return i / 4
			}
		}
		return -1
	default:
		mask := uint16(0x7c00)
		if t == tensor.BF16 {
			mask = 0x7f80
		}
		for i := 0; i+2 <= len(data); i += 2 {
			if binary.LittleEndian.Uint16(data[i:])&mask == mask {
				return i / 2
			}
		}
		return -1
	}
}
