package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// fusedLimit is that of what follows several products: without the roundings to fp16
// between them. Activations rounded to fp16 alone make an error of 4.4e-5 of the case with
// 2 bits, whose products cancel, and of 3e-7 of the others.
var fusedLimit = limit{rms: 5e-2, rel: 4 * ulp, nmse: 1e-4, why: "sums in another order; fewer roundings to fp16"}

// A fusedCase is a layer without its attention: norm, three projections, an output that
// is added to the stream, and an MLP.
type fusedCase struct {
	rows, hidden, narrow, width int
	recipe                      string
	norm                        device.Norm
	act                         device.Act
	biased, apart               bool // apart: every matrix has an order of its own
}

// fusedCases are those of up to so many rows.
func fusedCases(most int) (cases []testCase) {
	rms, layer := device.Norm{Eps: 1e-5, Offset: 0.1}, device.Norm{Kind: device.Layer, Eps: 1e-6}
	for _, c := range []fusedCase{
		{1, 64, 32, 96, "1:4b_32g", rms, device.SiLU, false, false},
		{1, 256, 64, 672, "1:4b_128g", rms, device.SiLU, false, false},
		{1, 256, 64, 672, "1:4b_128g", layer, device.GELU, true, true},
		{1, 512, 512, 1376, "0.3:5b_128g/0.7:3b_64g", rms, device.GELUTanh, true, false},
		{1, 1024, 128, 2816, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", rms, device.SiLU, false, false},
		{1, 2048, 256, 5632, "0.25:3b_64g/0.75:2b_64g", rms, device.SiLU, false, false},
		{1, 64, 32, 28672, "0.5:8b_32g/0.5:3b_32g", rms, device.SiLU, false, false},
		{2, 256, 64, 672, "1:6b_128g", rms, device.ReLU, true, false},
		{3, 512, 512, 1376, "0.1:4b_128g/0.9:3b_128g", layer, device.SiLU, true, false},
		{2, 1024, 128, 2816, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", rms, device.SiLU, false, false},
		{2, 2048, 256, 5632, "0.25:3b_64g/0.75:2b_64g", rms, device.SiLU, false, false},
		{3, 512, 512, 1376, "0.3:5b_128g/0.7:3b_64g", rms, device.GELUTanh, false, false},
		{4, 64, 32, 96, "1:4b_32g", rms, device.SiLU, false, false},
		{4, 1024, 128, 2816, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", rms, device.SiLU, false, true},
		{4, 256, 64, 11008, "0.1:8b_128g/0.9:4b_128g", rms, device.SiLU, false, false},
		{5, 96, 64, 160, "1:5b_32g", layer, device.SiLU, true, true},
		{6, 512, 128, 1376, "0.3:6b_64g/0.7:3b_32g", rms, device.GELU, false, false},
		{7, 1024, 128, 2816, "0.25:3b_64g/0.75:2b_64g", rms, device.SiLU, false, false},
		{8, 512, 128, 1376, "0.5:8b_128g/0.5:2b_64g", rms, device.SiLU, false, true},
		{8, 1024, 128, 2816, "1:4b_128g", rms, device.SiLU, false, false},
		{9, 256, 64, 672, "1:4b_128g", layer, device.GELU, true, true},
		{12, 1024, 128, 2816, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", rms, device.SiLU, false, false},
		{16, 64, 32, 96, "1:4b_32g", rms, device.SiLU, true, false},
		{15, 512, 96, 1376, "1:2b_32g", rms, device.GELUTanh, true, true},
		{16, 2048, 512, 5632, "0.1:4b_128g/0.9:3b_128g", rms, device.SiLU, false, false},
		{8, 1024, 128, 2816, "0.1:8b_64g/0.1:6b_64g/0.2:5b_64g/0.2:4b_64g/0.2:3b_128g/0.2:2b_64g", rms, device.SiLU, true, false},
		{16, 1024, 128, 2816, "0.1:8b_64g/0.1:6b_64g/0.2:5b_64g/0.2:4b_64g/0.2:3b_64g/0.2:2b_64g", rms, device.SiLU, false, false},
		{1, 2880, 64, 2880, "0.1:5b_128g/0.9:4b_128g", rms, device.SiLU, false, false},
		{2, 2880, 64, 2880, "0.1:5b_128g/0.9:4b_128g", rms, device.SiLU, false, false},
		{4, 2880, 64, 2880, "0.1:5b_32g/0.9:3b_64g", rms, device.SiLU, false, false},
		{8, 2880, 64, 2880, "0.1:5b_32g/0.9:3b_64g", rms, device.SiLU, false, false},
		{16, 2880, 64, 2880, "0.1:5b_128g/0.9:4b_128g", rms, device.SiLU, false, false},
		{4, 96, 32, 18944, "0.1:6b_128g/0.9:4b_128g", rms, device.SiLU, false, false},
		{16, 96, 32, 18944, "0.1:6b_128g/0.9:4b_128g", rms, device.SiLU, false, false},
		{4, 64, 32, 28672, "1:4b_128g", rms, device.SiLU, true, false},
		{8, 64, 32, 28672, "0.1:5b_32g/0.9:3b_64g", rms, device.GELU, true, false},
		{13, 96, 32, 14336, "0.1:5b_128g/0.9:4b_128g", rms, device.SiLU, true, false},
		{16, 64, 32, 32768, "1:6b_128g", rms, device.SiLU, false, false},
		{17, 64, 32, 96, "1:4b_32g", rms, device.SiLU, false, false},
		{24, 1024, 128, 2816, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", rms, device.SiLU, false, false},
		{33, 512, 512, 1376, "0.3:5b_128g/0.7:3b_64g", layer, device.GELUTanh, true, false},
		{64, 256, 64, 3232, "0.5:8b_128g/0.5:2b_64g", rms, device.GELU, true, true},
		{40, 256, 45, 672, "1:4b_128g", rms, device.SiLU, true, false},
		{65, 2880, 64, 2880, "0.1:5b_32g/0.9:3b_64g", rms, device.ReLU, false, false},
		{100, 96, 32, 18944, "0.1:6b_128g/0.9:4b_128g", layer, device.SiLU, false, false},
		{128, 2048, 512, 5632, "0.1:4b_128g/0.9:3b_128g", rms, device.SiLU, true, false},
		{129, 64, 32, 96, "1:4b_32g", rms, device.SiLU, false, false},
		{300, 512, 128, 1376, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", rms, device.GELU, false, false},
		{513, 256, 64, 3232, "0.5:8b_128g/0.5:2b_64g", layer, device.GELUTanh, true, true},
		{700, 512, 512, 1376, "0.3:5b_128g/0.7:3b_64g", rms, device.ReLU, true, false},
	} {
		if c.rows <= most {
			cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
		}
	}
	return cases
}

// matrixOf returns a matrix that has the order of seed. The one of seed 1 has widths of its own, so that its
// units begin at other rows than those of others in its order.
func (c fusedCase) matrixOf(f *fixture, in, out, seed int) device.Matrix {
	recipe := c.recipe
	if seed == 1 {
		recipe = "0.15:6b_32g/0.85:3b_64g"
	}
	if !c.apart {
		seed = 0
	}
	return matrixInOrder(f, in, out, recipe, seed)
}

// matrixInOrder returns a matrix that has an order by its number.
func matrixInOrder(f *fixture, in, out int, recipe string, order int) device.Matrix {
	q := quantizedParts(in, (out+31)/32*32, recipe)
	q.Perm = shuffled(20+order, in)
	return f.matrix(q.Pack(), out)
}

func (c fusedCase) build(f *fixture) func(device.Device) { return c.buildOf(f, noise(1), c.biased) }

// buildOf is build of a stream, with a norm that may have a bias.
func (c fusedCase) buildOf(f *fixture, v values, shifted bool) func(device.Device) {
	stream := f.inOut("stream", residual, c.rows, c.hidden, v)
	scale := f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.1, 0)) // products stay within fp16
	shift := tensor.Tensor{}
	if shifted {
		shift = f.in("shift", tensor.F32, 1, c.hidden, noise(3))
	}
	var list []device.Product
	for i, out := range []int{c.hidden, c.narrow, c.narrow} {
		list = append(list, device.Product{Y: f.out(fmt.Sprint("projection ", i), activation, c.rows, out), W: c.matrixOf(f, c.hidden, out, i), Bias: f.bias(out, c.biased)})
	}
	o := device.Product{Y: stream, W: c.matrixOf(f, c.hidden, c.hidden, 3), Bias: f.bias(c.hidden, c.biased)}
	gate := device.Product{Y: f.spent("acted", activation, c.rows, c.width), W: c.matrixOf(f, c.hidden, c.width, 4), Bias: f.bias(c.width, c.biased)}
	up := device.Product{W: c.matrixOf(f, c.hidden, c.width, 4), Bias: f.bias(c.width, c.biased)}
	down := device.Product{W: c.matrixOf(f, c.width, c.hidden, 5), Bias: f.bias(c.hidden, c.biased)}
	normed := func(then device.Then, list ...device.Product) device.Products {
		return device.Products{X: stream, Norm: c.norm, Scale: scale, Shift: shift, List: list, Then: then, Act: c.act}
	}
	mlp := mlpBefore{normed(device.Gate, gate, up), down, f.spent("opened", activation, c.rows, c.width), f.spent("spare", activation, c.rows, c.hidden)}
	mlp.first.Next = down.W
	again := device.Product{Y: f.out("again", activation, c.rows, c.narrow), W: c.matrixOf(f, c.hidden, c.narrow, 6), Bias: f.bias(c.narrow, c.biased)}
	last := normed(device.Put, again)
	return func(d device.Device) {
		multiplyStream(d, normed(device.Put, list...), mlp.spare)
		mlp.first.Left = addTo(d, device.Products{X: list[0].Y, List: []device.Product{o}, Then: device.Add, Reader: &mlp.first}, mlp.spare)
		last.Left = mlp.addTo(d, stream, &last)
		multiplyStream(d, last, mlp.spare)
	}
}
