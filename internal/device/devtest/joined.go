package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A joinedCase is products of dense weights that lie one below the other, with what follows them.
type joinedCase struct {
	rows, in, out int // out of each, in a turn of queries
	then          device.Then
	act           device.Act
	dim, kvHeads  int // of a turn
	biased        bool
}

func joinedCases() (cases []testCase) {
	for _, c := range []joinedCase{
		{rows: 40, in: 64, out: 96, then: device.Add},
		{rows: 129, in: 64, out: 96, then: device.Add},
		{rows: 700, in: 1376, out: 512, then: device.Add, biased: true},
		{rows: 1024, in: 2048, out: 4096, then: device.Add},
		{rows: 130, in: 72, out: 88, then: device.Gate, act: device.SiLU},
		{rows: 513, in: 512, out: 1376, then: device.Gate, act: device.GELU, biased: true},
		{rows: 1024, in: 1024, out: 2816, then: device.Gate, act: device.SiLU},
		{rows: 300, in: 512, out: 512, then: device.Turn, dim: 128, kvHeads: 2},
		{rows: 600, in: 256, out: 896, then: device.Turn, dim: 64, kvHeads: 2, biased: true},
		{rows: 200, in: 256, out: 384, then: device.Turn, dim: 96, kvHeads: 2},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: fusedLimit, build: c.build})
	}
	return cases
}

func (c joinedCase) build(f *fixture) func(device.Device) {
	x := f.in("x", activation, c.rows, c.in, noise(1))
	p := device.Products{X: x, Then: c.then, Act: c.act}
	weights := func(outs ...int) (w tensor.Tensor, parts []tensor.Tensor) {
		all, row := 0, 0
		for _, n := range outs {
			all += n
		}
		w = f.in("w", tensor.F16, all, c.in, scaled(noise(2), 0.1, 0))
		for _, n := range outs {
			parts = append(parts, w.Slice(row, row+n))
			row += n
		}
		return w, parts
	}
	spare := func(name string, cols int) tensor.Tensor {
		t := f.spent(name, activation, c.rows, cols)
		return t
	}
	joined := func(d device.Device, w tensor.Tensor) bool {
		j, ok := d.(device.Joiner)
		return ok && j.Joined(p, w)
	}
	switch c.then {
	case device.Add:
		w, _ := weights(c.out)
		stream, out := f.inOut("stream", residual, c.rows, c.out, noise(3)), spare("out", c.out)
		p.List = []device.Product{{Y: stream, Bias: f.bias(c.out, c.biased)}}
		return func(d device.Device) {
			if !joined(d, w) {
				d.MatMul(out, x, w, p.List[0].Bias)
				d.AddScaled(stream, out, 1)
			}
		}
	case device.Gate:
		w, parts := weights(c.out, c.out)
		y, gate, up := f.out("y", activation, c.rows, c.out), spare("gate", c.out), spare("up", c.out)
		p.List = []device.Product{{Y: y, Bias: f.bias(c.out, c.biased)}, {Bias: f.bias(c.out, c.biased)}}
		return func(d device.Device) {
			if !joined(d, w) {
				d.MatMul(gate, x, parts[0], p.List[0].Bias)
				d.MatMul(up, x, parts[1], p.List[1].Bias)
				d.ActMul(y, gate, up, c.act)
			}
		}
	}
	return c.buildTurn(f, p, weights, joined)
}

// buildTurn looks at what is stored by attention to each position and the one before.
func (c joinedCase) buildTurn(f *fixture, p device.Products, weights func(...int) (tensor.Tensor, []tensor.Tensor), joined func(device.Device, tensor.Tensor) bool) func(device.Device) {
	lay := layout{runs: []run{{0, 5}}, span: c.rows, pageRows: 32, sequences: 1, seqPages: (c.rows + 36) / 32, dim: c.dim, kvHeads: c.kvHeads}
	table, cache := lay.table(f), f.cache(lay.shape())
	lay.fill(f, cache, 1, table, noise(4), noise(5))
	w, parts := weights(c.out, lay.cols(), lay.cols())
	for i, part := range parts {
		y := f.out([]string{"q", "k", "v"}[i], activation, c.rows, part.Rows)
		if i > 0 {
			f.within(spent)
		}
		p.List = append(p.List, device.Product{Y: y, Bias: f.bias(part.Rows, c.biased)})
	}
	rope, heads := device.Rope{Dims: c.dim}, c.out/c.dim
	freqs := f.in("freqs", tensor.F32, 1, c.dim/2, frequencies(1e4, c.dim/2))
	near := device.Attend{Heads: heads, KVHeads: c.kvHeads, HeadDim: c.dim, Scale: 0.05, Window: 2}
	y2, q2 := f.out("y2", activation, c.rows, c.out), f.in("q2", activation, c.rows, c.out, noise(6))
	b := lay.batch(f, table)
	p.Turn = device.Turning{Freqs: freqs, HeadDim: c.dim, Rope: rope, Cache: cache, Layer: 1, Batch: b}
	return func(d device.Device) {
		if !joined(d, w) {
			for i, l := range p.List {
				d.MatMul(l.Y, p.X, parts[i], l.Bias)
			}
			d.Rope(p.List[0].Y, p.List[1].Y, freqs, c.dim, rope, b)
			d.Store(cache, 1, p.List[1].Y, p.List[2].Y, b)
		}
		d.Attend(y2, q2, cache, 1, near, b)
	}
}
