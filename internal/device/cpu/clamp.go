package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// ClampMul is y = (u + c.Added)·g·σ(c.Alpha·g) with g and u limited.
func (d *Device) ClampMul(y, gate, up tensor.Tensor, c device.Clamp) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols && up.Rows == gate.Rows && up.Cols == gate.Cols, "ClampMul", y, gate, up)
	flatten(&y, &gate, &up)
	out, gates, ups := rowsOf("ClampMul", y), rowsOf("ClampMul", gate), rowsOf("ClampMul", up)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) {
		to, us := out.row(r)[lo:hi], ups.row(r)[lo:hi]
		for i, g := range gates.row(r)[lo:hi] {
			g = min(g, c.Limit)
			u := max(min(us[i], c.Up), -c.Up)
			to[i] = (u + c.Added) * g * float32(1/(1+math.Exp(-float64(c.Alpha)*float64(g))))
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

// ClampMulBack is the gradient of ClampMul. With s = σ(α·g), the slope of g·s is
// s·(1 + α·g·(1 - s)).
func (d *Device) ClampMulBack(dgate, dup, dy, gate, up tensor.Tensor, c device.Clamp) {
	for _, t := range []tensor.Tensor{dgate, dup, dy, up} {
		want(t.Rows == gate.Rows && t.Cols == gate.Cols, "ClampMulBack", t, gate)
	}
	flatten(&dgate, &dup, &dy, &gate, &up)
	dg, du, grad := rowsOf("ClampMulBack", dgate), rowsOf("ClampMulBack", dup), rowsOf("ClampMulBack", dy)
	gates, ups, alpha := rowsOf("ClampMulBack", gate), rowsOf("ClampMulBack", up), float64(c.Alpha)
	pieces(gate.Rows, gate.Cols, func(r, lo, hi int) {
		dg, du, grad, us := dg.row(r)[lo:hi], du.row(r)[lo:hi], grad.row(r)[lo:hi], ups.row(r)[lo:hi]
		for i, raw := range gates.row(r)[lo:hi] {
			g, u := float64(min(raw, c.Limit)), max(min(us[i], c.Up), -c.Up)
			s := 1 / (1 + math.Exp(-alpha*g))
			if raw <= c.Limit {
				dg[i] += grad[i] * (u + c.Added) * float32(s*(1+alpha*g*(1-s)))
			}
			if u == us[i] {
				du[i] += grad[i] * float32(g*s)
			}
		}
	})
}

// ClipBack clears the gradients of what is beyond the limit.
func (d *Device) ClipBack(dx, x tensor.Tensor, limit float32) {
	want(dx.Rows == x.Rows && dx.Cols == x.Cols, "ClipBack", dx, x)
	flatten(&dx, &x)
	grad, v := rowsOf("ClipBack", dx), rowsOf("ClipBack", x)
	pieces(dx.Rows, dx.Cols, func(r, lo, hi int) {
		g := grad.row(r)[lo:hi]
		for i, x := range v.row(r)[lo:hi] {
			if !(x <= limit && x >= -limit) {
				g[i] = 0
			}
		}
	})
}
