package devtest

import (
	"cmp"
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A deltaCase is linear attention of some runs.
type deltaCase struct {
	keyHeads, valueHeads, keyDim, valueDim, kernel int
	runs                                           []run
	span                                           int
	slow                                           bool // what is behind stays
	sharp                                          float32
	plain, biased                                  bool
	least, most                                    float32
}

var deltas = []deltaCase{
	{keyHeads: 2, valueHeads: 4, keyDim: 128, valueDim: 128, kernel: 4, runs: []run{{0, 0}}, span: 1},
	{keyHeads: 2, valueHeads: 4, keyDim: 128, valueDim: 128, kernel: 4, runs: []run{{2, 5}, {0, 0}, {1, 700}}, span: 1},
	{keyHeads: 1, valueHeads: 2, keyDim: 128, valueDim: 128, kernel: 4, runs: []run{{1, 0}, {0, 0}}, span: 37},
	{keyHeads: 1, valueHeads: 3, keyDim: 128, valueDim: 64, kernel: 4, runs: []run{{0, 11}, {1, 0}}, span: 9, slow: true},
	{keyHeads: 2, valueHeads: 2, keyDim: 64, valueDim: 128, kernel: 2, runs: []run{{0, 3}}, span: 2},
	{keyHeads: 1, valueHeads: 1, keyDim: 256, valueDim: 256, kernel: 3, runs: []run{{0, 1}}, span: 8},
	{keyHeads: 3, valueHeads: 3, keyDim: 7, valueDim: 5, kernel: 4, runs: []run{{0, 0}, {1, 4}}, span: 3},
	{keyHeads: 1, valueHeads: 2, keyDim: 96, valueDim: 40, kernel: 1, runs: []run{{0, 2}}, span: 17},
	{keyHeads: 1, valueHeads: 1, keyDim: 32, valueDim: 32, kernel: 16, runs: []run{{0, 20}}, span: 5},
	{keyHeads: 1, valueHeads: 1, keyDim: 128, valueDim: 32, kernel: 4, runs: []run{{0, 0}}, span: 130, slow: true},
	{keyHeads: 1, valueHeads: 1, keyDim: 64, valueDim: 64, kernel: 4, runs: []run{{0, 0}}, span: 40, sharp: 40},
	{keyHeads: 1, valueHeads: 1, keyDim: 64, valueDim: 64, kernel: 4, span: 8},
	{keyHeads: 1, valueHeads: 2, keyDim: 128, valueDim: 128, kernel: 4, runs: []run{{0, 3}}, span: 19, biased: true},
	{keyHeads: 2, valueHeads: 2, keyDim: 96, valueDim: 192, kernel: 4, runs: []run{{0, 3}, {1, 0}}, span: 11, most: 2},
	{keyHeads: 2, valueHeads: 4, keyDim: 128, valueDim: 128, kernel: 4, runs: []run{{2, 5}, {0, 0}}, span: 1, most: 2},
	{keyHeads: 2, valueHeads: 4, keyDim: 128, valueDim: 128, kernel: 4, runs: []run{{1, 9}, {0, 0}}, span: 100},
	{keyHeads: 1, valueHeads: 2, keyDim: 96, valueDim: 192, kernel: 4, runs: []run{{0, 3}}, span: 65, most: 2, slow: true},
	{keyHeads: 1, valueHeads: 2, keyDim: 64, valueDim: 20, kernel: 1, runs: []run{{1, 3}}, span: 33},
	{keyHeads: 1, valueHeads: 1, keyDim: 128, valueDim: 64, kernel: 16, runs: []run{{0, 7}}, span: 96, sharp: 40, slow: true, biased: true},
	{keyHeads: 1, valueHeads: 4, keyDim: 128, valueDim: 64, kernel: 4, runs: []run{{2, 5}, {0, 0}, {1, 700}}, span: 1, plain: true, biased: true},
	{keyHeads: 1, valueHeads: 9, keyDim: 128, valueDim: 80, kernel: 4, runs: []run{{0, 7}}, span: 64, plain: true, biased: true, slow: true},
	{keyHeads: 2, valueHeads: 4, keyDim: 16, valueDim: 24, kernel: 4, runs: []run{{0, 7}}, span: 90, plain: true, sharp: 40},
	{keyHeads: 2, valueHeads: 4, keyDim: 128, valueDim: 64, kernel: 4, runs: []run{{1, 0}, {0, 0}}, span: 37, plain: true, biased: true, least: 1e-3},
	{keyHeads: 1, valueHeads: 2, keyDim: 256, valueDim: 64, kernel: 4, runs: []run{{0, 11}, {1, 0}}, span: 18, plain: true, biased: true, slow: true},
	{keyHeads: 1, valueHeads: 6, keyDim: 64, valueDim: 48, kernel: 4, runs: []run{{0, 0}}, span: 70, plain: true, slow: true, least: 0.05},
	{keyHeads: 3, valueHeads: 3, keyDim: 7, valueDim: 5, kernel: 4, runs: []run{{0, 0}, {1, 4}}, span: 3, plain: true, biased: true},
	{keyHeads: 1, valueHeads: 1, keyDim: 16, valueDim: 32, kernel: 1, runs: []run{{0, 2}}, span: 5, plain: true, sharp: 40},
	{keyHeads: 1, valueHeads: 2, keyDim: 64, valueDim: 64, kernel: 4, span: 8, plain: true},
}

func (c deltaCase) layout() layout {
	most := 1
	for _, r := range c.runs {
		most = max(most, r.seq+1)
	}
	return layout{runs: c.runs, span: c.span, pageRows: 1024, sequences: most + 1, seqPages: 1, dim: c.keyDim, kvHeads: 1}
}

// shape is what the operation is told.
func (c deltaCase) shape(f *fixture) device.GatedDelta {
	g := device.GatedDelta{KeyHeads: c.keyHeads, ValueHeads: c.valueHeads, KeyDim: c.keyDim, ValueDim: c.valueDim, Kernel: c.kernel, Plain: c.plain, Least: c.least, Most: c.most}
	g.Conv, g.Decay = f.in("conv", tensor.F32, g.Columns(), c.kernel, noise(1)), f.in("decay", tensor.F32, 1, c.valueHeads, noise(2))
	offset := float32(0)
	if c.slow {
		offset = -5
	}
	g.Bias = f.in("bias", tensor.F32, 1, c.valueHeads, scaled(noise(3), 1, offset))
	if c.plain {
		g.Skip = f.in("skip", tensor.F32, 1, c.valueHeads, noise(21))
	}
	if c.biased {
		g.ConvBias = f.in("conv bias", tensor.F32, 1, g.Columns(), noise(22))
	}
	return g
}

func (c deltaCase) in(f *fixture, g device.GatedDelta, rows int) (q, k, v, a, b tensor.Tensor) {
	sharp := cmp.Or(c.sharp, 1)
	q, k = f.in("q", activation, rows, g.Keys(), noise(4)), f.in("k", activation, rows, g.Keys(), noise(5))
	v = f.in("v", activation, rows, g.Values(), scaled(noise(6), 2, 0))
	a = f.in("a", residual, rows, g.ValueHeads, scaled(noise(7), sharp, 0))
	if !c.plain {
		b = f.in("b", residual, rows, g.ValueHeads, scaled(noise(8), 2*sharp, 0))
	}
	return q, k, v, a, b
}

// deltaLimit is that of results and states.
var deltaLimit = limit{rms: 1e-4, rel: 1e-4, nmse: 1e-9, why: "sums in float32, in another order, row after row, or of products of numbers that are two in bfloat16"}

func gatedDeltaCases() (cases []testCase) {
	for _, c := range deltas {
		cases = append(cases, testCase{name: fmt.Sprintf("%+v", c), limit: deltaLimit, build: func(f *fixture) func(device.Device) {
			g, at := c.shape(f), c.layout()
			b := at.batch(f, tensor.Tensor{})
			rows := at.rows()
			q, k, v, decay, rate := c.in(f, g, rows)
			y, columns := f.out("y", residual, rows, g.Values()), f.out("columns", residual, rows, g.Columns())
			m := device.DeltaState{State: f.inOut("state", tensor.F32, at.sequences, g.StateSize(), noise(9))}
			if c.kernel > 1 {
				m.Inputs = f.inOut("inputs", f.dev.Activation(), at.sequences, (c.kernel-1)*g.Columns(), rounded(noise(10), f.round))
			}
			return func(d device.Device) { d.GatedDelta(y, columns, q, k, v, decay, rate, g, m, b) }
		}})
	}
	return cases
}

func gatedDeltaBackCases() (cases []testCase) {
	l := limit{rms: 2e-4, rel: 1e-4, nmse: 1e-7, why: "sums in float32, in another order, row after row"}
	for _, c := range deltas {
		at := c.layout()
		at.runs = runsFromStart(len(c.runs))
		cases = append(cases, backwards(fmt.Sprintf("%+v", c), l, func(f *fixture) func(device.Backward) {
			g := c.shape(f)
			b := at.batch(f, tensor.Tensor{})
			rows := at.rows()
			q, k, v, decay, rate := c.in(f, g, rows)
			grad := func(name string, cols, seed int) tensor.Tensor {
				return f.inOut(name, residual, rows, cols, small(seed))
			}
			dq, dk, dv := grad("dq", g.Keys(), 11), grad("dk", g.Keys(), 12), grad("dv", g.Values(), 13)
			da, db := grad("da", g.ValueHeads, 14), tensor.Tensor{}
			if !c.plain {
				db = grad("db", g.ValueHeads, 15)
			}
			dy := f.in("dy", residual, rows, g.Values(), small(16))
			y := f.out("y", residual, rows, g.Values())
			f.within(deltaLimit)
			columns, dcolumns := f.spent("columns", residual, rows, g.Columns()), f.out("dcolumns", residual, rows, g.Columns())
			m := device.DeltaState{State: f.out("state", tensor.F32, at.sequences, g.StateSize())}
			f.within(deltaLimit)
			if c.kernel > 1 {
				m.Inputs = f.out("inputs", f.dev.Activation(), at.sequences, (c.kernel-1)*g.Columns())
			}
			return func(d device.Backward) {
				d.GatedDelta(y, columns, q, k, v, decay, rate, g, m, b)
				d.GatedDeltaBack(dq, dk, dv, da, db, dcolumns, dy, columns, q, k, v, decay, rate, g, b)
			}
		}))
	}
	return cases
}

func headNormGatedCases() (cases []testCase) {
	for _, c := range []struct {
		rows, heads, dim int
		offset           float32
		x, gate          values
	}{
		{0, 2, 64, 0, noise(1), noise(2)}, {1, 32, 128, 0, noise(1), scaled(noise(2), 3, 0)}, {37, 6, 128, 0, scaled(noise(3), 1e-3, 0), scaled(noise(4), 3, 0)},
		{5, 3, 7, 1, noise(5), noise(6)}, {3, 2, 256, 0, scaled(noise(7), 1e-7, 0), scaled(noise(8), 20, 0)}, {4, 2, 96, 0, constant(0), hostile(9)},
	} {
		name := fmt.Sprintf("rows=%d heads=%d dim=%d offset=%v", c.rows, c.heads, c.dim, c.offset)
		cases = append(cases, testCase{name: name, limit: normLimit, build: func(f *fixture) func(device.Device) {
			y, x, gate := f.out("y", activation, c.rows, c.heads*c.dim), f.in("x", residual, c.rows, c.heads*c.dim, c.x), f.in("gate", activation, c.rows, c.heads*c.dim, c.gate)
			w := f.in("w", tensor.F32, 1, c.dim, scaled(noise(10), 0.5, 1-c.offset))
			return func(d device.Device) { d.HeadNormGated(y, x, gate, w, device.Norm{Eps: 1e-6, Offset: c.offset}) }
		}}, testCase{name: name + " in place", limit: normLimit, build: func(f *fixture) func(device.Device) {
			y, x := f.inOut("y", activation, c.rows, c.heads*c.dim, c.gate), f.in("x", residual, c.rows, c.heads*c.dim, c.x)
			w := f.in("w", tensor.F32, 1, c.dim, scaled(noise(10), 0.5, 1-c.offset))
			return func(d device.Device) { d.HeadNormGated(y, x, y, w, device.Norm{Eps: 1e-6, Offset: c.offset}) }
		}})
	}
	return cases
}

func gatedNormCases() (cases []testCase) {
	for _, c := range []struct {
		rows, groups, group int
		offset              float32
		x, gate             values
	}{
		{0, 2, 64, 0, noise(1), noise(2)}, {1, 1, 4096, 0, noise(1), scaled(noise(2), 3, 0)}, {37, 6, 128, 0, scaled(noise(3), 1e-3, 0), scaled(noise(4), 3, 0)},
		{5, 3, 7, 1, noise(5), noise(6)}, {3, 2, 1000, 0, scaled(noise(7), 1e-6, 0), scaled(noise(8), 20, 0)}, {4, 1, 96, 0, constant(0), hostile(9)}, {2, 1, 9000, 0, noise(1), noise(3)},
	} {
		cols, name := c.groups*c.group, fmt.Sprintf("rows=%d groups=%d group=%d offset=%v", c.rows, c.groups, c.group, c.offset)
		add := func(name string, inPlace bool) {
			cases = append(cases, testCase{name: name, limit: normLimit, build: func(f *fixture) func(device.Device) {
				x, w := f.in("x", residual, c.rows, cols, c.x), f.in("w", tensor.F32, 1, cols, scaled(noise(10), 0.5, 1-c.offset))
				n := device.Norm{Eps: 1e-5, Offset: c.offset}
				if inPlace {
					y := f.inOut("y", activation, c.rows, cols, c.gate)
					return func(d device.Device) { d.GatedNorm(y, x, y, w, c.group, n) }
				}
				y, gate := f.out("y", activation, c.rows, cols), f.in("gate", activation, c.rows, cols, c.gate)
				return func(d device.Device) { d.GatedNorm(y, x, gate, w, c.group, n) }
			}})
		}
		add(name, false)
		add(name+" in place", true)
	}
	return cases
}
