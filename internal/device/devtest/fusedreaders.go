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

// An activatedCase is products that are activated without a gate, and an MLP of such behind what adds to the stream that they read.
type activatedCase struct {
	rows, hidden, width int
	then                device.Then
	act                 device.Act
	norm                device.Norm
	normed, biased      bool
	recipe              string
}

// activatedCases are those of up to so many rows.
func activatedCases(most int) (cases []testCase) {
	const self, act = device.SelfGate, device.Activate
	rms, layer, none := device.Norm{Eps: 1e-5}, device.Norm{Kind: device.Layer, Eps: 1e-6}, device.Norm{}
	for _, c := range []activatedCase{
		{1, 256, 672, act, device.GELUTanh, layer, true, true, "1:4b_128g"},
		{1, 512, 1376, self, device.ReLU, rms, true, false, "0.3:5b_128g/0.7:3b_64g"},
		{1, 64, 28672, act, device.GELU, none, false, true, "0.5:8b_32g/0.5:3b_32g"},
		{1, 1024, 2816, self, device.SiLU, layer, true, true, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g"},
		{2, 256, 672, act, device.ReLU, layer, true, true, "1:6b_128g"},
		{3, 512, 1376, self, device.ReLU, rms, true, false, "0.3:5b_128g/0.7:3b_64g"},
		{4, 96, 160, act, device.GELUTanh, none, false, true, "1:4b_32g"},
		{5, 256, 672, act, device.SiLU, rms, true, true, "1:4b_128g"},
		{7, 512, 1376, self, device.ReLU, layer, true, true, "0.5:8b_128g/0.5:2b_64g"},
		{8, 1024, 2816, act, device.GELU, layer, true, false, "0.25:3b_64g/0.75:2b_64g"},
		{12, 64, 11008, self, device.ReLU, rms, true, false, "0.1:6b_128g/0.9:4b_128g"},
		{16, 256, 672, act, device.GELUTanh, layer, true, true, "0.3:5b_128g/0.7:3b_64g"},
		{17, 256, 672, act, device.GELUTanh, layer, true, true, "1:4b_128g"},
		{40, 512, 1376, self, device.ReLU, rms, true, false, "0.3:5b_128g/0.7:3b_64g"},
		{64, 512, 1376, act, device.ReLU, layer, true, true, "0.5:8b_128g/0.5:2b_64g"},
		{128, 256, 672, act, device.SiLU, none, false, true, "0.3:5b_128g/0.7:3b_64g"},
		{130, 256, 672, self, device.ReLU, rms, true, true, "1:4b_128g"},
		{300, 512, 1376, act, device.GELU, layer, true, true, "0.3:5b_128g/0.7:3b_64g"},
	} {
		if c.rows <= most {
			cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
		}
	}
	return cases
}

func (c activatedCase) build(f *fixture) func(device.Device) {
	fc := fusedCase{recipe: c.recipe}
	stream := f.inOut("stream", residual, c.rows, c.hidden, noise(1))
	first := device.Products{X: stream, Norm: c.norm, Then: c.then, Act: c.act}
	switch {
	case !c.normed:
		first.X = f.in("x", activation, c.rows, c.hidden, scaled(noise(4), 0.1, 0))
	case c.norm.Kind == device.Layer:
		first.Shift = f.in("shift", tensor.F32, 1, c.hidden, scaled(noise(3), 0.1, 0))
		fallthrough
	default:
		first.Scale = f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.1, 0))
	}
	up := device.Product{Y: f.out("y", activation, c.rows, c.width), W: fc.matrixOf(f, c.hidden, c.width, 4), Bias: f.bias(c.width, c.biased)}
	alone := first
	alone.List = []device.Product{up}
	up.Y = f.spent("acted", activation, c.rows, c.width)
	mlp := mlpBefore{first, device.Product{W: fc.matrixOf(f, c.width, c.hidden, 5)}, f.spent("opened", activation, c.rows, c.width), f.spent("spare", activation, c.rows, c.hidden)}
	mlp.first.List, mlp.first.Next = []device.Product{up}, mlp.down.W
	in, o := f.in("in", activation, c.rows, c.hidden, scaled(noise(5), 0.1, 0)), fc.matrixOf(f, c.hidden, c.hidden, 6)
	return func(d device.Device) {
		activate(d, alone, mlp.spare, mlp.opened)
		front := device.Products{X: in, List: []device.Product{{Y: stream, W: o}}, Then: device.Add}
		if c.normed {
			front.Reader = &mlp.first
		}
		mlp.first.Left = addTo(d, front, mlp.spare)
		mlp.addTo(d, stream, nil)
	}
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
