package devtest

import (
	"fmt"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// actAloneCases are activation functions without what they multiply.
func actAloneCases() (cases []testCase) {
	limit := limit{abs: 0x1p-23, rel: ulp, why: "a function in float32, one rounding to fp16, whose subnormals are 2⁻²⁴ apart"}
	for act, actName := range []string{"silu", "gelu", "gelu-tanh", "relu", "sigmoid", "softplus"} {
		for _, c := range []struct {
			rows, cols int
			v          values
		}{{0, 100, noise(1)}, {1, 1, noise(1)}, {1, 11008, scaled(noise(3), 4, 0)}, {65, 1001, scaled(noise(7), 20, 0)}, {3, 256, hostile(9)}} {
			name := fmt.Sprintf("%s rows=%d cols=%d", actName, c.rows, c.cols)
			cases = append(cases, testCase{name: name, limit: limit, build: func(f *fixture) func(device.Device) {
				y, gate := f.out("y", activation, c.rows, c.cols), f.in("gate", activation, c.rows, c.cols, c.v)
				return func(d device.Device) { d.ActMul(y, gate, tensor.Tensor{}, device.Act(act)) }
			}}, testCase{name: name + " in place", limit: limit, build: func(f *fixture) func(device.Device) {
				gate := f.inOut("gate", activation, c.rows, c.cols, c.v)
				return func(d device.Device) { d.ActMul(gate, gate, tensor.Tensor{}, device.Act(act)) }
			}})
		}
	}
	return cases
}

func clampMulCases() (cases []testCase) {
	limit := limit{abs: 0x1p-23, rel: 2 * ulp, why: "a function in float32, one rounding to fp16"}
	for _, c := range []struct {
		rows, cols int
		clamp      device.Clamp
		gate, up   values
	}{
		{0, 64, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, noise(1), noise(2)},
		{1, 1, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, noise(1), noise(2)},
		{1, 2880, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, scaled(noise(3), 8, 0), scaled(noise(4), 8, 0)},
		{33, 1001, device.Clamp{Limit: 0.5, Up: 0.5, Alpha: 1, Added: 1}, noise(5), noise(6)},
		{3, 256, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, list(-30, -7, 0, 7, 8, 100), list(-100, -8, -7, -1, 0, 7, 8)},
		{5, 1001, device.Clamp{Limit: 3.5, Up: 2, Alpha: 1}, scaled(noise(7), 4, 0), scaled(noise(8), 4, 0)},
	} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d cols=%d limit=%v", c.rows, c.cols, c.clamp.Limit), limit: limit,
			build: func(f *fixture) func(device.Device) {
				gate, up := f.inOut("gate", activation, c.rows, c.cols, c.gate), f.in("up", activation, c.rows, c.cols, c.up)
				return func(d device.Device) { d.ClampMul(gate, gate, up, c.clamp) }
			}})
	}
	return cases
}

func clipCases() (cases []testCase) {
	for _, c := range []struct {
		rows, cols int
		limit      float32
		v          values
	}{{0, 64, 8, noise(1)}, {1, 1, 0.25, noise(1)}, {3, 1001, 0.5, noise(2)}, {64, 4096, 8, scaled(noise(3), 10, 0)}, {2, 64, 1, hostile(4)}} {
		cases = append(cases, testCase{name: fmt.Sprintf("rows=%d cols=%d limit=%v", c.rows, c.cols, c.limit), limit: exact,
			build: func(f *fixture) func(device.Device) {
				x := f.inOut("x", activation, c.rows, c.cols, c.v)
				return func(d device.Device) { d.Clip(x, c.limit) }
			}})
	}
	return cases
}

// attendMoreCases are attention with sinks, and with a temperature.
func attendMoreCases() (cases []testCase) {
	for i, c := range []attendCase{
		{heads: 4, kvHeads: 4, dim: 64, runs: []run{{0, 0}}, span: 1},
		{heads: 8, kvHeads: 2, dim: 64, runs: []run{{0, 700}}, span: 1, window: 128},
		{heads: 8, kvHeads: 1, dim: 128, runs: []run{{1, 100}, {0, 300}}, span: 5, softcap: 20},
		{heads: 4, kvHeads: 2, dim: 64, runs: []run{{0, 0}}, span: 200, window: 16},
		{heads: 2, kvHeads: 2, dim: 96, runs: []run{{0, 30}}, span: 130, sharp: 100},
		{heads: 8, kvHeads: 2, dim: 64, runs: []run{{0, 2500}, {1, 3}}, span: 20, told: true},
	} {
		for _, temperature := range []float32{0, 0.3} {
			c.sinks, c.temperature = temperature == 0 || i%2 == 0, temperature
			one := c.testCase()
			one.name += fmt.Sprintf(" sinks=%v temperature=%v", c.sinks, temperature)
			cases = append(cases, one)
		}
	}
	return cases
}

// attendLatentCases are attention whose values are a part of the keys.
func attendLatentCases() (cases []testCase) {
	for _, c := range []struct {
		heads, dim, latent int
		l                  layout
	}{
		{4, 48, 32, layout{runs: []run{{0, 0}}, span: 1}},
		{16, 576, 512, layout{runs: []run{{0, 200}, {1, 31}}, span: 1}},
		{4, 48, 48, layout{runs: []run{{1, 17}, {0, 3}}, span: 30}},
		{2, 40, 32, layout{runs: []run{{0, 0}}, span: 150}},
	} {
		l := c.l
		l.pageRows, l.sequences, l.seqPages, l.dim, l.kvHeads = 32, 2, 9, c.dim, 1
		name := fmt.Sprintf("heads=%d dim=%d latent=%d runs=%v span=%d", c.heads, c.dim, c.latent, l.runs, l.span)
		cases = append(cases, testCase{name: name, limit: attendLimit, build: func(f *fixture) func(device.Device) {
			shape := l.shape()
			shape.V = 0
			cache, table, all := f.cache(shape), l.table(f), l.whole()
			before, keys := all.batch(f, table), f.in("all keys", activation, all.rows(), c.dim, noise(1))
			f.prepare(func() { f.dev.Store(cache, 1, keys, keys.Columns(0, 0), before) })
			k, q := f.in("k", activation, l.rows(), c.dim, noise(2)), f.in("q", activation, l.rows(), c.heads*c.dim, noise(3))
			y, b := f.out("y", activation, l.rows(), c.heads*c.latent), l.batch(f, table)
			a := device.Attend{Heads: c.heads, KVHeads: 1, HeadDim: c.dim, Latent: c.latent, Scale: 0.2}
			return func(d device.Device) {
				d.Store(cache, 1, k, k.Columns(0, 0), b)
				d.Attend(y, q, cache, 1, a, b)
			}
		}})
	}
	return cases
}
