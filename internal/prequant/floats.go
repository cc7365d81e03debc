package prequant

import (
	"math"

	"exl2/internal/half"
)

// e4m3 are the numbers of float8_e4m3fn: a sign, four bits of exponent with bias 7,
// three of fraction; no infinities, and NaN where all the others are ones.
var e4m3 = func() (t [256]float32) {
	for i := range t {
		exponent, fraction := i>>3&15, float64(i&7)
		v := math.Ldexp(8+fraction, exponent-10)
		if exponent == 0 {
			v = math.Ldexp(fraction, -9)
		}
		if i&127 == 127 {
			v = math.NaN()
		}
		if i >= 128 {
			v = -v
		}
		t[i] = float32(v)
	}
	return t
}()

// int8s are the numbers of a signed byte.
var int8s = func() (t [256]float32) {
	for i := range t {
		t[i] = float32(int8(i))
	}
	return t
}()

// e2m1 are the numbers of four bits of MXFP4 (OCP Microscaling Formats, version
// 1.0, section 5.3.3).
var e2m1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}

// e8m0 returns 2^(b-127): a scale of MXFP4, whose 255 is NaN.
func e8m0(b byte) float32 { return float32(math.Ldexp(1, int(b)-127)) }

// put stores v as BF16, and reports whether it is finite.
func put(dst []half.BF16, i int, v float32) bool {
	dst[i] = half.ToBF16(v)
	return uint16(dst[i])&0x7f80 != 0x7f80
}
