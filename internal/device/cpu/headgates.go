package cpu

import (
	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// HeadGates is y = act(gate)·x by heads.
func (d *Device) HeadGates(y, x, gate tensor.Tensor, a device.Act) {
	const op = "HeadGates"
	want(y.Rows == x.Rows && y.Cols == x.Cols && gate.Rows == x.Rows && gate.Cols > 0 && x.Cols%gate.Cols == 0, op, y, x, gate)
	out, in, gates, f, dim := rowsOf(op, y), rowsOf(op, x), rowsOf(op, gate), activations[a], x.Cols/gate.Cols
	parallel.Runs(x.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for h, g := range gates.row(r) {
				factor, from, to := f(g), in.row(r)[h*dim:(h+1)*dim], out.row(r)[h*dim:(h+1)*dim]
				for i, v := range from {
					to[i] = factor * v
				}
			}
		}
	})
}

// HeadGatesBack is the gradient of HeadGates: a gate has the sum of its head's.
func (d *Device) HeadGatesBack(dx, dgate, dy, x, gate tensor.Tensor, a device.Act) {
	const op = "HeadGatesBack"
	want(dx.Rows == x.Rows && dx.Cols == x.Cols && dy.Rows == x.Rows && dy.Cols == x.Cols && gate.Rows == x.Rows && gate.Cols > 0 && x.Cols%gate.Cols == 0, op, dx, dy, x, gate)
	want(dgate.Rows == gate.Rows && dgate.Cols == gate.Cols, op, dgate, gate)
	out, dg, grad, in, gates := rowsOf(op, dx), rowsOf(op, dgate), rowsOf(op, dy), rowsOf(op, x), rowsOf(op, gate)
	f, dim := slopes[a], x.Cols/gate.Cols
	parallel.Runs(x.Rows, rowTile, func(lo, hi int) {
		for r := lo; r < hi; r++ {
			for h, g := range gates.row(r) {
				value, slope := f(float64(g))
				head, dy, x, sum := out.row(r)[h*dim:(h+1)*dim], grad.row(r)[h*dim:(h+1)*dim], in.row(r)[h*dim:(h+1)*dim], 0.0
				for i, v := range dy {
					head[i] += float32(value) * v
					sum += float64(v) * float64(x[i])
				}
				dg.row(r)[h] += float32(sum * slope)
			}
		}
	})
}
