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

func (c linearCase) build(f *fixture) func(device.Device) {
	fc := fusedCase{hidden: c.hidden, recipe: c.recipe}
	g, at := c.shape(f), c.layout()
	rows := at.rows()
	stream, scale := f.inOut("stream", residual, rows, c.hidden, noise(1)), f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(2), 0.1, 0))
	free := func(name string, t tensor.Type, rows, cols int) tensor.Tensor {
		out := f.out(name, t, rows, cols)
		f.within(spent)
		return out
	}
	var list []device.Product
	for i, out := range []int{g.Keys(), g.Keys(), g.Values(), g.Values()} {
		list = append(list, device.Product{Y: free(fmt.Sprint("projection ", i), activation, rows, out), W: fc.matrixOf(f, c.hidden, out, i)})
	}
	of, scales := 2*c.valueHeads, c.valueDim
	if c.plain {
		of, scales = c.valueHeads, g.Values()
	}
	rates := f.in("rates", f.dev.Activation(), of, c.hidden, rounded(scaled(noise(11), 0.2, 0), f.round))
	w := f.in("w", tensor.F32, 1, scales, scaled(noise(12), 0.5, 1-c.offset))
	at.advances = true
	m := device.LinearMixing{GatedDelta: g, Rates: rates, Norm: device.Norm{Eps: 1e-6, Offset: c.offset}, Scale: w, Batch: at.batch(f, tensor.Tensor{}), State: device.DeltaState{
		State:  f.inOut("state", tensor.F32, at.sequences, g.StateSize(), noise(9)),
		Inputs: f.inOut("inputs", f.dev.Activation(), at.sequences, (c.kernel-1)*g.Columns(), rounded(noise(10), f.round)),
	}}
	if c.plain {
		m.Group = g.Values() / c.groups
	}
	p := device.Products{X: stream, Norm: device.Norm{Eps: 1e-5}, Scale: scale, List: list}
	normed, mixed, columns := free("normed", activation, rows, c.hidden), free("mixed", residual, rows, g.Values()), free("columns", residual, rows, g.Columns())
	m.Mixed = mixed
	ab, inOrder := free("ab", residual, rows, of), free("in order", activation, rows, g.Values())
	x, down := f.in("x", activation, rows, c.hidden, scaled(noise(7), 0.1, 0)), fc.matrixOf(f, c.hidden, c.hidden, 7)
	acted, spare := free("acted", activation, rows, c.hidden), free("spare", activation, rows, c.hidden)
	gate := device.Products{X: x, Then: device.Gate, Act: device.SiLU, Next: down, List: []device.Product{{Y: acted, W: fc.matrixOf(f, c.hidden, c.hidden, 9)}, {W: fc.matrixOf(f, c.hidden, c.hidden, 9)}}}
	y := f.out("y", activation, rows, g.Values())
	o := fc.matrixOf(f, g.Values(), c.hidden, 8)
	multiply := func(d device.Device, list []device.Product) {
		d.Norm(normed, stream, scale, tensor.Tensor{}, p.Norm)
		for _, one := range list {
			d.QMatMul(one.Y, normed, one.W, one.Bias)
		}
	}
	attend := func(d device.Device, y tensor.Tensor) bool {
		if fuser, ok := d.(device.Fuser); ok && fuser.LinearAttention(y, p, m) {
			return true
		}
		multiply(d, list)
		d.MatMul(ab, normed, rates, tensor.Tensor{})
		a, b := ab.Columns(0, c.valueHeads), tensor.Tensor{}
		if !c.plain {
			b = ab.Columns(c.valueHeads, of)
		}
		d.GatedDelta(mixed, columns, list[0].Y, list[1].Y, list[2].Y, a, b, g, m.State, m.Batch)
		if c.plain {
			d.GatedNorm(y, mixed, list[3].Y, w, m.Group, m.Norm)
		} else {
			d.HeadNormGated(y, mixed, list[3].Y, w, m.Norm)
		}
		return false
	}
	return func(d device.Device) {
		p.Left, m.Reader = false, nil
		before := p // by which the stream's powers are known (link.cuh)
		before.List = list[:1]
		if fuser, ok := d.(device.Fuser); !ok || !fuser.Products(before) {
			multiply(d, before.List)
		}
		sorted := openGate(d, gate, spare)
		addTo(d, device.Products{X: acted, Sorted: sorted, List: []device.Product{{Y: stream, W: down}}, Then: device.Add, Reader: &p}, spare)
		_, p.Left = d.(device.Fuser)
		attend(d, y)
		d.Advance(m.Batch.Pos)
		m.Reader = o
		left := attend(d, inOrder)
		addTo(d, device.Products{X: inOrder, List: []device.Product{{Y: stream, W: o}}, Then: device.Add, Left: left}, spare)
	}
}

// actMulForCases are gates of what a product that is added to the stream reads.
func actMulForCases() (cases []testCase) {
	for _, rows := range []int{0, 1, 2, 5, 40} {
		for _, act := range []device.Act{device.Logistic, device.SiLU} {
			const hidden, width = 256, 512
			cases = append(cases, testCase{name: fmt.Sprintf("rows=%d act=%v", rows, act), limit: fusedLimit, build: func(f *fixture) func(device.Device) {
				fc := fusedCase{hidden: hidden, recipe: "1:4b_128g"}
				stream, scale := f.inOut("stream", residual, rows, hidden, noise(1)), f.in("scale", tensor.F32, 1, hidden, scaled(noise(2), 0.1, 0))
				gate, up := f.in("gate", activation, rows, width, scaled(noise(3), 3, 0)), f.in("up", activation, rows, width, noise(4))
				free := func(name string, cols int) tensor.Tensor {
					out := f.out(name, activation, rows, cols)
					f.within(spent)
					return out
				}
				y, x, acted, spare, projection := free("y", width), f.in("x", activation, rows, hidden, scaled(noise(7), 0.1, 0)), free("acted", hidden), free("spare", hidden), free("projection", hidden)
				o, down := fc.matrixOf(f, width, hidden, 8), fc.matrixOf(f, hidden, hidden, 7)
				p := device.Products{X: stream, Scale: scale, Norm: device.Norm{Eps: 1e-5}, List: []device.Product{{Y: projection, W: fc.matrixOf(f, hidden, hidden, 2)}}}
				mlp := device.Products{X: x, Then: device.Gate, Act: device.SiLU, Next: down, List: []device.Product{{Y: acted, W: fc.matrixOf(f, hidden, hidden, 9)}, {W: fc.matrixOf(f, hidden, hidden, 9)}}}
				return func(d device.Device) {
					fuser, fuses := d.(device.Fuser)
					sorted := openGate(d, mlp, spare)
					addTo(d, device.Products{X: acted, Sorted: sorted, List: []device.Product{{Y: stream, W: down}}, Then: device.Add, Reader: &p}, spare)
					linked := p
					linked.Left = fuses
					if !fuses || !fuser.Products(linked) {
						d.Norm(spare, stream, scale, tensor.Tensor{}, p.Norm)
						d.QMatMul(projection, spare, p.List[0].W, tensor.Tensor{})
					}
					left := fuses && fuser.ActMulFor(y, gate, up, act, o)
					if !left {
						d.ActMul(y, gate, up, act)
					}
					addTo(d, device.Products{X: y, List: []device.Product{{Y: stream, W: o}}, Then: device.Add, Left: left}, spare)
				}
			}})
		}
	}
	return cases
}
