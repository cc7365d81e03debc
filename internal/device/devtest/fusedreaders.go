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
		q := quantizedParts(in, out, []string{"1:4b_128g", "0.3:5b_128g/0.7:3b_64g"}[i%2])
		q.Perm = shuffled(20+order, in)
		p.List = append(p.List, device.Product{Y: f.out(fmt.Sprint("y ", i), activation, c.rows, out), W: f.matrix(q.Pack(), out), Bias: f.bias(out, i == 1)})
	}
	spare := f.out("spare", activation, c.rows, in)
	f.within(spent)
	return func(d device.Device) {
		if fuser, ok := d.(device.Fuser); !ok || !fuser.Products(p) {
			normThenMultiply(d, spare, p)
		}
	}
}

// A plainGateCase is an MLP with gates of rows of the activation type, which no norm is in front of.
type plainGateCase struct{ rows, hidden, width int }

// plainGateCases are those of up to so many rows.
func plainGateCases(most int) (cases []testCase) {
	for _, c := range []plainGateCase{{1, 256, 672}, {2, 256, 672}, {4, 96, 160}, {7, 512, 1376}, {16, 256, 672}, {17, 256, 672}, {64, 512, 1376}, {130, 256, 672}, {300, 512, 1376}} {
		if c.rows <= most {
			cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
		}
	}
	return cases
}

func (c plainGateCase) build(f *fixture) func(device.Device) {
	matrix := func(in, out, order int) device.Matrix {
		q := quantizedParts(in, (out+31)/32*32, "0.3:5b_128g/0.7:3b_64g")
		q.Perm = shuffled(20+order, in)
		return f.matrix(q.Pack(), out)
	}
	x, stream := f.in("x", activation, c.rows, c.hidden, scaled(noise(1), 0.1, 0)), f.inOut("stream", residual, c.rows, c.hidden, noise(2))
	acted := f.spent("acted", activation, c.rows, c.width)
	gate, up := device.Product{Y: acted, W: matrix(c.hidden, c.width, 0), Bias: f.bias(c.width, true)}, device.Product{W: matrix(c.hidden, c.width, 0), Bias: f.bias(c.width, false)}
	down := device.Product{Y: stream, W: matrix(c.width, c.hidden, 1)}
	var spare []tensor.Tensor
	for i, cols := range []int{c.width, c.hidden} {
		spare = append(spare, f.out(fmt.Sprint("spare ", i), activation, c.rows, cols))
		f.within(spent)
	}
	mlp := device.Products{X: x, List: []device.Product{gate, up}, Then: device.Gate, Act: device.SiLU, Next: down.W}
	return func(d device.Device) {
		fuser, ok := d.(device.Fuser)
		if ok && fuser.Products(mlp, device.Products{X: acted, Sorted: true, List: []device.Product{down}, Then: device.Add}) {
			return
		}
		d.QMatMul(acted, x, gate.W, gate.Bias)
		d.QMatMul(spare[0], x, up.W, up.Bias)
		d.ActMul(acted, acted, spare[0], device.SiLU)
		d.QMatMul(spare[1], acted, down.W, down.Bias)
		d.AddScaled(stream, spare[1], 1)
	}
}
