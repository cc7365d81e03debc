package devtest

import (
	"cmp"
	"fmt"
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// attentionLimit is that of products and attention to them.
var attentionLimit = limit{rms: 2e-2, rel: 4 * ulp, nmse: 2e-5, why: "queries, keys and values rounded to fp16 of sums in another order"}

// An attentionCase is norm, products of q, k and v, and Mix, and then the same for the next position, and the one
// behind it. The stream has been added to before, by products that may leave it for those, and the last
// result is multiplied by a matrix that may have it in its order.
type attentionCase struct {
	mixCase
	hidden int
	recipe string
	biased bool
}

func attentionCases() (cases []testCase) {
	for _, c := range slices.Concat(attentions(), rareAttentions()) {
		one := c.testCase()
		one.name += fmt.Sprintf(" hidden=%d %s biased=%v rope=%+v normed=%v%s", c.hidden, c.recipe, c.biased, c.rope, c.norm, c.rare())
		one.limit, one.build = attentionLimit, c.build
		cases = append(cases, one)
	}
	return cases
}

// at is single rows at some positions, of a sequence each, the last one of the first.
func at(heads, kvHeads, dim int, positions ...int) attendCase {
	c := attendCase{heads: heads, kvHeads: kvHeads, dim: dim, span: 1}
	for i, p := range positions {
		c.runs = append(c.runs, run{len(positions) - 1 - i, p})
	}
	return c
}

// short is rows whose steps are told that positions are few.
func short(c attendCase) attendCase {
	c.room = 4096
	return c
}

// attentions are what most models have.
func attentions() []attentionCase {
	rms, whole := &device.Norm{Eps: 1e-6, Offset: 1}, device.Rope{Dims: 128}
	windowed, capped, sunk := at(8, 4, 128, 700), at(8, 8, 64, 333), at(4, 2, 128, 255)
	windowed.window, windowed.pageRows, capped.softcap, capped.temperature, sunk.sinks = 300, 32, 20, 0.3, true
	roomy, deep := short(at(8, 8, 128, 1030)), short(at(8, 4, 64, 1500))
	sunken := at(4, 2, 128, 255, 10, 64, 0)
	sunken.sinks = true
	far, hard := at(8, 4, 128, 700, 20), short(at(16, 4, 64, 126, 253))
	far.window, far.pageRows, hard.softcap, hard.temperature, hard.sinks = 300, 32, 20, 0.3, true
	return []attentionCase{
		{mixCase{at(4, 4, 128, 0), whole, nil}, 512, "1:4b_128g", false},
		{mixCase{at(4, 4, 128, 15), whole, nil}, 512, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", true},
		{mixCase{at(32, 32, 128, 190), whole, nil}, 256, "1:4b_128g", false},
		{mixCase{at(32, 32, 128, 900), whole, nil}, 256, "1:4b_128g", false},
		{mixCase{at(32, 8, 128, 1500), whole, nil}, 256, "1:3b_64g", false},
		{mixCase{at(32, 4, 64, 63), device.Rope{Dims: 64, Interleaved: true}, nil}, 2048, "1:4b_128g", true},
		{mixCase{at(32, 4, 64, 700), device.Rope{Dims: 64}, nil}, 128, "1:5b_32g", false},
		{mixCase{at(24, 8, 64, 100), device.Rope{Dims: 20, Interleaved: true, Scale: 1.1}, nil}, 96, "1:6b_32g", false},
		{mixCase{at(8, 4, 128, 700), whole, rms}, 512, "1:4b_128g", false},
		{mixCase{at(32, 8, 128, 2100), whole, rms}, 512, "1:4b_128g", false},
		{mixCase{at(6, 3, 64, 90), device.Rope{}, &device.Norm{Kind: device.Layer, Eps: 1e-5}}, 192, "1:4b_64g", false},
		{mixCase{windowed, whole, nil}, 256, "1:4b_128g", false},
		{mixCase{capped, device.Rope{Dims: 64}, nil}, 256, "1:4b_128g", false},
		{mixCase{sunk, whole, rms}, 256, "1:4b_128g", true},
		{mixCase{roomy, whole, nil}, 256, "1:4b_128g", false},
		{mixCase{deep, device.Rope{Dims: 64}, nil}, 256, "1:4b_128g", false},
		{mixCase{at(32, 4, 128, 40), whole, rms}, 512, "1:4b_128g", false},
		{mixCase{at(16, 2, 128, 500), whole, nil}, 256, "1:4b_128g", true},
		{mixCase{at(14, 2, 128, 150), whole, nil}, 256, "1:4b_128g", true},
		{mixCase{at(20, 4, 128, 333), whole, rms}, 256, "1:4b_128g", false},
		{mixCase{at(24, 2, 128, 70), whole, nil}, 256, "1:4b_128g", true},
		{mixCase{at(17, 1, 64, 300), device.Rope{Dims: 64}, nil}, 256, "1:4b_128g", false},
		{mixCase{short(at(32, 2, 128, 200, 90)), whole, nil}, 256, "1:4b_128g", false},
		{mixCase{short(at(14, 2, 128, 90, 61)), whole, nil}, 256, "1:3b_64g", true},
		{mixCase{at(10, 5, 96, 40), device.Rope{Dims: 96}, nil}, 256, "1:4b_128g", false},
		{mixCase{short(at(32, 32, 128, 190, 3)), whole, nil}, 512, "1:4b_128g", false},
		{mixCase{at(32, 32, 128, 0, 63, 64, 200), whole, nil}, 512, "1:4b_128g", true},
		{mixCase{short(at(32, 8, 128, 100, 15)), whole, rms}, 512, "0.1:8b_32g/0.1:6b_64g/0.2:5b_128g/0.2:4b_128g/0.2:3b_64g/0.2:2b_32g", false},
		{mixCase{at(16, 4, 64, 5, 130, 70, 180), device.Rope{Dims: 64, Interleaved: true}, nil}, 512, "1:3b_64g", false},
		{mixCase{short(at(32, 4, 128, 40, 200)), whole, nil}, 512, "1:6b_32g", true},
		{mixCase{sunken, whole, rms}, 256, "1:4b_128g", true},
		{mixCase{at(8, 8, 128, 100, 3, 17), whole, nil}, 256, "1:4b_128g", false},
		{mixCase{short(at(4, 4, 128, 0, 1)), whole, nil}, 256, "1:4b_128g", false},
		{mixCase{short(at(8, 8, 64, 63, 62)), device.Rope{Dims: 64}, nil}, 256, "0.5:3b_64g/0.5:2b_64g", true},
		{mixCase{short(at(32, 4, 64, 250, 7)), device.Rope{Dims: 64, Interleaved: true}, nil}, 2048, "1:4b_128g", false},
		{mixCase{hard, device.Rope{Dims: 20, Interleaved: true, Scale: 1.1}, nil}, 192, "1:6b_32g", true},
		{mixCase{far, whole, rms}, 512, "0.5:5b_64g/0.5:4b_64g", false},
	}
}

// rareAttentions are of heads of 256, and of norms of values, behind the rotation, or of whole rows.
func rareAttentions() []attentionCase {
	rms, whole, wide := &device.Norm{Eps: 1e-6, Offset: 1}, device.Rope{Dims: 128}, device.Rope{Dims: 256}
	gemma := at(8, 4, 256, 700)
	gemma.window, gemma.softcap, gemma.pageRows = 300, 20, 32
	valued := func(c attendCase) attendCase { c.values = true; return c }
	late := func(c attendCase) attendCase { c.late = true; return c }
	together := func(c attendCase) attendCase { c.whole = true; return c }
	return []attentionCase{
		{mixCase{at(8, 4, 256, 0), wide, nil}, 256, "1:4b_128g", false},
		{mixCase{at(8, 4, 256, 15), wide, rms}, 512, "1:4b_128g", true},
		{mixCase{at(16, 8, 256, 33), wide, nil}, 256, "0.5:3b_64g/0.5:2b_64g", false},
		{mixCase{at(16, 16, 256, 250), device.Rope{Dims: 64, Interleaved: true}, nil}, 256, "1:4b_128g", true},
		{mixCase{at(8, 2, 256, 500), wide, rms}, 256, "1:4b_128g", false},
		{mixCase{at(4, 1, 256, 1000), wide, nil}, 256, "1:6b_32g", false},
		{mixCase{gemma, wide, rms}, 512, "1:4b_128g", false},
		{mixCase{short(at(8, 4, 256, 100, 15)), wide, rms}, 512, "1:4b_128g", false},
		{mixCase{short(at(8, 8, 256, 63, 200)), wide, nil}, 256, "0.5:5b_64g/0.5:4b_64g", true},
		{mixCase{valued(at(16, 8, 256, 40)), wide, rms}, 512, "1:4b_128g", false},
		{mixCase{valued(late(at(8, 1, 256, 130))), wide, rms}, 256, "1:4b_128g", true},
		{mixCase{late(at(32, 8, 128, 90)), whole, rms}, 256, "1:4b_128g", false},
		{mixCase{late(short(at(16, 8, 128, 60, 61))), whole, rms}, 256, "1:3b_64g", true},
		{mixCase{valued(short(at(8, 4, 256, 0, 90))), wide, rms}, 256, "1:4b_128g", false},
		{mixCase{together(at(8, 8, 128, 40)), whole, rms}, 256, "1:4b_128g", false},
		{mixCase{together(at(8, 2, 128, 40, 3)), whole, rms}, 256, "1:4b_128g", true},
	}
}

func (c attentionCase) build(f *fixture) func(device.Device) {
	l := c.layout()
	rows, width := l.rows(), c.heads*c.dim
	table, cache, cols := l.table(f), f.cache(l.shape()), l.cols()
	l.fill(f, cache, 1, table, noise(1), noise(2))
	stream, scale := f.inOut("stream", residual, rows, c.hidden, noise(3)), f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(4), 0.1, 0))
	fc := fusedCase{rows: rows, hidden: c.hidden, recipe: c.recipe}
	var list []device.Product
	for i, out := range []int{width, cols, cols} {
		y := f.spent(fmt.Sprint("projection ", i), activation, rows, out)
		list = append(list, device.Product{Y: y, W: fc.matrixOf(f, c.hidden, out, i), Bias: f.bias(out, c.biased)})
	}
	normed := f.spent("normed", activation, rows, c.hidden)
	first, y, again := f.out("first", activation, rows, width), f.out("y", activation, rows, width), f.out("again", activation, rows, width)
	q2, y2 := f.in("q2", activation, rows, width, noise(6)), f.out("y2", activation, rows, width)
	freqs := tensor.Tensor{}
	if c.rope.Dims > 0 {
		freqs = f.in("freqs", tensor.F32, 1, c.rope.Dims/2, frequencies(1e4, c.rope.Dims/2))
	}
	l.advances = true
	a, b := c.attend(f), l.batch(f, table)
	p := device.Products{X: stream, Norm: device.Norm{Eps: 1e-5}, Scale: scale, List: list}
	m := device.Mixing{Freqs: freqs, Cache: cache, Layer: 1, Heads: c.normed(f), Rope: c.rope, Attend: a, Batch: b}
	near := a
	near.Window = 2
	mix := func(d device.Device, y tensor.Tensor) {
		if fuser, ok := d.(device.Fuser); ok && fuser.Attention(y, p, m) {
			return
		}
		normThenMultiply(d, normed, p)
		d.Mix(y, list[0].Y, list[1].Y, list[2].Y, freqs, cache, 1, m.Heads, c.rope, m.Attend, b)
	}
	mlp := fc.mlpOf(f)
	sum, reader := f.inOut("sum", residual, rows, c.hidden, noise(8)), fc.matrixOf(f, width, c.hidden, 8)
	inOrder := f.spent("in order", activation, rows, width)
	return func(d device.Device) {
		p.Left = false
		mix(d, first)
		p.Left = mlp.addTo(d, stream, &p)
		mix(d, y)
		d.Advance(b.Pos)
		mix(d, again)
		m.Attend.Reader = reader
		d.Advance(b.Pos)
		mix(d, inOrder)
		m.Attend.Reader = nil
		addTo(d, device.Products{X: inOrder, List: []device.Product{{Y: sum, W: reader}}, Then: device.Add, Left: true}, mlp.spare)
		d.Attend(y2, q2, cache, 1, near, b)
	}
}

// mlpBefore is an MLP that adds to a stream, and may leave it for those who read it next.
type mlpBefore struct {
	first         device.Products // of an x of its own, or of the stream
	down          device.Product  // into a stream
	opened, spare tensor.Tensor   // [rows, width], [rows, hidden]
}

// mlpOf is one as wide as its stream where the case does not say how wide.
func (c fusedCase) mlpOf(f *fixture) mlpBefore {
	width := cmp.Or(c.width, c.hidden)
	x, down := f.in("x", activation, c.rows, c.hidden, scaled(noise(7), 0.1, 0)), c.matrixOf(f, width, c.hidden, 7)
	gate := device.Product{Y: f.spent("acted", activation, c.rows, width), W: c.matrixOf(f, c.hidden, width, 9), Bias: f.bias(width, c.biased)}
	p := device.Products{X: x, Then: device.Gate, Act: device.SiLU, Next: down, List: []device.Product{gate, {W: c.matrixOf(f, c.hidden, width, 9)}}}
	return mlpBefore{p, device.Product{W: down}, f.spent("opened", activation, c.rows, width), f.spent("spare", activation, c.rows, c.hidden)}
}

// addTo adds the MLP to the stream: both products at once, as only a device that takes the second may leave the first in its order, or one by one.
// It reports whether the stream may have been left for the reader.
func (m mlpBefore) addTo(d device.Device, stream tensor.Tensor, reader *device.Products) (left bool) {
	one := m.down
	one.Y = stream
	down := device.Products{X: m.first.List[0].Y, List: []device.Product{one}, Then: device.Add, Reader: reader}
	sorted := down
	sorted.Sorted = true
	if fuser, ok := d.(device.Fuser); ok && fuser.Products(m.first, sorted) {
		return true
	}
	activate(d, m.first, m.spare, m.opened)
	return addTo(d, down, m.spare)
}

// normThenMultiply makes products of a stream one by one, with room for what is normalized.
func normThenMultiply(d device.Device, normed tensor.Tensor, p device.Products) {
	d.Norm(normed, p.X, p.Scale, p.Shift, p.Norm)
	multiply(d, normed, p.List)
}

// multiply makes products one by one.
func multiply(d device.Device, x tensor.Tensor, list []device.Product) {
	for _, one := range list {
		d.QMatMul(one.Y, x, one.W, one.Bias)
	}
}

// activate computes products that are activated, in no order; normed and other have room for x, if it is a stream, and for the second product.
func activate(d device.Device, p device.Products, normed, other tensor.Tensor) {
	p.Next = nil
	if fuser, ok := d.(device.Fuser); ok && fuser.Products(p) {
		return
	}
	x, y := p.X, p.List[0].Y
	switch {
	case !p.Scale.Nil():
		x = normed
		d.Norm(x, p.X, p.Scale, p.Shift, p.Norm)
	case x.Type != y.Type:
		x = normed
		d.Copy(x, p.X)
	}
	d.QMatMul(y, x, p.List[0].W, p.List[0].Bias)
	switch p.Then {
	case device.Activate:
		other = tensor.Tensor{}
	case device.SelfGate:
		other = y
	default:
		d.QMatMul(other, x, p.List[1].W, p.List[1].Bias)
	}
	d.ActMul(y, y, other, p.Act)
}

// addTo adds a product to a stream, and reports whether that may have been left for the product's reader.
func addTo(d device.Device, p device.Products, spare tensor.Tensor) (left bool) {
	if fuser, ok := d.(device.Fuser); ok && fuser.Products(p) {
		return true
	}
	one := p.List[0]
	d.QMatMul(spare, p.X, one.W, one.Bias)
	d.AddScaled(one.Y, spare, 1)
	return false
}
