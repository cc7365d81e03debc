package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// gatedHeads are shapes of heads with a gate each.
var gatedHeads = []struct {
	rows, heads, dim int
	x, gate          values
}{
	{0, 4, 64, noise(1), noise(2)}, {1, 1, 1, noise(1), noise(2)}, {1, 48, 128, noise(3), scaled(noise(4), 4, 0)}, {3, 96, 128, noise(5), scaled(noise(6), 20, 0)},
	{65, 16, 128, noise(7), scaled(noise(8), 8, 0)}, {37, 5, 7, noise(9), noise(10)}, {3, 3, 300, hostile(11), noise(12)}, {3, 8, 32, noise(13), hostile(14)},
}

var headActs = []struct {
	name string
	act  device.Act
}{{"sigmoid", device.Logistic}, {"softplus", device.Softplus}}

func headGatesCases() (cases []testCase) {
	limit := limit{abs: 0x1p-23, rel: ulp, why: "a function in float32, one rounding to fp16, whose subnormals are 2⁻²⁴ apart"}
	for _, a := range headActs {
		for _, c := range gatedHeads {
			name, cols := fmt.Sprintf("%s rows=%d heads=%d dim=%d", a.name, c.rows, c.heads, c.dim), c.heads*c.dim
			build := func(f *fixture, y, x tensor.Tensor) func(device.Device) {
				gate := f.in("gate", activation, c.rows, c.heads, c.gate)
				return func(d device.Device) { d.HeadGates(y, x, gate, a.act) }
			}
			cases = append(cases, testCase{name: name, limit: limit, build: func(f *fixture) func(device.Device) {
				y := f.out("y", activation, c.rows, cols)
				return build(f, y, f.in("x", activation, c.rows, cols, c.x))
			}}, testCase{name: name + " in place", limit: limit, build: func(f *fixture) func(device.Device) {
				x := f.inOut("x", activation, c.rows, cols, c.x)
				return build(f, x, x)
			}})
		}
	}
	return cases
}

func headGatesBackCases() (cases []testCase) {
	l := limit{abs: 1e-9, rms: 1e-5, rel: 1e-5, why: "a function and sums in float32"}
	for _, a := range headActs {
		for _, c := range gatedHeads {
			cols := c.heads * c.dim
			cases = append(cases, backwards(fmt.Sprintf("%s rows=%d heads=%d dim=%d", a.name, c.rows, c.heads, c.dim), l, func(f *fixture) func(device.Backward) {
				dx, dgate := f.inOut("dx", residual, c.rows, cols, small(20)), f.inOut("dgate", residual, c.rows, c.heads, small(21))
				dy, x, gate := f.in("dy", residual, c.rows, cols, small(22)), f.in("x", activation, c.rows, cols, c.x), f.in("gate", activation, c.rows, c.heads, c.gate)
				return func(d device.Backward) { d.HeadGatesBack(dx, dgate, dy, x, gate, a.act) }
			}))
		}
	}
	return cases
}
