package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A gatedCase is columns of a stream that are gated by products of others.
type gatedCase struct {
	rows, in, out int
	t             tensor.Type
	act           device.Act
}

func gatedCases() (cases []testCase) {
	for _, c := range []gatedCase{
		{1, 2560, 256, tensor.F16, device.GELUTanh},
		{1, 8, 1, tensor.F16, device.SiLU},
		{2, 1536, 256, tensor.BF16, device.GELUTanh},
		{3, 4104, 33, tensor.F32, device.GELU},
		{4, 64, 32, tensor.F16, device.ReLU},
		{8, 2560, 256, tensor.F16, device.GELUTanh},
		{13, 6000, 7, tensor.BF16, device.SiLU},
		{16, 256, 31, tensor.F16, device.GELUTanh},
		{17, 256, 32, tensor.F16, device.GELUTanh},
		{2, 36, 12, tensor.F16, device.GELUTanh},
		{2, 256, 32, tensor.F16, device.Logistic},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
	}
	return cases
}

func (c gatedCase) build(f *fixture) func(device.Device) {
	x, w := f.in("x", residual, c.rows, c.in, noise(1)), f.in("w", c.t, c.out, c.in, scaled(noise(2), 0.2, 0))
	by, y := f.in("by", residual, c.rows, c.out, noise(3)), f.out("y", activation, c.rows, c.out)
	narrow, gate, up := f.spent("narrow", activation, c.rows, c.in), f.spent("gate", activation, c.rows, c.out), f.spent("up", activation, c.rows, c.out)
	return func(d device.Device) {
		if fuser, ok := d.(device.Fuser); !ok || !fuser.MatMulGated(y, x, w, by, c.act) {
			GatedOf(d, y, x, w, by, c.act, narrow, gate, up)
		}
	}
}

// GatedOf is what Fuser.MatMulGated is, one operation after the other, with room for x, for the product, and for what it gates.
func GatedOf(d device.Device, y, x, w, by tensor.Tensor, a device.Act, narrow, gate, up tensor.Tensor) {
	d.Copy(narrow, x)
	d.MatMul(gate, narrow, w, tensor.Tensor{})
	d.Copy(up, by)
	d.ActMul(y, gate, up, a)
}
