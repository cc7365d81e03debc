// Package half converts between float32 and the two 16-bit floating-point
// formats that model files use: IEEE 754 binary16 (F16) and bfloat16 (BF16).
//
// All conversions to 16 bits round to nearest, ties to even, and keep
// subnormals, infinities and NaN.
package half

import "math"

// F16 is an IEEE 754 binary16 value: 1 sign, 5 exponent and 10 mantissa bits.
type F16 uint16

// BF16 is a bfloat16 value: the upper half of a float32.
type BF16 uint16

// MaxF16 is the largest finite F16 as a float32.
const MaxF16 = 65504

// widened holds the float32 of every F16.
var widened = func() *[1 << 16]float32 {
	t := new([1 << 16]float32)
	for i := range t {
		t[i] = widen(F16(i))
	}
	return t
}()

// widen computes the float32 of h from its bits.
func widen(h F16) float32 {
	sign := uint32(h>>15) << 31
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h) & 0x3ff
	switch exp {
	case 0: // zero or subnormal: frac·2⁻²⁴
		return math.Float32frombits(sign | math.Float32bits(float32(frac)/(1<<24)))
	case 0x1f: // infinity or NaN
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	}
	return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
}

// Float32 returns h as a float32, exactly.
func (h F16) Float32() float32 { return widened[h] }

// ToF16 rounds f to the nearest F16; magnitudes of 65520 and over become infinite.
func ToF16(f float32) F16 {
	b := math.Float32bits(f)
	sign := F16(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000: // NaN stays NaN, quiet
		return sign | 0x7e00 | F16(b>>13&0x3ff)
	case b >= 0x477ff000: // rounds past the largest finite value
		return sign | 0x7c00
	case b < 0x38800000: // subnormal: adding 2⁻¹ aligns the result to units of 2⁻²⁴
		aligned := math.Float32frombits(b) + 0.5
		return sign | F16(math.Float32bits(aligned)-0x3f000000)
	}
	odd := b >> 13 & 1
	return sign | F16((b+0xfff+odd)>>13-(112<<10))
}

// Mul returns the F16 nearest to a·b, as one fp16 multiplication would. The
// product of two 11-bit significands is exact in float32, so it rounds once.
func Mul(a, b F16) F16 { return ToF16(a.Float32() * b.Float32()) }

// Float32 returns h as a float32, exactly.
func (h BF16) Float32() float32 { return math.Float32frombits(uint32(h) << 16) }

// ToBF16 rounds f to the nearest BF16.
func ToBF16(f float32) BF16 {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BF16(b>>16 | 0x40)
	}
	return BF16((b + 0x7fff + b>>16&1) >> 16)
}

// WidenF16 stores the float32 of every element of src in dst.
func WidenF16(dst []float32, src []F16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = widened[h]
	}
}

// WidenBF16 stores the float32 of every element of src in dst.
func WidenBF16(dst []float32, src []BF16) {
	dst = dst[:len(src)]
	for i, h := range src {
		dst[i] = math.Float32frombits(uint32(h) << 16)
	}
}

// NarrowF16 stores every element of src in dst, rounded.
func NarrowF16(dst []F16, src []float32) {
	dst = dst[:len(src)]
	for i, f := range src {
		dst[i] = ToF16(f)
	}
}
