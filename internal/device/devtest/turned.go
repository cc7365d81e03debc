package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A turnedCase is a norm, queries, keys and values, whose heads turn and which are stored.
type turnedCase struct {
	layout
	heads, hidden int
	recipe        string
	rope          device.Rope
	biased, apart bool // apart: every matrix has an order of its own
	unread        int  // rows whose queries nobody reads
}

// turnedCases look at what is stored by attention to each position and the one before.
func turnedCases() (cases []testCase) {
	lay := func(span, pageRows, dim, kvHeads int, runs ...run) layout {
		l := layout{runs: runs, span: span, pageRows: pageRows, sequences: 1, seqPages: 1, dim: dim, kvHeads: kvHeads}
		for _, r := range runs {
			l.sequences, l.seqPages = max(l.sequences, r.seq+1), max(l.seqPages, (r.pos+span+pageRows-1)/pageRows)
		}
		return l
	}
	whole := device.Rope{Dims: 128}
	for _, c := range []turnedCase{
		{lay(1, 256, 128, 4, run{0, 20}), 4, 256, "1:4b_128g", whole, false, false, 0},
		{lay(300, 256, 128, 4, run{0, 0}), 4, 512, "1:4b_128g", whole, false, false, 0},
		{lay(65, 256, 128, 2, run{1, 0}, run{0, 250}, run{2, 3}), 8, 256, "0.3:5b_128g/0.7:3b_64g", device.Rope{Dims: 128, Scale: 1.1}, true, false, 0},
		{lay(130, 32, 64, 3, run{0, 1000}), 9, 256, "1:4b_128g", device.Rope{Dims: 64}, true, false, 0},
		{lay(513, 16, 64, 2, run{0, 7}), 14, 512, "0.5:8b_128g/0.5:2b_64g", device.Rope{Dims: 64}, false, false, 0},
		{lay(600, 256, 128, 4, run{0, 0}), 84, 64, "1:4b_32g", whole, true, false, 0},
		{lay(140, 256, 128, 2, run{0, 0}), 4, 256, "1:4b_128g", whole, false, true, 0},
		{lay(140, 256, 96, 2, run{0, 0}), 4, 256, "1:4b_128g", device.Rope{Dims: 96}, false, false, 0},
		{lay(140, 256, 128, 2, run{0, 0}), 4, 256, "1:4b_128g", device.Rope{Dims: 128, Interleaved: true}, false, false, 0},
		{lay(600, 256, 128, 2, run{0, 5}), 4, 256, "1:4b_128g", whole, false, false, 598},
		{lay(1300, 256, 64, 2, run{0, 0}), 8, 256, "1:4b_128g", device.Rope{Dims: 64}, true, false, 1023},
	} {
		name := fmt.Sprintf("runs=%v span=%d page=%d hidden=%d heads=%d,%d of %d %s %+v biased=%v apart=%v unread=%d",
			c.runs, c.span, c.pageRows, c.hidden, c.heads, c.kvHeads, c.dim, c.recipe, c.rope, c.biased, c.apart, c.unread)
		cases = append(cases, testCase{name: name, limit: fusedLimit, build: c.build})
	}
	return cases
}

func (c turnedCase) build(f *fixture) func(device.Device) {
	rows, wide, cols := c.rows(), c.heads*c.dim, c.cols()
	table, cache := c.table(f), f.cache(c.shape())
	c.fill(f, cache, 1, table, noise(1), noise(2))
	stream, scale := f.in("stream", residual, rows, c.hidden, noise(3)), f.in("scale", tensor.F32, 1, c.hidden, scaled(noise(4), 0.1, 0))
	var list []device.Product
	of := fusedCase{recipe: c.recipe, apart: c.apart}
	for i, out := range []int{wide, cols, cols} {
		y := f.out([]string{"q", "k", "v"}[i], activation, rows, out)
		if i > 0 || c.unread > 0 {
			f.within(spent)
		}
		list = append(list, device.Product{Y: y, W: of.matrixOf(f, c.hidden, out, i), Bias: f.bias(out, c.biased)})
	}
	normed := f.spent("normed", activation, rows, c.hidden)
	freqs := f.in("freqs", tensor.F32, 1, c.rope.Dims/2, frequencies(1e4, c.rope.Dims/2))
	near := device.Attend{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim, Scale: 0.05, Window: 2}
	y2, q2 := f.out("y2", activation, rows, wide), f.in("q2", activation, rows, wide, noise(6))
	b, read := c.batch(f, table), tensor.Tensor{}
	part := b
	if c.unread > 0 {
		read, part.Span = f.out("read", activation, rows-c.unread, wide), rows-c.unread
		part.Pos, part.Seq = b.Pos.Columns(c.unread, rows), b.Seq.Columns(c.unread, rows)
	}
	p := device.Products{X: stream, Norm: device.Norm{Eps: 1e-5}, Scale: scale, List: list, Then: device.Turn,
		Turn: device.Turning{Freqs: freqs, HeadDim: c.dim, Rope: c.rope, Cache: cache, Layer: 1, Batch: b, Unread: c.unread}}
	return func(d device.Device) {
		if fuser, ok := d.(device.Fuser); !ok || !fuser.Products(p) {
			d.Norm(normed, stream, scale, tensor.Tensor{}, p.Norm)
			for _, l := range list {
				d.QMatMul(l.Y, normed, l.W, l.Bias)
			}
			d.Rope(list[0].Y, list[1].Y, freqs, c.dim, c.rope, b)
			d.Store(cache, 1, list[1].Y, list[2].Y, b)
		}
		d.Attend(y2, q2, cache, 1, near, b)
		if c.unread > 0 {
			d.Attend(read, list[0].Y.Slice(c.unread, rows), cache, 1, near, part)
		}
	}
}
