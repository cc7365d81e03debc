package simd

import (
	"fmt"

	"exl2/internal/half"
)

// Weight is an element type of matrix-vector products.
type Weight interface{ float32 | half.F16 | half.BF16 }

// Gemv is
//
//	for j := range y {
//		sum := float32(0)
//		for i, v := range x {
//			sum += v * w[j*stride+i].Float32()
//		}
//		y[j] += sum
//	}
//
// with the sum in 32 lanes of fused multiply-adds, the elements after the last
// whole 32 being added at the end. The bits of y[j] do not depend on the other
// rows. A w that is too short panics.
func Gemv[W Weight](y, x []float32, w []W, stride int) {
	if len(y) == 0 || len(x) == 0 {
		return
	}
	if stride < len(x) || len(w) < (len(y)-1)*stride+len(x) {
		panic(fmt.Sprintf("simd: Gemv: %d weights in rows of %d, want %d x %d", len(w), stride, len(y), len(x)))
	}
	n := 0
	switch w := any(w).(type) {
	case []float32:
		n = gemvRows(asm.gemvF32, y, x, &w[0], stride)
	case []half.F16:
		n = gemvRows(asm.gemvF16, y, x, (*uint16)(&w[0]), stride)
	case []half.BF16:
		n = gemvRows(asm.gemvBF16, y, x, (*uint16)(&w[0]), stride)
	}
	if n == len(x) {
		return
	}
	for j := range y {
		y[j] += dot(x[n:], w[j*stride+n:])
	}
}

// GemvT is
//
//	for j, f := range x {
//		for c := range y {
//			y[c] += f * w[j*stride+c]
//		}
//	}
//
// rounded after each operation, alike on every level and architecture.
func GemvT(y, x, w []float32, stride int) {
	if len(y) == 0 || len(x) == 0 {
		return
	}
	if stride < len(y) || len(w) < (len(x)-1)*stride+len(y) {
		panic(fmt.Sprintf("simd: GemvT: %d weights in rows of %d, want %d x %d", len(w), stride, len(x), len(y)))
	}
	n := whole(asm.gemvT != nil, len(y))
	if n > 0 {
		asm.gemvT(&y[0], &x[0], &w[0], stride, len(x), n)
	}
	if n == len(y) {
		return
	}
	for j, f := range x {
		row := w[j*stride : j*stride+len(y)]
		for c := n; c < len(y); c++ {
			y[c] += float32(f * row[c])
		}
	}
}

// gemvRows adds the products of the whole blocks of x, if there is assembly for
// it, and returns their elements.
func gemvRows[E any](f func(y, x *float32, w *E, stride, n, rows int), y, x []float32, w *E, stride int) int {
	n := whole(f != nil, len(x))
	if n > 0 {
		f(&y[0], &x[0], w, stride, n, len(y))
	}
	return n
}

// dot is the portable fallback for one row, in runs that are widened together.
func dot[W Weight](x []float32, w []W) float32 {
	var wide [256]float32
	sum := float32(0)
	for len(x) > 0 {
		n := min(len(x), len(wide))
		widen(wide[:n], w[:n])
		sum += dotWide(x[:n], wide[:n])
		x, w = x[n:], w[n:]
	}
	return sum
}

func widen[W Weight](dst []float32, src []W) {
	switch src := any(src).(type) {
	case []float32:
		copy(dst, src)
	case []half.F16:
		half.WidenF16(dst, src)
	case []half.BF16:
		half.WidenBF16(dst, src)
	}
}

// dotWide adds in four lanes, which is as fast as plain loops get.
func dotWide(x, y []float32) float32 {
	var a, b, c, d float32
	for len(x) >= 4 && len(y) >= 4 {
		a += x[0] * y[0]
		b += x[1] * y[1]
		c += x[2] * y[2]
		d += x[3] * y[3]
		x, y = x[4:], y[4:]
	}
	for i, v := range x {
		a += v * y[i]
	}
	return (a + b) + (c + d)
}
