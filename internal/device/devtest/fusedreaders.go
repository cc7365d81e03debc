package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A readersCase is products of one norm by more matrices than devices have in a launch, as of attention and what is beside it, each with an order by its number.
type readersCase struct {
	rows   int
	norm   device.Norm
	orders []int
}

// readersCases are those of up to so many rows.
func readersCases(most int) (cases []testCase) {
	rms, layer := device.Norm{Eps: 1e-5}, device.Norm{Kind: device.Layer, Eps: 1e-6}
	for _, c := range []readersCase{
		{1, rms, []int{1, 1, 1, 1, 1, 1, 1}},
		{2, layer, []int{1, 1, 1, 1, 1}},
		{4, rms, []int{1, 1, 1, 1, 2}},
		{5, layer, []int{1, 1, 1, 1, 1}},
		{8, rms, []int{1, 1, 1, 1, 1, 1, 1}},
		{11, rms, []int{2, 2, 1, 1, 2, 2}},
		{16, layer, []int{1, 1, 1, 1, 1, 2, 2}},
		{40, rms, []int{1, 1, 1, 1, 1, 1, 1}},
		{130, layer, []int{1, 1, 1, 1, 1}},
		{300, rms, []int{1, 1, 1, 1, 2, 1}},
	} {
		if c.rows <= most {
			cases = append(cases, testCase{name: fmt.Sprintf("%d rows, orders %v, norm %v", c.rows, c.orders, c.norm.Kind), limit: fusedLimit, build: c.build})
		}
	}
	return cases
}

func (c readersCase) build(f *fixture) func(device.Device) {
	const in, out = 256, 96
	x, scale, shift := f.in("x", residual, c.rows, in, noise(1)), f.in("scale", tensor.F32, 1, in, scaled(noise(2), 0.1, 0)), tensor.Tensor{}
	if c.norm.Kind == device.Layer {
		shift = f.in("shift", tensor.F32, 1, in, scaled(noise(3), 0.1, 0))
	}
	p := device.Products{X: x, Norm: c.norm, Scale: scale, Shift: shift}
	for i, order := range c.orders {
		w := matrixInOrder(f, in, out, []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g"}[i%2], order)
		p.List = append(p.List, device.Product{Y: f.out(fmt.Sprint("y ", i), activation, c.rows, out), W: w, Bias: f.bias(out, i == 1)})
	}
	spare := f.out("spare", activation, c.rows, in)
	f.within(spent)
	return func(d device.Device) { multiplyStream(d, p, spare) }
}

// plainGateCases are MLPs with gates, of up to so many rows of the activation type, which no norm is in front of.
func plainGateCases(most int) (cases []testCase) {
	for _, c := range []fusedCase{
		{rows: 1, hidden: 256, width: 672}, {rows: 2, hidden: 256, width: 672}, {rows: 4, hidden: 96, width: 160}, {rows: 7, hidden: 512, width: 1376}, {rows: 16, hidden: 256, width: 672},
		{rows: 17, hidden: 256, width: 672}, {rows: 64, hidden: 512, width: 1376}, {rows: 130, hidden: 256, width: 672}, {rows: 300, hidden: 512, width: 1376},
	} {
		if c.recipe, c.biased = "0.3:5b_128g/0.7:3b_64g", true; c.rows <= most {
			cases = append(cases, testCase{name: fmt.Sprintf("%d rows of %d, %d wide", c.rows, c.hidden, c.width), limit: fusedLimit, build: func(f *fixture) func(device.Device) {
				mlp, stream := c.mlpOf(f), f.inOut("stream", residual, c.rows, c.hidden, noise(2))
				return func(d device.Device) { mlp.addTo(d, stream, nil) }
			}})
		}
	}
	return cases
}
