package devtest

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// spent is the limit of what an operation may leave as it likes.
var spent = limit{any: true, why: "the operation needs it no more"}

// normedLimit is attendLimit where heads are normalized, and so rounded once more.
var normedLimit = limit{abs: 3e-3, rel: 2 * ulp, nmse: 4e-6, why: "as of attention; queries and keys are rounded to fp16 between norm and rotation"}

type mixCase struct {
	attendCase
	rope device.Rope
	norm *device.Norm // of heads, or none
}

// mixCases are norms of heads, rotation, storing and attention at once, and then attention
// to the rows' own positions and those before, which shows what has been stored.
func mixCases() (cases []testCase) {
	for _, c := range slices.Concat(mixes(), rareMixes(), runMixes()) {
		one := c.testCase()
		if c.norm != nil {
			one.name += fmt.Sprintf(" normed=%+v", *c.norm)
			one.limit = normedLimit
		}
		one.name += fmt.Sprintf(" sinks=%v temperature=%v rope=%+v", c.sinks, c.temperature, c.rope)
		if c.values {
			one.limit.abs, one.limit.why = 8e-3, one.limit.why+"; so are values, whose root mean square is about 1 then"
		}
		one.name += c.rare()
		one.build = c.build
		cases = append(cases, one)
	}
	return cases
}

// rare names what few cases of Mix have.
func (c attendCase) rare() string {
	if !c.values && !c.late && !c.whole && !c.absent {
		return ""
	}
	return fmt.Sprintf(" values=%v late=%v whole=%v absent=%v", c.values, c.late, c.whole, c.absent)
}

// runs is single rows, or the first ones of runs, of a sequence each.
func runs(positions ...int) (list []run) {
	for s, p := range positions {
		list = append(list, run{s, p})
	}
	return list
}

// mixes are what most models have.
func mixes() []mixCase {
	whole, part, none := device.Rope{Dims: 128}, device.Rope{Dims: 20, Interleaved: true, Scale: 1.1}, device.Rope{}
	rms, layer := &device.Norm{Eps: 1e-6, Offset: 1}, &device.Norm{Kind: device.Layer, Eps: 1e-5}
	return []mixCase{
		{attendCase{heads: 4, kvHeads: 4, dim: 128, runs: runs(0), span: 1}, whole, nil},
		{attendCase{heads: 4, kvHeads: 4, dim: 128, runs: runs(15), span: 1}, whole, nil},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(1000), span: 1}, whole, nil},
		{attendCase{heads: 16, kvHeads: 16, dim: 64, runs: runs(1, 500), span: 1, pageRows: 32}, device.Rope{Dims: 64}, nil},
		{attendCase{heads: 32, kvHeads: 32, dim: 64, runs: runs(400, 350, 3, 250), span: 1, window: 300, pageRows: 64}, device.Rope{Dims: 64}, rms},
		{attendCase{heads: 24, kvHeads: 8, dim: 128, runs: runs(600, 5, 191, 200), span: 1, sinks: true, temperature: 0.3, pageRows: 64}, whole, nil},
		{attendCase{heads: 32, kvHeads: 2, dim: 128, runs: runs(640, 3), span: 1, sinks: true}, none, nil},
		{attendCase{heads: 24, kvHeads: 1, dim: 64, runs: runs(129, 64, 63, 2500), span: 1, temperature: 0.3}, device.Rope{Dims: 64, Interleaved: true}, nil},
		{attendCase{heads: 5, kvHeads: 5, dim: 80, runs: runs(257, 16), span: 1, window: 100, pageRows: 32}, part, nil},
		{attendCase{heads: 6, kvHeads: 3, dim: 26, runs: runs(90), span: 1}, part, nil},
		{attendCase{heads: 8, kvHeads: 4, dim: 256, runs: runs(33, 700), span: 1, softcap: 20}, device.Rope{Dims: 256}, nil},
		{attendCase{heads: 10, kvHeads: 1, dim: 192, runs: runs(100), span: 1}, device.Rope{Dims: 64}, nil},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(60, 61, 62, 63, 64, 65, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 1500, 22, 23, 24, 25, 26, 27, 28, 900), span: 1, pageRows: 16}, whole, nil},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(0, 250), span: 65}, whole, nil},
		{attendCase{heads: 4, kvHeads: 4, dim: 96, runs: runs(30), span: 9, window: 16}, none, nil},
		{attendCase{heads: 4, kvHeads: 4, dim: 128, runs: runs(15), span: 1}, whole, rms},
		{attendCase{heads: 32, kvHeads: 4, dim: 128, runs: runs(1000), span: 1}, whole, rms},
		{attendCase{heads: 6, kvHeads: 3, dim: 26, runs: runs(90, 3), span: 1}, part, layer},
		{attendCase{heads: 8, kvHeads: 4, dim: 256, runs: runs(33, 700), span: 1}, device.Rope{Dims: 64}, rms},
		{attendCase{heads: 48, kvHeads: 16, dim: 96, runs: runs(70, 200, 5), span: 1}, device.Rope{Dims: 48}, layer},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(0, 250), span: 65}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(511), span: 1, room: 8192}, whole, nil},
		{attendCase{heads: 32, kvHeads: 32, dim: 64, runs: runs(700, 3, 150, 1023, 5, 9, 20, 1000), span: 1, room: 2048}, device.Rope{Dims: 64}, nil},
		{attendCase{heads: 16, kvHeads: 2, dim: 512, runs: runs(300, 5), span: 1}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 8, kvHeads: 1, dim: 512, runs: runs(0, 40), span: 9}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 6, kvHeads: 1, dim: 64, runs: runs(25600), span: 1, pageRows: 256}, device.Rope{Dims: 64}, nil},
		{attendCase{heads: 3, kvHeads: 1, dim: 80, runs: runs(9000), span: 1, pageRows: 256}, part, nil},
		{attendCase{heads: 32, kvHeads: 2, dim: 128, runs: runs(8400), span: 1, sinks: true, pageRows: 256}, whole, nil},
		{attendCase{heads: 8, kvHeads: 1, dim: 256, runs: runs(7000, 100), span: 1, pageRows: 256}, device.Rope{Dims: 256}, rms},
		{attendCase{heads: 16, kvHeads: 1, dim: 512, runs: runs(4200), span: 1, pageRows: 256}, device.Rope{Dims: 512}, rms},
	}
}

// rareMixes are what few have: heads of 512 dimensions, norms of values, or behind the rotation, keys that another layer has stored.
func rareMixes() []mixCase {
	whole, part, none := device.Rope{Dims: 128}, device.Rope{Dims: 20, Interleaved: true, Scale: 1.1}, device.Rope{}
	rms, layer := &device.Norm{Eps: 1e-6, Offset: 1}, &device.Norm{Kind: device.Layer, Eps: 1e-5}
	return []mixCase{
		{attendCase{heads: 16, kvHeads: 1, dim: 512, runs: runs(3000), span: 1}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 512, runs: runs(0), span: 1}, device.Rope{Dims: 128, Interleaved: true}, nil},
		{attendCase{heads: 32, kvHeads: 4, dim: 512, runs: runs(700, 3, 63, 64, 65, 1200), span: 1, window: 500, softcap: 30, pageRows: 32}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 40, kvHeads: 2, dim: 512, runs: runs(10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 200, 30, 31, 32, 33, 34, 35, 36, 37, 38, 39), span: 1}, none, rms},
		{attendCase{heads: 4, kvHeads: 1, dim: 512, runs: runs(60), span: 40}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 256, runs: runs(700), span: 1, window: 512, values: true}, device.Rope{Dims: 256}, rms},
		{attendCase{heads: 16, kvHeads: 1, dim: 512, runs: runs(300, 9), span: 1, values: true}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 16, kvHeads: 8, dim: 256, runs: runs(30, 9, 4, 200, 100), span: 1, values: true}, device.Rope{Dims: 256}, rms},
		{attendCase{heads: 6, kvHeads: 3, dim: 26, runs: runs(90, 3), span: 1, values: true}, part, layer},
		{attendCase{heads: 10, kvHeads: 2, dim: 96, runs: runs(64), span: 1, values: true, late: true}, device.Rope{Dims: 48}, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(0, 250), span: 65, values: true}, whole, rms},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(500), span: 1, late: true}, whole, rms},
		{attendCase{heads: 32, kvHeads: 32, dim: 128, runs: runs(500), span: 1, whole: true}, whole, rms},
		{attendCase{heads: 40, kvHeads: 8, dim: 128, runs: runs(0), span: 1, whole: true}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(60, 5, 900, 33), span: 1, window: 512, whole: true}, whole, rms},
		{attendCase{heads: 16, kvHeads: 8, dim: 64, runs: runs(130), span: 1, whole: true, late: true}, device.Rope{Dims: 64}, rms},
		{attendCase{heads: 4, kvHeads: 2, dim: 256, runs: runs(1500), span: 1, whole: true, values: true}, device.Rope{Dims: 64}, rms},
		{attendCase{heads: 6, kvHeads: 3, dim: 26, runs: runs(90, 3), span: 1, whole: true}, part, rms},
		{attendCase{heads: 8, kvHeads: 4, dim: 128, runs: runs(70), span: 1, whole: true}, whole, layer},
		{attendCase{heads: 8, kvHeads: 4, dim: 128, runs: runs(70), span: 1, whole: true, absent: true}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 512, runs: runs(60), span: 1, whole: true}, device.Rope{Dims: 512}, layer},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(0, 250), span: 65, whole: true}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(0, 250), span: 65, whole: true, late: true}, whole, rms},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(500, 3, 7, 12, 77, 900, 1, 0), span: 1, room: 1024, late: true}, whole, rms},
		{attendCase{heads: 6, kvHeads: 3, dim: 26, runs: runs(90), span: 1, late: true}, part, rms},
		{attendCase{heads: 32, kvHeads: 32, dim: 64, runs: runs(9, 100), span: 1, late: true}, device.Rope{Dims: 64}, layer},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(0, 250), span: 65, late: true}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 256, runs: runs(700), span: 1, window: 512, absent: true}, device.Rope{Dims: 256}, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 512, runs: runs(700, 2, 0), span: 1, absent: true}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 32, kvHeads: 32, dim: 64, runs: runs(400, 350, 3, 250), span: 1, pageRows: 64, absent: true}, device.Rope{Dims: 64}, rms},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(5), span: 1, absent: true}, none, nil},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(5), span: 1, absent: true}, none, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 512, runs: runs(0, 40), span: 9, absent: true}, device.Rope{Dims: 512}, rms},
	}
}

// runMixes are runs of a few rows, as a prompt's end or drafted tokens are.
func runMixes() (list []mixCase) {
	whole, part := device.Rope{Dims: 128}, device.Rope{Dims: 20, Interleaved: true, Scale: 1.1}
	rms, layer := &device.Norm{Eps: 1e-6, Offset: 1}, &device.Norm{Kind: device.Layer, Eps: 1e-5}
	list = []mixCase{
		{attendCase{heads: 8, kvHeads: 8, dim: 128, runs: runs(0), span: 2}, whole, nil},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(100), span: 4}, whole, nil},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(1000), span: 8}, whole, rms},
		{attendCase{heads: 32, kvHeads: 32, dim: 128, runs: runs(250), span: 8, pageRows: 16}, whole, nil},
		{attendCase{heads: 32, kvHeads: 32, dim: 128, runs: runs(37), span: 16}, whole, nil},
		{attendCase{heads: 12, kvHeads: 4, dim: 64, runs: runs(300, 5), span: 5, window: 64, softcap: 20}, device.Rope{Dims: 64}, rms},
		{attendCase{heads: 16, kvHeads: 2, dim: 128, runs: runs(640), span: 3, sinks: true, temperature: 0.3}, whole, nil},
		{attendCase{heads: 16, kvHeads: 1, dim: 64, runs: runs(129), span: 7}, device.Rope{Dims: 64, Interleaved: true}, nil},
		{attendCase{heads: 24, kvHeads: 1, dim: 64, runs: runs(2500), span: 4}, part, layer},
		{attendCase{heads: 32, kvHeads: 2, dim: 128, runs: runs(60, 3), span: 6, sinks: true}, whole, rms},
		{attendCase{heads: 12, kvHeads: 1, dim: 256, runs: runs(33), span: 2}, device.Rope{Dims: 256}, nil},
		{attendCase{heads: 8, kvHeads: 4, dim: 256, runs: runs(500), span: 16, values: true, window: 100}, device.Rope{Dims: 256}, rms},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(90), span: 6, late: true}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(15, 250), span: 8, whole: true}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(15), span: 8, absent: true}, whole, rms},
		{attendCase{heads: 7, kvHeads: 1, dim: 128, runs: runs(1), span: 16, window: 5}, device.Rope{}, nil},
		{attendCase{heads: 14, kvHeads: 2, dim: 64, runs: runs(40), span: 15, temperature: 0.3, window: 30}, device.Rope{Dims: 64}, nil},
		{attendCase{heads: 6, kvHeads: 3, dim: 80, runs: runs(40), span: 4}, part, nil},
		{attendCase{heads: 32, kvHeads: 8, dim: 128, runs: runs(3900), span: 8, pageRows: 256}, whole, nil},
		{attendCase{heads: 8, kvHeads: 2, dim: 128, runs: runs(8300), span: 4, pageRows: 256}, whole, rms},
		{attendCase{heads: 8, kvHeads: 2, dim: 64, runs: runs(8190), span: 3, pageRows: 256, window: 8192}, device.Rope{Dims: 64}, nil},
		{attendCase{heads: 4, kvHeads: 4, dim: 512, runs: runs(300), span: 4}, device.Rope{Dims: 512}, rms},
		{attendCase{heads: 32, kvHeads: 32, dim: 64, runs: runs(10, 20, 400, 7, 90, 1), span: 3}, device.Rope{Dims: 64}, nil},
	}
	for i := range list {
		list[i].told = true
	}
	return list
}

// build fills the positions before the rows'.
func (c mixCase) build(f *fixture) func(device.Device) {
	l := c.layout()
	table, cache, cols := l.table(f), f.cache(l.shape()), l.cols()
	before := make([]bool, l.sequences*l.positions())
	for _, r := range c.runs {
		known := r.pos
		if c.absent {
			known += c.span
		}
		for pos := range known {
			before[r.seq*l.positions()+pos] = true
		}
	}
	past := func(v values) values {
		return func(i int) float32 {
			if !before[i/cols] {
				return nan
			}
			return v(i)
		}
	}
	l.fill(f, cache, 1, table, past(noise(1)), past(noise(2)))
	q, k := f.inOut("q", activation, l.rows(), c.heads*c.dim, noise(3)), f.inOut("k", activation, l.rows(), cols, noise(4))
	f.operands[len(f.operands)-2].limit, f.operands[len(f.operands)-1].limit = &spent, &spent
	v := f.inOut("v", activation, l.rows(), cols, noise(5))
	f.within(spent)
	q2 := f.in("q2", activation, l.rows(), c.heads*c.dim, noise(6))
	y, y2 := f.out("y", activation, l.rows(), c.heads*c.dim), f.out("y2", activation, l.rows(), c.heads*c.dim)
	freqs := tensor.Tensor{}
	if c.rope.Dims > 0 {
		freqs = f.in("freqs", tensor.F32, 1, c.rope.Dims/2, frequencies(1e4, c.rope.Dims/2))
	}
	heads := c.normed(f)
	a := c.attend(f)
	near, b := a, l.batch(f, table)
	near.Window = 2
	if c.absent {
		k, v = tensor.Tensor{}, tensor.Tensor{}
	}
	return func(d device.Device) {
		d.Mix(y, q, k, v, freqs, cache, 1, heads, c.rope, a, b)
		d.Attend(y2, q2, cache, 1, near, b)
	}
}

// normed returns the norms of the case's heads.
func (c mixCase) normed(f *fixture) (h device.Heads) {
	if c.norm != nil {
		weights := func(seed int) values { return scaled(noise(seed), 0.5, 1-c.norm.Offset) }
		queries, keys := c.dim, c.dim
		if c.whole {
			queries, keys = c.dim*c.heads, c.dim*c.kvHeads
		}
		h = device.Heads{Norm: *c.norm, Q: f.in("wq", tensor.F32, 1, queries, weights(21)), K: f.in("wk", tensor.F32, 1, keys, weights(22)), Late: c.late, Whole: c.whole}
		if c.values {
			h.V = f.in("wv", tensor.F32, 1, c.dim, weights(23))
		}
	}
	return h
}

// attend returns the parameters of the case.
func (c attendCase) attend(f *fixture) device.Attend {
	a := device.Attend{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim, Softcap: c.softcap, Window: c.window}
	if c.sinks {
		a.Sinks = f.in("sinks", tensor.F32, 1, c.heads, scaled(noise(7), 4, 0))
	}
	a.Temperature, a.TemperatureSpan = c.temperature, 16
	a.Scale = 3 * cmp.Or(c.sharp, 1) / float32(math.Sqrt(float64(c.dim)))
	return a
}
