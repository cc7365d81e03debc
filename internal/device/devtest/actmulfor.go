package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// actMulForCases are gates of what a product that is added to the stream reads.
func actMulForCases() (cases []testCase) {
	for _, rows := range []int{0, 1, 2, 5, 40} {
		for _, act := range []device.Act{device.Logistic, device.SiLU} {
			cases = append(cases, testCase{name: fmt.Sprintf("rows=%d act=%v", rows, act), limit: fusedLimit, build: func(f *fixture) func(device.Device) { return buildActMulFor(f, rows, act) }})
		}
	}
	return cases
}

func buildActMulFor(f *fixture, rows int, act device.Act) func(device.Device) {
	const hidden, width = 256, 512
	fc := fusedCase{rows: rows, hidden: hidden, recipe: "1:4b_128g"}
	stream, scale := f.inOut("stream", residual, rows, hidden, noise(1)), f.in("scale", tensor.F32, 1, hidden, scaled(noise(2), 0.1, 0))
	gate, up := f.in("gate", activation, rows, width, scaled(noise(3), 3, 0)), f.in("up", activation, rows, width, noise(4))
	y, projection := f.spent("y", activation, rows, width), f.spent("projection", activation, rows, hidden)
	o, mlp := fc.matrixOf(f, width, hidden, 8), fc.mlpOf(f)
	p := device.Products{X: stream, Scale: scale, Norm: device.Norm{Eps: 1e-5}, List: []device.Product{{Y: projection, W: fc.matrixOf(f, hidden, hidden, 2)}}}
	return func(d device.Device) {
		fuser, fuses := d.(device.Fuser)
		linked := p
		linked.Left = mlp.addTo(d, stream, &p)
		multiplyStream(d, linked, mlp.spare)
		left := fuses && fuser.ActMulFor(y, gate, up, act, o)
		if !left {
			d.ActMul(y, gate, up, act)
		}
		addTo(d, device.Products{X: y, List: []device.Product{{Y: stream, W: o}}, Then: device.Add, Left: left}, mlp.spare)
	}
}
