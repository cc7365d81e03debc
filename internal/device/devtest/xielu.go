package devtest

import (
	"fmt"

	"exl2/internal/device"
)

var xieluShapes = []struct {
	rows, cols int
	u          device.XIELU
	x          values
}{
	{0, 64, device.XIELU{Positive: 0.8, Negative: 0.8, Beta: 0.5, Least: -1e-6}, noise(1)}, {1, 1, device.XIELU{Positive: 0.8, Negative: 0.8, Beta: 0.5, Least: -1e-6}, noise(1)},
	{1, 11008, device.XIELU{Positive: 1.7, Negative: 0.6, Beta: 0.5, Least: -1e-6}, scaled(noise(2), 3, 0)}, {65, 1001, device.XIELU{Positive: 0.1, Negative: 4, Beta: 0.5, Least: -1e-6}, scaled(noise(3), 8, 0)},
	{3, 256, device.XIELU{Positive: 0.8, Negative: 0.8, Beta: 0.5, Least: -1e-6}, list(-30, -7, -1e-3, -1e-5, 0, 1e-5, 1e-3, 7, 100)}, {3, 256, device.XIELU{Positive: 0.8, Negative: 0.8, Beta: 0.5, Least: -1e-6}, hostile(4)},
}

func xieluCases() (cases []testCase) {
	limit := limit{abs: 0x1p-23, rel: 2 * ulp, why: "a function in float32, one rounding to fp16, whose subnormals are 2⁻²⁴ apart"}
	for _, c := range xieluShapes {
		name := fmt.Sprintf("rows=%d cols=%d %+v", c.rows, c.cols, c.u)
		cases = append(cases, testCase{name: name, limit: limit, build: func(f *fixture) func(device.Device) {
			y, x := f.out("y", activation, c.rows, c.cols), f.in("x", activation, c.rows, c.cols, c.x)
			return func(d device.Device) { d.XIELU(y, x, c.u) }
		}}, testCase{name: name + " in place", limit: limit, build: func(f *fixture) func(device.Device) {
			x := f.inOut("x", activation, c.rows, c.cols, c.x)
			return func(d device.Device) { d.XIELU(x, x, c.u) }
		}})
	}
	return cases
}

func xieluBackCases() (cases []testCase) {
	l := limit{abs: 1e-9, rms: 1e-5, rel: 1e-5, why: "a function in float32"}
	for _, c := range xieluShapes {
		cases = append(cases, backwards(fmt.Sprintf("rows=%d cols=%d %+v", c.rows, c.cols, c.u), l, func(f *fixture) func(device.Backward) {
			dx, dy, x := f.inOut("dx", residual, c.rows, c.cols, small(5)), f.in("dy", residual, c.rows, c.cols, small(6)), f.in("x", activation, c.rows, c.cols, c.x)
			return func(d device.Backward) { d.XIELUBack(dx, dy, x, c.u) }
		}))
	}
	return cases
}
