package simd

import (
	"fmt"

	"exl2/internal/half"
)

// A Grid is what the columns of a quantized group are measured in: codes of
// Bits bits stand for (code - 2^(Bits-1))·Scale. Make it with NewGrid; its
// routines take as many columns as it has.
//
// All of them give the same bits on every level and architecture. They round a
// weight w to the nearest code as nearest does: w·Inv in float32, held within
// the codes' range, ties to the even code; NaN becomes the lowest.
type Grid struct {
	Bits  int
	Scale []float32 // F16 values, by column
	Inv   []float32 // 1/Scale, 0 where Scale is 0, so that such a column's codes stand for 0
}

// NewGrid returns a grid for columns with the given scales. It keeps them, and inv,
// the memory for Inv.
func NewGrid(bits int, scale, inv []float32) Grid {
	for c, s := range scale {
		if inv[c] = 0; s != 0 {
			inv[c] = 1 / s
		}
	}
	return Grid{bits, scale, inv}
}

// Columns returns the grid of columns lo to hi.
func (g Grid) Columns(lo, hi int) Grid { return Grid{g.Bits, g.Scale[lo:hi], g.Inv[lo:hi]} }

// zero is the code of weight 0.
func (g *Grid) zero() float32 { return float32(int(1) << (g.Bits - 1)) }

// after returns the grid of the columns that the assembly leaves over.
func (g Grid) after(n int) Grid { return g.Columns(n, len(g.Scale)) }

// rounder is 1.5·2²³: adding it to a small number leaves no bits for fractions.
const rounder = 3 << 22

// nearest is the number of the nearest code, less zero.
func nearest(w, inv, zero float32) float32 {
	q := float32(w * inv)
	if !(q > -zero) {
		q = -zero
	}
	if !(q < zero-1) {
		q = zero - 1
	}
	return q + rounder - rounder
}

// f16 rounds f to fp16.
func f16(f float32) float32 { return half.ToF16(f).Float32() }

// Errors is
//
//	for c := range err {
//		err[c] = 0
//		for r, m := range importance {
//			d := w[r*stride+c] - q*g.Scale[c] // q: the nearest code of w[r*stride+c], less 2^(Bits-1)
//			err[c] += m * d * d
//		}
//	}
//
// rounded after each operation, products from the left: what quantizing a group
// of weights by this grid costs, by column.
func (g Grid) Errors(err, w []float32, stride int, importance []float32) {
	cols, rows := len(g.Scale), len(importance)
	if len(err) != cols || rows > 0 && (stride < cols || len(w) < (rows-1)*stride+cols) {
		panic(fmt.Sprintf("simd: Errors: %d weights in rows of %d for %d sums, want %d x %d", len(w), stride, len(err), rows, cols))
	}
	n := 0
	if rows > 0 {
		n = whole(asm.gridErrors != nil, cols)
	}
	if n > 0 {
		asm.gridErrors(&err[0], &w[0], stride, &importance[0], rows, &g.Scale[0], &g.Inv[0], g.zero(), n)
	}
	if n < cols {
		g.after(n).errors(err[n:], w[min(n, len(w)):], stride, importance)
	}
}

func (g Grid) errors(err, w []float32, stride int, importance []float32) {
	clear(err)
	zero := g.zero()
	for r, m := range importance {
		for c := range err {
			v := w[r*stride+c]
			d := v - float32(nearest(v, g.Inv[c], zero)*g.Scale[c])
			err[c] += float32(float32(m*d) * d)
		}
	}
}

// Quantize is
//
//	for c, v := range w {
//		q := nearest code of v, less 2^(Bits-1)
//		codes[c] = q + 2^(Bits-1)
//		e[c] = (v - F16(q*g.Scale[c])) * rinv
//	}
//
// rounded after each operation: one row of GPTQ. e may be w.
func (g Grid) Quantize(codes []uint8, e, w []float32, rinv float32) {
	cols := len(g.Scale)
	if len(codes) != cols || len(e) != cols || len(w) != cols {
		panic(fmt.Sprintf("simd: Quantize: %d codes, %d errors and %d weights, want %d", len(codes), len(e), len(w), cols))
	}
	n := whole(asm.gridQuantize != nil, cols)
	if n > 0 {
		asm.gridQuantize(&codes[0], &e[0], &w[0], &g.Scale[0], &g.Inv[0], rinv, g.zero(), n)
	}
	g.after(n).quantize(codes[n:], e[n:], w[n:], rinv)
}

func (g Grid) quantize(codes []uint8, e, w []float32, rinv float32) {
	zero := g.zero()
	for c, v := range w {
		q := nearest(v, g.Inv[c], zero)
		codes[c] = uint8(q + zero)
		e[c] = (v - f16(q*g.Scale[c])) * rinv
	}
}

// Descend is
//
//	for c, v := range rest {
//		old := F16((codes[c] - 2^(Bits-1)) * g.Scale[c])
//		q := nearest code of old + v*step, less 2^(Bits-1)
//		codes[c] = q + 2^(Bits-1)
//		rest[c] = F16(q*g.Scale[c]) - old
//	}
//
// rounded after each operation: one row of coordinate descent, which replaces
// rest by the change of the weights.
func (g Grid) Descend(codes []uint8, rest []float32, step float32) {
	cols := len(g.Scale)
	if len(codes) != cols || len(rest) != cols {
		panic(fmt.Sprintf("simd: Descend: %d codes and %d rests, want %d", len(codes), len(rest), cols))
	}
	n := whole(asm.gridDescend != nil, cols)
	if n > 0 {
		asm.gridDescend(&codes[0], &rest[0], &g.Scale[0], &g.Inv[0], step, g.zero(), n)
	}
	g.after(n).descend(codes[n:], rest[n:], step)
}

func (g Grid) descend(codes []uint8, rest []float32, step float32) {
	zero := g.zero()
	for c, v := range rest {
		old := f16((float32(codes[c]) - zero) * g.Scale[c])
		q := nearest(old+float32(v*step), g.Inv[c], zero)
		codes[c] = uint8(q + zero)
		rest[c] = f16(q*g.Scale[c]) - old
	}
}

// SubtractOuter is
//
//	for j, f := range u {
//		for c, v := range e {
//			w[j*stride+c] -= f * v
//		}
//	}
//
// rounded after each operation, alike on every level and architecture: how the
// error of a row reaches the rows after it. w must not overlap e.
func SubtractOuter(w []float32, stride int, u, e []float32) {
	cols, rows := len(e), len(u)
	if rows == 0 || cols == 0 {
		return
	}
	if stride < cols || len(w) < (rows-1)*stride+cols {
		panic(fmt.Sprintf("simd: SubtractOuter: %d weights in rows of %d, want %d x %d", len(w), stride, rows, cols))
	}
	n := whole(asm.subtractOuter != nil, cols)
	if n > 0 {
		asm.subtractOuter(&w[0], stride, &u[0], rows, &e[0], n)
	}
	for j, f := range u {
		row := w[j*stride : j*stride+cols]
		for c := n; c < cols; c++ {
			row[c] -= float32(f * e[c])
		}
	}
}
