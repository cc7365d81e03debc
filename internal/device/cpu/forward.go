package cpu

import (
	"fmt"
	"math"

	"exl2/internal/device/cpu/simd"
	"exl2/internal/half"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// rowTile is how many rows of a row-by-row operation one goroutine takes.
const rowTile = 16

// Embed is y[r] = scale·table[ids[r]].
func (d *Device) Embed(y, table, ids tensor.Tensor, scale float32) {
	want(y.Cols == table.Cols && y.Rows == ids.Cols, "Embed", y, table, ids)
	list, out := ints("Embed", ids), rowsOf("Embed", y)
	for _, id := range list {
		if id < 0 || int(id) >= table.Rows {
			d.fail("Embed: token id %d, vocabulary of %d", id, table.Rows)
			return
		}
	}
	parallel.Runs(y.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			widenRow(out.row(r), table, int(list[r]))
			scaleRow(out.row(r), scale)
		}
	})
}

// widenRow stores row r of a floating-point tensor in dst.
func widenRow(dst []float32, t tensor.Tensor, r int) {
	row := t.Slice(r, r+1)
	switch t.Type {
	case tensor.F32:
		copy(dst, elements[float32](row))
	case tensor.F16:
		simd.WidenF16(dst, elements[half.F16](row))
	case tensor.BF16:
		simd.WidenBF16(dst, elements[half.BF16](row))
	default:
		panic(fmt.Sprintf("cpu: %v is not floating-point", t))
	}
}

// narrowRow stores src in row r of a floating-point tensor.
func narrowRow(t tensor.Tensor, r int, src []float32) {
	row := t.Slice(r, r+1)
	switch t.Type {
	case tensor.F32:
		copy(elements[float32](row), src)
	case tensor.F16:
		simd.NarrowF16(elements[half.F16](row), src)
	case tensor.BF16:
		for i, out := 0, elements[half.BF16](row); i < len(out); i++ {
			out[i] = half.ToBF16(src[i])
		}
	default:
		panic(fmt.Sprintf("cpu: %v is not floating-point", t))
	}
}

func scaleRow(row []float32, scale float32) {
	if scale == 1 {
		return
	}
	for i := range row {
		row[i] *= scale
	}
}

// Copy converts elements among F32, F16 and BF16. Tensors with gaps must have
// one shape; others only as many elements as each other.
func (d *Device) Copy(dst, src tensor.Tensor) {
	want(dst.Rows*dst.Cols == src.Rows*src.Cols, "Copy", dst, src)
	flatten(&dst, &src)
	want(dst.Rows == src.Rows, "Copy", dst, src)
	pieces(dst.Rows, dst.Cols, func(r, lo, hi int) {
		to, from := dst.Slice(r, r+1).Columns(lo, hi), src.Slice(r, r+1).Columns(lo, hi)
		if to.Type == from.Type {
			copy(bytesOf(to), bytesOf(from))
			return
		}
		wide, release := d.borrowed(hi - lo)
		defer release()
		widenRow(wide, from, 0)
		narrowRow(to, 0, wide)
	})
}

// AddScaled is y += scale·x.
func (d *Device) AddScaled(y, x tensor.Tensor, scale float32) {
	want(y.Rows == x.Rows && y.Cols == x.Cols, "AddScaled", y, x)
	flatten(&y, &x)
	out, in := rowsOf("AddScaled", y), rowsOf("AddScaled", x)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) {
		to := out.row(r)[lo:hi]
		for i, v := range in.row(r)[lo:hi] {
			to[i] += scale * v
		}
	})
}

// Cap is x = cap·tanh(scale·x/cap), or scale·x.
func (d *Device) Cap(x tensor.Tensor, scale, softcap float32) {
	flatten(&x)
	v := rowsOf("Cap", x)
	pieces(x.Rows, x.Cols, func(r, lo, hi int) {
		row := v.row(r)[lo:hi]
		for i, x := range row {
			row[i] = capped(x*scale, softcap)
		}
	})
}

func capped(x, limit float32) float32 {
	if limit == 0 {
		return x
	}
	return limit * float32(math.Tanh(float64(x/limit)))
}

// Advance adds one to every position.
func (d *Device) Advance(pos tensor.Tensor) {
	for i, p := 0, ints("Advance", pos); i < len(p); i++ {
		p[i]++
	}
}
