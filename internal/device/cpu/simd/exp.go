package simd

import (
	"fmt"
	"math"
)

// ExpSum is
//
//	for i, v := range src {
//		dst[i] = exp(v - max)
//		sum += dst[i]
//	}
//
// with each exponential within 2 units in the last place of the exact one of the
// rounded difference, 0 below 2⁻¹²⁶ and at most 2¹²⁸ less one unit. dst may be
// src. The elements after the last whole 32 may differ by as much from what they
// would be within it.
func ExpSum(dst, src []float32, max float32) (sum float32) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("simd: ExpSum: %d results of %d elements", len(dst), len(src)))
	}
	n := whole(asm.expSum != nil, len(src))
	if n > 0 {
		asm.expSum(&sum, &dst[0], &src[0], max, n)
	}
	for i, v := range src[n:] {
		e := exp(v - max)
		dst[n+i] = e
		sum += e
	}
	return sum
}

// Max returns the largest element, -Inf if there is none. If one is NaN, the
// result may be NaN or the largest of some others.
func Max(x []float32) float32 {
	largest := float32(math.Inf(-1))
	n := whole(asm.maximum != nil, len(x))
	if n > 0 {
		asm.maximum(&largest, &x[0], n)
	}
	for _, v := range x[n:] {
		if v > largest {
			largest = v
		}
	}
	return largest
}

// exp is the portable fallback of the assembly's exponential.
func exp(x float32) float32 {
	switch e := math.Exp(float64(x)); {
	case e < 0x1p-126:
		return 0
	case e > math.MaxFloat32:
		return math.MaxFloat32
	default:
		return float32(e)
	}
}

// SiLUMul is
//
//	for i, g := range gate {
//		dst[i] = g / (1 + exp(-g)) * up[i]
//	}
//
// within 4 units in the last place, or |g·up|·2⁻¹²⁶ if that is more: where
// exp(-g) overflows. dst may be gate or up.
func SiLUMul(dst, gate, up []float32) { gated("SiLUMul", dst, gate, up, asm.siluMul, silu) }

func silu(g float32) float32 { return float32(float64(g) / (1 + math.Exp(-float64(g)))) }

// GELUTanhMul is
//
//	for i, g := range gate {
//		dst[i] = 0.5 * g * (1 + tanh(√(2/π)*(g+0.044715*g*g*g))) * up[i]
//	}
//
// within 2⁻²⁰ of |dst| or 2⁻²⁶ of |up|, if that is more: below -4 the factor
// g falls to is a small exponential. dst may be gate or up.
func GELUTanhMul(dst, gate, up []float32) { gated("GELUTanhMul", dst, gate, up, asm.geluMul, geluTanh) }

func geluTanh(g float32) float32 {
	v := float64(g)
	return float32(0.5 * v * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(v+0.044715*v*v*v))))
}

// gated is dst = act(gate)·up.
func gated(name string, dst, gate, up []float32, f func(dst, gate, up *float32, n int), act func(float32) float32) {
	if len(dst) != len(gate) || len(up) != len(gate) {
		panic(fmt.Sprintf("simd: %s: %d results of %d gates and %d values", name, len(dst), len(gate), len(up)))
	}
	n := whole(f != nil, len(gate))
	if n > 0 {
		f(&dst[0], &gate[0], &up[0], n)
	}
	for i, g := range gate[n:] {
		dst[n+i] = act(g) * up[n+i]
	}
}
