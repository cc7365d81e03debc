package cpu

import (
	"exl2/internal/device"
	kernels "exl2/internal/device/cpu/blas"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// gptqTile is the columns that one goroutine quantizes: a group of them fits
// the first-level cache.
const gptqTile = 64

// group is the codes of a group as slices.
type group struct {
	device.Codes
	rows, n int
	codes   []uint8
	grid    simd.Grid
}

func groupOf(op string, g device.Codes) group {
	want(g.Codes.Type == tensor.U8 && g.Scale.Type == tensor.U8 && g.Largest.Type == tensor.F16 && g.Scale.Cols == g.Codes.Cols, op, g.Codes, g.Scale, g.Largest)
	table := exl2.ScaleTable(elements[half.F16](g.Largest)[0])
	scales := make([]float32, g.Codes.Cols)
	for c, s := range elements[uint8](g.Scale) {
		scales[c] = table[s].Float32()
	}
	return group{g, g.Codes.Rows, g.Codes.Cols, elements[uint8](g.Codes), simd.NewGrid(g.Bits, scales)}
}

// QuantizeRows is one block of GPTQ.
func (d *Device) QuantizeRows(c device.Codes, w, u tensor.Tensor) {
	g := groupOf("QuantizeRows", c)
	want(w.Rows == g.rows && w.Cols == g.n, "QuantizeRows", w, c.Codes)
	f, k := floats("QuantizeRows", u), u.Cols
	g.each(floats("QuantizeRows", w), func(grid simd.Grid, codes []uint8, row []float32, i int) []float32 {
		factor := f[(g.First+i)*k+g.First:]
		grid.Quantize(codes, row, row, 1/factor[i])
		return factor[i+1 : g.rows]
	})
}

// DescendRows is one pass of coordinate descent over a group.
func (d *Device) DescendRows(c device.Codes, r, h tensor.Tensor) {
	g := groupOf("DescendRows", c)
	want(r.Rows == g.rows && r.Cols == g.n, "DescendRows", r, c.Codes)
	f, k := floats("DescendRows", h), h.Cols
	g.each(floats("DescendRows", r), func(grid simd.Grid, codes []uint8, row []float32, i int) []float32 {
		weights := f[(g.First+i)*k+g.First:]
		grid.Descend(codes, row, 1/weights[i])
		return weights[i+1 : g.rows]
	})
}

// each calls step for every row i of a group in turn, tile of columns by tile;
// step replaces the row, and the row times the factors that it returns is
// subtracted from the rows after it.
func (g group) each(w []float32, step func(grid simd.Grid, codes []uint8, row []float32, i int) []float32) {
	parallel.Runs(g.n, gptqTile, func(lo, hi int) {
		grid := g.grid.Columns(lo, hi)
		for i := range g.rows {
			row := w[i*g.n+lo : i*g.n+hi]
			factors := step(grid, g.codes[i*g.n+lo:i*g.n+hi], row, i)
			if len(factors) > 0 {
				simd.SubtractOuter(w[(i+1)*g.n+lo:], g.n, factors, row)
			}
		}
	})
}

// Values stores the weights of a group's codes.
func (d *Device) Values(w tensor.Tensor, c device.Codes) {
	g := groupOf("Values", c)
	want(w.Rows == g.rows && w.Cols == g.n, "Values", w, c.Codes)
	out, zero := floats("Values", w), float32(int(1)<<(g.Bits-1))
	parallel.Runs(g.rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for c, code := range g.codes[r*g.n : (r+1)*g.n] {
				out[r*g.n+c] = half.ToF16((float32(code) - zero) * g.grid.Scale[c]).Float32()
			}
		}
	})
}

// Feedback is w[j] -= Σᵢ u[first+i, from+j]·e[i].
func (d *Device) Feedback(w, u, e tensor.Tensor, first, from int) {
	want(w.Cols == e.Cols && first+e.Rows <= u.Rows && from+w.Rows <= u.Cols, "Feedback", w, u, e)
	if w.Rows == 0 {
		return
	}
	kernels.Multiply(&simd.Product[float32]{
		M: w.Rows, N: w.Cols, K: e.Rows, Alpha: -1, Beta: 1, C: floats("Feedback", w), LDC: w.Cols,
		A: simd.Operand[float32]{Data: floats("Feedback", u)[first*u.Cols+from:], Row: 1, Col: u.Cols},
		B: simd.Operand[float32]{Data: floats("Feedback", e), Row: e.Cols, Col: 1},
	})
}
