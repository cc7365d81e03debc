package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A normedSumCase is MLPs whose outputs are normalized before they join the stream, each in front of products that read that.
type normedSumCase struct {
	rows, hidden, width int
	recipe              string
	normed              bool // what reads the stream
	times, then         float32
	odd                 string // what is odd about the stream, or nothing
	between             bool   // somebody else reads it, too
}

func normedSumCases() (cases []testCase) {
	const all = "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g"
	for _, c := range []normedSumCase{
		{1, 256, 672, "1:4b_128g", true, 1, 1, "", false},
		{1, 64, 160, "1:4b_32g", true, 1, 1, "", false},
		{1, 1024, 2816, "0.3:5b_128g/0.7:3b_64g", true, 0.5, 0.25, "", false},
		{1, 2560, 1024, "0.1:5b_128g/0.9:4b_128g", true, 1, 1, "", false},
		{1, 4096, 512, "0.25:3b_64g/0.75:2b_64g", true, 1, 1, "", false},
		{1, 4096, 1024, "1:4b_128g", false, 1, 1, "", false},
		{1, 3584, 512, "0.1:4b_128g/0.9:3b_128g", false, 2, 1, "", false},
		{1, 1024, 2816, all, true, 1, 2, "", false},
		{1, 512, 1376, "0.1:6b_128g/0.9:5b_128g", true, 1, 1, "zeros", false},
		{1, 512, 1376, "1:4b_128g", true, 1, 1, "outliers", false},
		{1, 512, 1376, "1:4b_128g", true, 3, 1, "huge", false},
		{1, 512, 1376, "1:4b_128g", true, 1, 1, "", true},
		{1, 512, 1376, "1:4b_128g", false, 1, 1, "", true},
		{1, 5120, 256, "1:4b_128g", true, 1, 1, "", false},
		{2, 512, 1376, "1:4b_128g", true, 1, 1, "", false},
		{7, 512, 1376, "1:4b_128g", false, 1, 1, "", false},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
	}
	return cases
}

func (c normedSumCase) build(f *fixture) func(device.Device) {
	const narrow = 96
	v := scaled(noise(1), 0.1, 0) // so that products of the stream as it is have room in fp16
	if c.odd != "" {
		v = oddRows(c.odd, c.rows, c.hidden)
	}
	fc := fusedCase{rows: c.rows, hidden: c.hidden, width: c.width, recipe: c.recipe}
	stream, scale := f.inOut("stream", residual, c.rows, c.hidden, v), f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.05, -0.9))
	reads := func(list ...device.Product) device.Products {
		if !c.normed {
			return device.Products{X: stream, List: list}
		}
		return device.Products{X: stream, Norm: device.Norm{Eps: 1e-5, Offset: 1}, Scale: scale, List: list}
	}
	project := func(name string, seed int) device.Product {
		return device.Product{Y: f.out(name, activation, c.rows, narrow), W: fc.matrixOf(f, c.hidden, narrow, seed)}
	}
	before, last := reads(project("before", 2)), reads(project("q", 2), project("k", 2), project("v", 2))
	first, second := fc.mlpOf(f), fc.mlpOf(f)
	second.first = reads(first.first.List...)
	second.first.Then, second.first.Next, second.first.Act = device.Gate, second.down.W, device.GELU
	sum := device.Sum{X: stream, Times: c.times, Then: c.then, Norm: device.Norm{Eps: 1e-6, Offset: 0.05}, Scale: f.in("post", tensor.F32, 1, c.hidden, scaled(noise(4), 0.05, 0))}
	copied := f.out("copied", residual, c.rows, c.hidden)
	return func(d device.Device) {
		last, second, sum := last, second, sum
		multiplyStream(d, before, first.spare)
		sum.Reader = &second.first
		second.first.Left = first.joinTo(d, sum)
		if c.between {
			d.Copy(copied, stream)
		}
		sum.Reader = &last
		last.Left = second.joinTo(d, sum)
		multiplyStream(d, last, first.spare)
		d.Copy(copied, stream)
	}
}

// joinTo has what the MLP gives join the stream as a sum says, and reports whether that may have been left for its reader.
func (m mlpBefore) joinTo(d device.Device, sum device.Sum) (left bool) {
	one := m.down
	one.Y, sum.Y = m.spare, m.spare
	down := device.Products{X: m.first.List[0].Y, Sorted: true, List: []device.Product{one}, Joins: &sum}
	if fuser, ok := d.(device.Fuser); ok && fuser.Products(m.first, down) {
		return true
	}
	activate(d, m.first, m.spare, m.opened)
	d.QMatMul(m.spare, m.first.List[0].Y, one.W, one.Bias)
	return sumTo(d, sum, m.spare, tensor.Tensor{})
}
