package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// linearLimit is that of products, linear attention, and a product of that.
var linearLimit = limit{rms: 2e-2, rel: 4 * ulp, nmse: 2e-5, why: "queries, keys and values rounded to fp16 of sums in another order"}

// A linearCase is norm, products of q, k, v and gates, linear attention, and the product with that which is added to the stream; and then the same for
// the next position. The stream has been added to before, by products that may leave it for those.
type linearCase struct {
	deltaCase
	hidden int
	recipe string
	offset float32 // of the norm of heads
	groups int     // of columns that are normalized together, if plain
}

func linearCases() (cases []testCase) {
	heads := func(keys, values int, runs ...run) deltaCase {
		return deltaCase{keyHeads: keys, valueHeads: values, keyDim: 128, valueDim: 128, kernel: 4, runs: runs, span: 1}
	}
	twice, biased, narrow, long := heads(2, 2, run{0, 5}), heads(1, 2, run{0, 3}), heads(2, 2, run{0, 3}), heads(1, 1, run{0, 2})
	twice.most, biased.biased, narrow.keyDim, narrow.valueDim, long.kernel = 2, true, 64, 96, 6
	plain := func(keys, values, dim int, runs ...run) deltaCase {
		c := heads(keys, values, runs...)
		c.valueDim, c.plain, c.biased = dim, true, true
		return c
	}
	least, thin := plain(1, 2, 48, run{0, 0}), plain(1, 2, 32, run{0, 4})
	least.least, least.biased = 0.05, false
	for _, c := range []linearCase{
		{heads(2, 4, run{0, 0}), 512, "1:4b_128g", 0, 0},
		{heads(2, 4, run{1, 7}), 512, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", 0, 0},
		{heads(1, 3, run{0, 1}), 2560, "1:4b_128g", 1, 0},
		{heads(8, 8, run{2, 900}), 96, "1:4b_32g", 0, 0},
		{twice, 256, "1:4b_128g", 0, 0},
		{heads(2, 4, run{2, 5}, run{0, 0}), 512, "1:4b_128g", 0, 0},
		{heads(1, 4, run{2, 5}, run{0, 0}, run{1, 700}, run{3, 2}), 256, "0.25:3b_64g/0.75:2b_64g", 0, 0},
		{heads(2, 4, run{2, 5}, run{0, 0}, run{1, 700}, run{3, 2}, run{4, 1}), 512, "1:4b_128g", 0, 0},
		{biased, 256, "1:4b_128g", 0, 0},
		{narrow, 256, "1:4b_128g", 0, 0},
		{long, 256, "1:4b_128g", 0, 0},
		{plain(2, 8, 64, run{0, 5}), 512, "1:4b_128g", 0, 2},
		{plain(1, 4, 80, run{1, 0}), 256, "0.25:3b_64g/0.75:2b_64g", 0, 1},
		{plain(2, 4, 128, run{2, 5}, run{0, 0}, run{1, 9}), 256, "1:4b_128g", 0, 4},
		{plain(1, 6, 64, run{2, 5}, run{0, 0}, run{1, 700}, run{3, 2}, run{4, 1}, run{5, 3}), 256, "1:5b_32g", 0, 1},
		{least, 256, "1:4b_128g", 0, 1},
		{thin, 256, "1:4b_128g", 0, 1},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: linearLimit, build: c.build})
	}
	return cases
}

// A linearLayer is what a linearCase calls.
type linearLayer struct {
	p              device.Products // of q, k, v and gates
	m              device.LinearMixing
	normed         tensor.Tensor
	rates, columns tensor.Tensor // of LinearOf
}

// layer makes one that reads a stream.
func (c linearCase) layer(f *fixture, fc fusedCase, stream tensor.Tensor) *linearLayer {
	g, at, rows := c.shape(f), c.layout(), fc.rows
	l := &linearLayer{p: device.Products{X: stream, Norm: device.Norm{Eps: 1e-5}, Scale: f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.1, 0))}}
	for i, out := range []int{g.Keys(), g.Keys(), g.Values(), g.Values()} {
		l.p.List = append(l.p.List, device.Product{Y: f.spent(fmt.Sprint("projection ", i), activation, rows, out), W: fc.matrixOf(f, c.hidden, out, i)})
	}
	of, scales := 2*c.valueHeads, c.valueDim
	if c.plain {
		of, scales, l.m.Group = c.valueHeads, g.Values(), g.Values()/c.groups
	}
	at.advances = true
	l.m.GatedDelta, l.m.Norm, l.m.Batch = g, device.Norm{Eps: 1e-6, Offset: c.offset}, at.batch(f, tensor.Tensor{})
	l.m.Rates = f.in("rates", f.dev.Activation(), of, c.hidden, rounded(scaled(noise(11), 0.2, 0), f.round))
	l.m.Scale = f.in("w", tensor.F32, 1, scales, scaled(noise(12), 0.5, 1-c.offset))
	l.m.State = device.DeltaState{
		State:  f.inOut("state", tensor.F32, at.sequences, g.StateSize(), noise(9)),
		Inputs: f.inOut("inputs", f.dev.Activation(), at.sequences, (c.kernel-1)*g.Columns(), rounded(noise(10), f.round)),
	}
	l.m.Mixed, l.columns, l.rates = f.spent("mixed", residual, rows, g.Values()), f.spent("columns", residual, rows, g.Columns()), f.spent("rates of rows", residual, rows, of)
	l.normed = f.spent("normed", activation, rows, c.hidden)
	return l
}

// multiply makes some of the layer's products one by one.
func (l *linearLayer) multiply(d device.Device, list []device.Product) {
	p := l.p
	p.List = list
	normThenMultiply(d, l.normed, p)
}

// attend reports whether the device did it at once.
func (l *linearLayer) attend(d device.Device, y tensor.Tensor) bool {
	if fuser, ok := d.(device.Fuser); ok && fuser.LinearAttention(y, l.p, l.m) {
		return true
	}
	l.multiply(d, l.p.List)
	LinearOf(d, y, l.normed, l.rates, l.columns, l.p.List, l.m)
	return false
}

// LinearOf is what Fuser.LinearAttention does with products of q, k, v and gates, and with what these have read, by operations that all devices have.
// rates, F32 [rows, m.Rates.Rows], and columns, F32 [rows, m.Columns()], become anything.
func LinearOf(d device.Device, y, normed, rates, columns tensor.Tensor, list []device.Product, m device.LinearMixing) {
	d.MatMul(rates, normed, m.Rates, tensor.Tensor{})
	q, k, v, gates := list[0].Y, list[1].Y, list[2].Y, list[3].Y
	if m.Plain {
		d.GatedDelta(m.Mixed, columns, q, k, v, rates, tensor.Tensor{}, m.GatedDelta, m.State, m.Batch)
		d.GatedNorm(y, m.Mixed, gates, m.Scale, m.Group, m.Norm)
		return
	}
	d.GatedDelta(m.Mixed, columns, q, k, v, rates.Columns(0, m.ValueHeads), rates.Columns(m.ValueHeads, rates.Cols), m.GatedDelta, m.State, m.Batch)
	d.HeadNormGated(y, m.Mixed, gates, m.Scale, m.Norm)
}

func (c linearCase) build(f *fixture) func(device.Device) {
	fc := fusedCase{rows: len(c.runs), hidden: c.hidden, recipe: c.recipe}
	stream := f.inOut("stream", residual, fc.rows, c.hidden, noise(1))
	l, mlp := c.layer(f, fc, stream), fc.mlpOf(f)
	width := l.m.Values()
	y, inOrder, o := f.out("y", activation, fc.rows, width), f.spent("in order", activation, fc.rows, width), fc.matrixOf(f, width, c.hidden, 8)
	return func(d device.Device) {
		l.p.Left, l.m.Reader = false, nil
		before := l.p // by which the stream's powers are known (link.cuh)
		before.List = l.p.List[:1]
		if fuser, ok := d.(device.Fuser); !ok || !fuser.Products(before) {
			l.multiply(d, before.List)
		}
		l.p.Left = mlp.addTo(d, stream, &l.p)
		l.attend(d, y)
		d.Advance(l.m.Batch.Pos)
		l.m.Reader = o
		left := l.attend(d, inOrder)
		addTo(d, device.Products{X: inOrder, List: []device.Product{{Y: stream, W: o}}, Then: device.Add, Left: left}, mlp.spare)
	}
}
