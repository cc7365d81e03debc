package simd

import "fmt"

// Beside is
//
//	for i, q := range code {
//		now := F16(q*scale[i])
//		up[i] = F16((q+1)*scale[i]) - now   // 0 unless q < zero[i]-1
//		down[i] = F16((q-1)*scale[i]) - now // 0 unless q > -zero[i]
//	}
//
// rounded after each operation: what the next codes would change the values of rows of
// a column by, codes less zero. It returns the largest of all up and -down, 0 at least.
func Beside(up, down, code, scale, zero []float32) (largest float32) {
	rows := len(code)
	if len(up) != rows || len(down) != rows || len(scale) != rows || len(zero) != rows {
		panic(fmt.Sprintf("simd: Beside: %d and %d changes, %d scales and %d zeros of %d codes", len(up), len(down), len(scale), len(zero), rows))
	}
	n := whole(asm.beside != nil, rows)
	if n > 0 {
		asm.beside(&up[0], &down[0], &code[0], &scale[0], &zero[0], &largest, n)
	}
	return beside(up[n:], down[n:], code[n:], scale[n:], zero[n:], largest)
}

func beside(up, down, code, scale, zero []float32, largest float32) float32 {
	for i, q := range code {
		now := f16(q * scale[i])
		up[i], down[i] = 0, 0
		if q < zero[i]-1 {
			up[i] = f16((q+1)*scale[i]) - now
		}
		if q > -zero[i] {
			down[i] = f16((q-1)*scale[i]) - now
		}
		largest = larger(larger(up[i], -down[i]), largest)
	}
	return largest
}

// larger is b where a is not larger: what processors have.
func larger(a, b float32) float32 {
	if a > b {
		return a
	}
	return b
}

// Partner returns
//
//	the j other than skip for which gain[j] = max(g(up[j]), g(down[j])) is largest,
//	where g(v) = v·(2·(left[j] - h[j]·d) - v·diagonal[j])
//
// rounded after each operation, the first among equals; -1 if none is larger than least.
func Partner(up, down, diagonal, left, h []float32, d, least float32, skip int) (at int) {
	rows := len(h)
	if len(up) != rows || len(down) != rows || len(diagonal) != rows || len(left) != rows {
		panic(fmt.Sprintf("simd: Partner: %d and %d changes, %d diagonals and %d sums of %d rows", len(up), len(down), len(diagonal), len(left), rows))
	}
	n := whole(asm.partner != nil, rows)
	at = -1
	if n > 0 {
		at = asm.partner(&up[0], &down[0], &diagonal[0], &left[0], &h[0], d, &least, skip, n)
	}
	if behind := partner(up[n:], down[n:], diagonal[n:], left[n:], h[n:], d, least, skip-n); behind >= 0 {
		return n + behind
	}
	return at
}

func partner(up, down, diagonal, left, h []float32, d, least float32, skip int) (at int) {
	at = -1
	for j, v := range h {
		x := left[j] - float32(v*d)
		x += x
		a := float32(up[j] * (x - float32(up[j]*diagonal[j])))
		b := float32(down[j] * (x - float32(down[j]*diagonal[j])))
		if gain := larger(a, b); gain > least && j != skip {
			least, at = gain, j
		}
	}
	return at
}
