package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// ClampMul is y = (u + 1)·g·σ(c.Alpha·g) with g and u limited.
func (d *Device) ClampMul(y, gate, up tensor.Tensor, c device.Clamp) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols && up.Rows == gate.Rows && up.Cols == gate.Cols, "ClampMul", y, gate, up)
	flatten(&y, &gate, &up)
	out, gates, ups := rowsOf("ClampMul", y), rowsOf("ClampMul", gate), rowsOf("ClampMul", up)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) {
		to, us := out.row(r)[lo:hi], ups.row(r)[lo:hi]
		for i, g := range gates.row(r)[lo:hi] {
			g = min(g, c.Limit)
			u := max(min(us[i], c.Limit), -c.Limit)
			to[i] = (u + 1) * g * float32(1/(1+math.Exp(-float64(c.Alpha)*float64(g))))
		}
	})
}

// Clip limits elements to ±limit.
func (d *Device) Clip(x tensor.Tensor, limit float32) {
	flatten(&x)
	v := rowsOf("Clip", x)
	pieces(x.Rows, x.Cols, func(r, lo, hi int) {
		row := v.row(r)[lo:hi]
		for i, x := range row {
			row[i] = max(min(x, limit), -limit)
		}
	})
}
