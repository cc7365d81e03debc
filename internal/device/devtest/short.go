package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A shortCase is gated convolutions of some runs.
type shortCase struct {
	cols, kernel int
	runs         []run
	span         int
	biased       bool
}

var shorts = []shortCase{
	{cols: 2048, kernel: 3, runs: []run{{0, 0}}, span: 1},
	{cols: 300, kernel: 3, runs: []run{{2, 5}, {0, 0}, {1, 700}}, span: 1},
	{cols: 1024, kernel: 3, runs: []run{{1, 0}, {0, 9}}, span: 37},
	{cols: 7, kernel: 4, runs: []run{{0, 3}, {1, 0}}, span: 16, biased: true},
	{cols: 64, kernel: 3, runs: []run{{0, 3}, {1, 0}}, span: 17, biased: true},
	{cols: 33, kernel: 16, runs: []run{{0, 20}, {2, 0}}, span: 5},
	{cols: 40, kernel: 16, runs: []run{{0, 20}}, span: 18},
	{cols: 96, kernel: 1, runs: []run{{0, 2}}, span: 20, biased: true},
	{cols: 64, kernel: 3, span: 8},
}

// shape is what the operation is told.
func (c shortCase) shape(f *fixture) device.ShortConv {
	s := device.ShortConv{Kernel: c.kernel, Conv: f.in("conv", tensor.F32, c.cols, c.kernel, noise(1))}
	if c.biased {
		s.Bias = f.in("bias", tensor.F32, 1, c.cols, noise(2))
	}
	return s
}

func (c shortCase) in(f *fixture, rows int) (b, g, x tensor.Tensor) {
	return f.in("b", activation, rows, c.cols, noise(3)), f.in("c", activation, rows, c.cols, noise(4)), f.in("x", activation, rows, c.cols, scaled(noise(5), 2, 0))
}

// layout is that of linear attention.
func (c shortCase) layout() layout {
	return deltaCase{keyDim: c.cols, runs: c.runs, span: c.span}.layout()
}

// shortLimit is that of what is not rounded.
var shortLimit = limit{rms: 1e-5, rel: 1e-5, nmse: 1e-9, why: "sums in float32, in another order"}

func shortConvCases() (cases []testCase) {
	for _, c := range shorts {
		l := limit{rms: 1e-5, rel: ulp, nmse: 1e-6, why: "sums in float32, in another order; one rounding of the result"}
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: l, build: func(f *fixture) func(device.Device) {
			s, at := c.shape(f), c.layout()
			batch, rows := at.batch(f, tensor.Tensor{}), at.rows()
			b, g, x := c.in(f, rows)
			y, inputs := f.out("y", activation, rows, c.cols), tensor.Tensor{}
			if c.kernel > 1 {
				inputs = f.inOut("inputs", tensor.F32, at.sequences, (c.kernel-1)*c.cols, noise(6))
				f.within(shortLimit)
			}
			return func(d device.Device) { d.ShortConv(y, b, g, x, s, inputs, batch) }
		}})
	}
	return cases
}

func shortConvBackCases() (cases []testCase) {
	for _, c := range shorts {
		at := c.layout()
		at.runs = runsFromStart(len(c.runs))
		cases = append(cases, backwards(fmt.Sprintf("%+v", c), shortLimit, func(f *fixture) func(device.Backward) {
			s, batch, rows := c.shape(f), at.batch(f, tensor.Tensor{}), at.rows()
			b, g, x := c.in(f, rows)
			grad := func(name string, seed int) tensor.Tensor { return f.inOut(name, residual, rows, c.cols, small(seed)) }
			db, dg, dx, dy := grad("db", 7), grad("dc", 8), grad("dx", 9), f.in("dy", residual, rows, c.cols, small(10))
			room := f.spent("room", residual, rows, c.cols)
			return func(d device.Backward) { d.ShortConvBack(db, dg, dx, room, dy, b, g, x, s, batch) }
		}))
	}
	return cases
}
