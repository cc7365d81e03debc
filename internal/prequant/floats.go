package prequant

import (
	"fmt"
	"math"
	"sync/atomic"

	"exl2/internal/half"
	"exl2/internal/safetensors"
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

// e2m1 are the numbers of four bits of MXFP4 and NVFP4 (OCP Microscaling Formats, version
// 1.0, section 5.3.3).
var e2m1 = [16]float32{0, 0.5, 1, 1.5, 2, 3, 4, 6, float32(math.Copysign(0, -1)), -0.5, -1, -1.5, -2, -3, -4, -6}

// e8m0 returns 2^(b-127): a scale of MXFP4 and MXFP8, whose 255 is NaN.
func e8m0(b byte) float32 {
	if b == 255 {
		return float32(math.NaN())
	}
	return float32(math.Ldexp(1, int(b)-127))
}

// factorsOf returns factors as numbers: those of blocks may be bytes, too.
func factorsOf(t safetensors.Tensor) ([]float32, error) {
	number := map[string]func(byte) float32{"U8": e8m0, "F8_E8M0": e8m0, "F8_E4M3": func(b byte) float32 { return e4m3[b] }}[t.DType]
	if number == nil {
		return toF32(t)
	}
	out := make([]float32, len(t.Data))
	for i, b := range t.Data {
		out[i] = number(b)
	}
	return out, nil
}

// A damage is where weights are found to be no numbers, by any of several goroutines.
type damage struct{ first atomic.Int64 } // one more than the lowest index

// put stores v as BF16, if it is finite.
func (d *damage) put(dst []half.BF16, i int, v float32) {
	dst[i] = half.ToBF16(v)
	if uint16(dst[i])&0x7f80 != 0x7f80 {
		return
	}
	for {
		first := d.first.Load()
		if first != 0 && first <= int64(i)+1 || d.first.CompareAndSwap(first, int64(i)+1) {
			return
		}
	}
}

// err returns an error if there is any, of a tensor.
func (d *damage) err(name string) error {
	if i := d.first.Load(); i > 0 {
		return fmt.Errorf("%s: element %d is NaN or infinite: the source is damaged", name, i-1)
	}
	return nil
}
