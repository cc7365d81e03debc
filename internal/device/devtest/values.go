package devtest

import (
	"bytes"
	"encoding/binary"
	"math"

	"exl2/internal/half"
	"exl2/internal/tensor"
)

// values gives the elements of an operand by their index.
type values func(i int) float32

// mix turns an index into bits that look like chance and are always the same
// (the finalizer of MurmurHash3, for 64 bits).
func mix(seed, i int) uint64 {
	z := uint64(i)*0x9e3779b97f4a7c15 + uint64(seed)*0xd1b54a32d192ed03 + 1
	z = (z ^ z>>33) * 0xff51afd7ed558ccd
	z = (z ^ z>>33) * 0xc4ceb9fe1a85ec53
	return z ^ z>>33
}

// noise is a pattern evenly spread over -1 to 1.
func noise(seed int) values {
	return func(i int) float32 { return float32(int64(mix(seed, i)>>40)-1<<23) / (1 << 23) }
}

// scaled is v times a factor plus an offset.
func scaled(v values, factor, offset float32) values {
	return func(i int) float32 { return v(i)*factor + offset }
}

// constant is one number everywhere.
func constant(x float32) values { return func(int) float32 { return x } }

// extremes are what fp16 can hold at its ends: zeros, subnormals, the smallest
// normal and the largest number.
var extremes = []float32{
	0, float32(math.Copysign(0, -1)), 0x1p-24, -0x1p-24, 0x3ffp-24, 0x1p-14, -0x1p-14,
	1, -1, 0x1.ffcp0, half.MaxF16, -half.MaxF16, 1e-3, -300,
}

// hostile goes through the extremes, in an order that the seed decides.
func hostile(seed int) values {
	return func(i int) float32 { return extremes[mix(seed, i)%uint64(len(extremes))] }
}

// list gives the elements of a slice, again and again.
func list(v ...float32) values { return func(i int) float32 { return v[i%len(v)] } }

// withRow is v, but every element of one row of the given width is x.
func withRow(v values, row, cols int, x float32) values {
	return func(i int) float32 {
		if i/cols == row {
			return x
		}
		return v(i)
	}
}

// withAt is v but for some elements.
func withAt(v values, x float32, at ...int) values {
	set := map[int]bool{}
	for _, i := range at {
		set[i] = true
	}
	return func(i int) float32 {
		if set[i] {
			return x
		}
		return v(i)
	}
}

var (
	nan      = float32(math.NaN())
	infinity = float32(math.Inf(1))
)

// nothing is what operands that are to be written hold before.
func nothing(int) float32 { return nan }

// rounded is v rounded to a type.
func rounded(v values, t tensor.Type) values {
	return func(i int) float32 { return roundTo(t, v(i)) }
}

func roundTo(t tensor.Type, x float32) float32 {
	switch t {
	case tensor.F16:
		return half.ToF16(x).Float32()
	case tensor.BF16:
		return half.ToBF16(x).Float32()
	}
	return x
}

// encode returns n elements of a floating-point type.
func encode(t tensor.Type, n int, v values) []byte {
	out := make([]byte, 0, n*t.Size())
	for i := range n {
		switch t {
		case tensor.F16:
			out = binary.LittleEndian.AppendUint16(out, uint16(half.ToF16(v(i))))
		case tensor.BF16:
			out = binary.LittleEndian.AppendUint16(out, uint16(half.ToBF16(v(i))))
		case tensor.F64:
			out = binary.LittleEndian.AppendUint64(out, math.Float64bits(float64(v(i))))
		default:
			out = binary.LittleEndian.AppendUint32(out, math.Float32bits(v(i)))
		}
	}
	return out
}

// decodeWide returns the elements of a floating-point type in float64.
func decodeWide(t tensor.Type, data []byte) []float64 {
	out := make([]float64, len(data)/t.Size())
	if t == tensor.F64 {
		for i := range out {
			out[i] = math.Float64frombits(binary.LittleEndian.Uint64(data[8*i:]))
		}
		return out
	}
	for i, v := range tensor.Widen(t, data) {
		out[i] = float64(v)
	}
	return out
}

func encodeInts(v []int32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, uint32(x))
	}
	return out
}

func decodeInts(data []byte) []int32 {
	out := make([]int32, len(data)/4)
	for i := range out {
		out[i] = int32(binary.LittleEndian.Uint32(data[4*i:]))
	}
	return out
}

// guards returns n elements to stand around an operand: NaN with bits of its
// own, or integers that no operand has.
func guards(t tensor.Type, n int) []byte {
	return bytes.Repeat(map[tensor.Type][]byte{
		tensor.F32: {0xa5, 0xa5, 0xe5, 0x7f}, tensor.F16: {0xa5, 0x7e}, tensor.BF16: {0xe5, 0x7f},
		tensor.F64: {0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xa5, 0xf5, 0x7f}, tensor.I32: {0xa5, 0xa5, 0xa5, 0x7f}, tensor.U8: {0xa5},
	}[t], n)
}

// shuffled returns 0 to n-1 in another order.
func shuffled(seed, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i)
	}
	for i := n - 1; i > 0; i-- {
		j := int(mix(seed, i) % uint64(i+1))
		out[i], out[j] = out[j], out[i]
	}
	return out
}

// repeat returns n times x.
func repeat(x int32, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = x
	}
	return out
}
