package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// XIELU is an activation function with numbers of its own.
func (d *Device) XIELU(y, x tensor.Tensor, u device.XIELU) {
	want(y.Rows == x.Rows && y.Cols == x.Cols, "XIELU", y, x)
	flatten(&y, &x)
	out, in := rowsOf("XIELU", y), rowsOf("XIELU", x)
	pieces(x.Rows, x.Cols, func(r, lo, hi int) {
		to := out.row(r)[lo:hi]
		for i, v := range in.row(r)[lo:hi] {
			value, _ := xielu(float64(v), u)
			to[i] = float32(value)
		}
	})
}

// XIELUBack is the gradient of XIELU.
func (d *Device) XIELUBack(dx, dy, x tensor.Tensor, u device.XIELU) {
	want(dx.Rows == x.Rows && dx.Cols == x.Cols && dy.Rows == x.Rows && dy.Cols == x.Cols, "XIELUBack", dx, dy, x)
	flatten(&dx, &dy, &x)
	out, grad, in := rowsOf("XIELUBack", dx), rowsOf("XIELUBack", dy), rowsOf("XIELUBack", x)
	pieces(x.Rows, x.Cols, func(r, lo, hi int) {
		to, dy := out.row(r)[lo:hi], grad.row(r)[lo:hi]
		for i, v := range in.row(r)[lo:hi] {
			_, slope := xielu(float64(v), u)
			to[i] += dy[i] * float32(slope)
		}
	})
}

// xielu returns the function and its derivative, that of Least -0.
func xielu(x float64, u device.XIELU) (value, slope float64) {
	beta := float64(u.Beta)
	if x > 0 {
		p := float64(u.Positive)
		return p*x*x + beta*x, 2*p*x + beta
	}
	n := float64(u.Negative)
	return n*(math.Expm1(min(x, float64(u.Least)))-x) + beta*x, beta + n*math.Expm1(x)
}
