package simd

import "exl2/internal/half"

// WidenF16 is
//
//	for i, h := range src {
//		dst[i] = h.Float32()
//	}
//
// A signaling NaN becomes quiet or stays, as the processor likes.
func WidenF16(dst []float32, src []half.F16) {
	n := whole(asm.widenF16 != nil, len(src))
	if n > 0 {
		asm.widenF16(&dst[:n][0], (*uint16)(&src[0]), n)
	}
	half.WidenF16(dst[n:], src[n:])
}

// WidenBF16 is WidenF16 for bfloat16.
func WidenBF16(dst []float32, src []half.BF16) {
	n := whole(asm.widenBF16 != nil, len(src))
	if n > 0 {
		asm.widenBF16(&dst[:n][0], (*uint16)(&src[0]), n)
	}
	half.WidenBF16(dst[n:], src[n:])
}

// NarrowF16 is
//
//	for i, f := range src {
//		dst[i] = half.ToF16(f)
//	}
func NarrowF16(dst []half.F16, src []float32) {
	n := whole(asm.narrowF16 != nil, len(src))
	if n > 0 {
		asm.narrowF16((*uint16)(&dst[:n][0]), &src[0], n)
	}
	half.NarrowF16(dst[n:], src[n:])
}

// whole returns how many of n elements are in whole blocks, for the assembly.
func whole(assembly bool, n int) int {
	if !assembly {
		return 0
	}
	return n &^ (block - 1)
}
