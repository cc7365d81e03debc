package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/device/cpu/simd"
	"exl2/internal/tensor"
)

// ActMul is y = act(gate)·up, or act(gate).
func (d *Device) ActMul(y, gate, up tensor.Tensor, a device.Act) {
	if up.Nil() {
		d.actAlone(y, gate, a)
		return
	}
	want(y.Rows == gate.Rows && y.Cols == gate.Cols && up.Rows == gate.Rows && up.Cols == gate.Cols, "ActMul", y, gate, up)
	flatten(&y, &gate, &up)
	out, g, u := rowsOf("ActMul", y), rowsOf("ActMul", gate), rowsOf("ActMul", up)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) { actMul(out.row(r)[lo:hi], g.row(r)[lo:hi], u.row(r)[lo:hi], a) })
}

// actAlone is y = act(gate), times ones.
func (d *Device) actAlone(y, gate tensor.Tensor, a device.Act) {
	want(y.Rows == gate.Rows && y.Cols == gate.Cols, "ActMul", y, gate)
	flatten(&y, &gate)
	out, g := rowsOf("ActMul", y), rowsOf("ActMul", gate)
	pieces(y.Rows, y.Cols, func(r, lo, hi int) {
		buf, release := d.borrowed(hi - lo)
		defer release()
		actMul(out.row(r)[lo:hi], g.row(r)[lo:hi], ones(buf), a)
	})
}

func actMul(y, gate, up []float32, a device.Act) {
	switch a {
	case device.SiLU:
		simd.SiLUMul(y, gate, up)
		return
	case device.GELUTanh:
		simd.GELUTanhMul(y, gate, up)
		return
	}
	f := activations[a]
	for i, g := range gate {
		y[i] = f(g) * up[i]
	}
}

// activations are those that package simd does not have.
var activations = [...]func(float32) float32{
	device.GELU:     func(x float32) float32 { return float32(0.5 * float64(x) * (1 + math.Erf(float64(x)/math.Sqrt2))) },
	device.ReLU:     func(x float32) float32 { return max(x, 0) },
	device.Logistic: sigmoid,
	device.Softplus: func(x float32) float32 { return float32(softplus(float64(x))) },
}

func sigmoid(x float32) float32 { return float32(1 / (1 + math.Exp(-float64(x)))) }
