package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A latentCase is norm, products of queries and latents, and latent attention, and then the same for the next position.
// The stream has been added to before, by products that may leave it for those, and the last result is multiplied by a matrix
// that may have it in its order.
type latentCase struct {
	heads, nope, beside, rank, value int
	rope                             device.Rope
	runs                             []run
	span                             int // 1 if it is 0
	room                             int // positions of a sequence, 320 if it is 0
	window                           int
	softcap, offset, temperature     float32
	reach                            int
}

func latentCases() (cases []testCase) {
	part := device.Rope{Dims: 20, Scale: 1.1}
	whole := func(dims int) device.Rope { return device.Rope{Dims: dims, Interleaved: true} }
	for _, c := range []latentCase{
		{heads: 4, nope: 32, beside: 16, rank: 32, value: 32, rope: whole(16), runs: runs(0)},
		{heads: 16, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(0)},
		{heads: 16, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(100), reach: 256},
		{heads: 16, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(9000), room: 9088},
		{heads: 20, nope: 192, beside: 64, rank: 512, value: 256, rope: device.Rope{Dims: 64}, runs: runs(300, 3)},
		{heads: 40, nope: 64, beside: 32, rank: 256, value: 64, rope: whole(32), runs: runs(127, 0, 128, 31, 32, 250, 60, 1)},
		{heads: 5, nope: 24, beside: 24, rank: 40, value: 10, rope: part, runs: runs(70, 5, 130), softcap: 10, offset: 1},
		{heads: 3, nope: 16, beside: 8, rank: 48, value: 24, rope: device.Rope{}, runs: runs(200), window: 50, temperature: 0.3},
		{heads: 128, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(500, 200), room: 640},
		{heads: 16, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 110, 120, 130, 140, 150, 160, 170)},
		{heads: 16, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(0), span: 200},
		{heads: 4, nope: 128, beside: 64, rank: 512, value: 128, rope: whole(64), runs: runs(700), span: 129, room: 896},
		{heads: 3, nope: 192, beside: 64, rank: 512, value: 256, rope: device.Rope{Dims: 64}, runs: runs(64, 0), span: 70},
		{heads: 3, nope: 192, beside: 64, rank: 64, value: 256, rope: device.Rope{Dims: 64}, runs: runs(1500, 40), span: 70, room: 1600},
		{heads: 5, nope: 64, beside: 32, rank: 256, value: 64, rope: whole(32), runs: runs(3, 100, 60), span: 128, offset: 1},
		{heads: 2, nope: 64, beside: 40, rank: 64, value: 128, rope: part, runs: runs(90), span: 66, window: 30, softcap: 10},
		{heads: 2, nope: 128, beside: 16, rank: 64, value: 64, rope: device.Rope{}, runs: runs(10, 30), span: 64, temperature: 0.3},
		{heads: 2, nope: 128, beside: 64, rank: 64, value: 64, rope: whole(64), runs: runs(10, 30), span: 5},
		{heads: 4, nope: 128, beside: 64, rank: 64, value: 128, rope: whole(64), runs: runs(10, 1000), span: 24, room: 1088},
		{heads: 2, nope: 96, beside: 32, rank: 64, value: 96, rope: whole(32), runs: runs(0), span: 100},
		{heads: 8, nope: 264, beside: 64, rank: 128, value: 64, rope: whole(64), runs: runs(20, 6)},
		{heads: 4, nope: 64, beside: 64, rank: 520, value: 64, rope: whole(64), runs: runs(20)},
	} {
		name := fmt.Sprintf("heads=%d %d+%d of %d to %d runs=%v %+v room=%d window=%d softcap=%v offset=%v temperature=%v reach=%d span=%d", c.heads, c.nope, c.beside, c.rank, c.value, c.runs, c.rope, c.room, c.window, c.softcap, c.offset, c.temperature, c.reach, max(c.span, 1))
		cases = append(cases, testCase{name: name, limit: attentionLimit, build: c.build})
	}
	return cases
}

func (c latentCase) build(f *fixture) func(device.Device) {
	const hidden, pageRows = 256, 32
	l := layout{runs: c.runs, span: max(c.span, 1), pageRows: pageRows, sequences: len(c.runs), seqPages: max(c.room, 320) / pageRows, dim: c.beside + c.rank, kvHeads: 1, reach: c.reach}
	shape := l.shape()
	shape.V = 0
	cache, table, all := f.cache(shape), l.table(f), l.whole()
	before, keys := all.batch(f, table), f.in("all keys", activation, all.rows(), l.dim, noise(1))
	f.prepare(func() { f.dev.Store(cache, 1, keys, keys.Columns(0, 0), before) })
	l.advances = true
	for _, r := range c.runs {
		if c.span > 1 {
			l.reach = max(l.reach, r.pos+c.span+1) // where they are in the end
		}
	}
	rows, b := l.rows(), l.batch(f, table)
	room := func(name string, cols int) tensor.Tensor { return f.spent(name, activation, rows, cols) }
	scale := func(name string, cols, seed int, offset float32) tensor.Tensor {
		return f.in(name, tensor.F32, 1, cols, scaled(noise(seed), 0.5, 1-offset))
	}
	weights := scaled(noise(4), 0.1, 0)
	m := device.LatentMixing{
		Mixing: device.Mixing{Cache: cache, Layer: 1, Rope: c.rope, Batch: b, Attend: device.Attend{Heads: c.heads, KVHeads: 1, HeadDim: l.dim, Latent: c.rank, Scale: 0.2,
			Window: c.window, Softcap: c.softcap, Temperature: c.temperature, TemperatureSpan: 16}},
		Norm: device.Norm{Eps: 1e-6, Offset: c.offset}, Scale: scale("latent scale", c.rank, 2, c.offset), Nope: c.nope, Beside: c.beside,
		Keys: f.in("keys", tensor.F16, c.heads*c.rank, c.nope, c.keysOf(weights)), Values: f.in("values", tensor.F16, c.heads*(c.nope+c.value), c.rank, weights),
		Latent: room("latent", c.rank), Key: room("key", l.dim), Query: room("query", c.heads*l.dim), Context: room("context", c.heads*c.rank),
	}
	if c.rope.Dims > 0 {
		m.Freqs = f.in("freqs", tensor.F32, 1, c.rope.Dims/2, frequencies(1e4, c.rope.Dims/2))
	}
	fc := fusedCase{rows: rows, hidden: hidden, recipe: "1:4b_64g"}
	stream, q, kv := f.inOut("stream", residual, rows, hidden, noise(5)), room("q", c.heads*(c.nope+c.beside)), room("kv", c.rank+c.beside)
	p := device.Products{X: stream, Norm: device.Norm{Eps: 1e-5}, Scale: f.in("scale", tensor.F32, 1, hidden, scaled(noise(6), 0.1, 0)),
		List: []device.Product{{Y: q, W: fc.matrixOf(f, hidden, q.Cols, 0)}, {Y: kv, W: fc.matrixOf(f, hidden, kv.Cols, 0)}}}
	normed, mlp := room("normed", hidden), fc.mlpOf(f)
	width := c.heads * c.value
	y, inOrder, sum := f.out("y", activation, rows, width), room("in order", width), f.inOut("sum", residual, rows, hidden, noise(8))
	reader := fc.matrixOf(f, width/32*32, hidden, 8)
	mix := func(d device.Device, y tensor.Tensor) {
		fuser, ok := d.(device.Fuser)
		if !ok || !fuser.Products(p) {
			normThenMultiply(d, normed, p)
		}
		if !ok || !fuser.MixLatent(y, q, kv, m) {
			m.By(d, y, q, kv)
		}
	}
	return func(d device.Device) {
		p.Left, m.Attend.Reader = false, nil
		mix(d, y)
		p.Left = mlp.addTo(d, stream, &p)
		d.Advance(b.Pos)
		if reader.In() == width {
			m.Attend.Reader = reader
		}
		mix(d, inOrder)
		addTo(d, device.Products{X: inOrder.Columns(0, reader.In()), List: []device.Product{{Y: sum, W: reader}}, Then: device.Add, Left: m.Attend.Reader != nil}, mlp.spare)
	}
}

// keysOf returns those that make keys, [heads·rank, nope], of weights that make keys and values, [heads·(nope+value), rank].
func (c latentCase) keysOf(weights values) values {
	return func(at int) float32 {
		head, r, i := at/c.nope/c.rank, at/c.nope%c.rank, at%c.nope
		return weights((head*(c.nope+c.value)+i)*c.rank + r)
	}
}
