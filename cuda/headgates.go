package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

var headGates = map[device.Act]func(d *Device, l launch, y, x, gate tensor.Tensor, rows int32, n int64, dim int32, ldy, ldx, ldg int64){
	device.Logistic: (*Device).head_gates_sigmoid_f16, device.Softplus: (*Device).head_gates_softplus_f16,
}

// HeadGates is y = act(gate)·x by heads.
func (d *Device) HeadGates(y, x, gate tensor.Tensor, a device.Act) {
	want(y.Rows == x.Rows && y.Cols == x.Cols && gate.Rows == x.Rows && gate.Cols > 0 && x.Cols%gate.Cols == 0, "HeadGates", y, x, gate)
	p := plane{x.Rows, x.Cols}
	headGates[a](d, p.launch(), y, x, gate, int32(p.rows), int64(p.cols), int32(x.Cols/gate.Cols), int64(y.Stride), int64(x.Stride), int64(gate.Stride))
}

var headGatesBacks = map[device.Act]func(d *Device, l launch, dx, dgate, dy, x, gate tensor.Tensor, rows, heads, dim int32, lddx, lddg, ldy, ldx, ldg int64){
	device.Logistic: (*Device).head_gates_back_sigmoid, device.Softplus: (*Device).head_gates_back_softplus,
}

// HeadGatesBack is its gradient.
func (d *Device) HeadGatesBack(dx, dgate, dy, x, gate tensor.Tensor, a device.Act) {
	const op = "HeadGatesBack"
	want(dx.Rows == x.Rows && dx.Cols == x.Cols && dy.Rows == x.Rows && dy.Cols == x.Cols && gate.Rows == x.Rows && gate.Cols > 0 && x.Cols%gate.Cols == 0, op, dx, dy, x, gate)
	want(dgate.Rows == gate.Rows && dgate.Cols == gate.Cols, op, dgate, gate)
	l := launch{blocks: dim{x: pieces(x.Rows*gate.Cols*32, head_gates_back_threads)}, threads: dim{x: head_gates_back_threads}}
	headGatesBacks[a](d, l, dx, dgate, dy, x, gate, int32(x.Rows), int32(gate.Cols), int32(x.Cols/gate.Cols),
		int64(dx.Stride), int64(dgate.Stride), int64(dy.Stride), int64(x.Stride), int64(gate.Stride))
}
