package devtest

import (
	"cmp"
	"fmt"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// backwardGroups lists the cases of every operation of device.Backward.
func backwardGroups() []group {
	return []group{
		{"MatMulBack", withGaps(matMulBackCases())},
		{"NormBack", withGaps(normBackCases())},
		{"ActMulBack", withGaps(actMulBackCases())},
		{"RopeBack", withGaps(ropeBackCases())},
		{"AttendBack", withGaps(attendBackCases())},
		{"GatedDeltaBack", withGaps(gatedDeltaBackCases())},
		{"ShortConvBack", withGaps(shortConvBackCases())},
		{"HeadGatesBack", withGaps(headGatesBackCases())},
		{"XIELUBack", withGaps(xieluBackCases())},
		{"ClampMulBack", withGaps(clampMulBackCases())},
		{"ClipBack", withGaps(clipBackCases())},
		{"CombineBack", withGaps(combineBackCases())},
		{"CapBack", withGaps(capBackCases())},
		{"SampleBack", withGaps(sampleBackCases())},
	}
}

// RunBackward checks every operation of device.Backward, as RunQuantize does those
// of device.Quantize.
func RunBackward(t *testing.T, open func(t testing.TB) device.Backward) {
	runSome(t, backwardGroups(), func(string, int) bool { return true }, func(t testing.TB) device.Device { return open(t) })
}

// RunBackwardSome is RunBackward of those cases alone that are chosen, as RunSome has them.
func RunBackwardSome(t *testing.T, choose func(operation string, i int) bool, open func(t testing.TB) device.Device) {
	runSome(t, backwardGroups(), choose, open)
}

// backwards makes a case of an operation of device.Backward. It may allocate
// workspace, so that it is called twice instead of being recorded.
func backwards(name string, l limit, build func(f *fixture) func(d device.Backward)) testCase {
	return testCase{name: name, limit: l, direct: true, build: func(f *fixture) func(device.Device) {
		call := build(f)
		return func(d device.Device) { call(d.(device.Backward)) }
	}}
}

// small is a pattern of gradients: they are far below what they are gradients of.
func small(seed int) values { return scaled(noise(seed), 1e-4, 0) }

// summed is the limit of gradients that are sums in float32.
var summed = limit{rms: 3e-5, rel: 1e-5, nmse: 1e-9, why: "sums in float32, in another order"}

func matMulBackCases() (cases []testCase) {
	for _, c := range []struct {
		rows, in, out int
		w             tensor.Type
	}{
		{0, 64, 64, tensor.F16}, {1, 1, 1, tensor.F32}, {1, 64, 96, tensor.F16}, {7, 33, 130, tensor.F32}, {70, 256, 640, tensor.F16},
		{128, 130, 64, tensor.BF16}, {300, 512, 1000, tensor.F16}, {33, 2048, 160, tensor.F32}, {200, 96, 5000, tensor.F16},
	} {
		cases = append(cases, backwards(fmt.Sprintf("rows=%d in=%d out=%d w=%v", c.rows, c.in, c.out, c.w), summed, func(f *fixture) func(device.Backward) {
			dx, dy := f.inOut("dx", residual, c.rows, c.in, small(1)), f.in("dy", residual, c.rows, c.out, small(2))
			w := f.in("w", c.w, c.out, c.in, noise(3))
			return func(d device.Backward) { d.MatMulBack(dx, dy, w) }
		}))
	}
	return cases
}

func normBackCases() (cases []testCase) {
	rms, layer := device.Norm{Eps: 1e-5}, device.Norm{Kind: device.Layer, Eps: 1e-5}
	for _, c := range []struct {
		rows, cols int
		n          device.Norm
		x          tensor.Type
		v          values
	}{
		{0, 64, rms, residual, noise(1)}, {1, 1, rms, residual, noise(1)}, {1, 4096, rms, residual, noise(2)}, {65, 128, rms, activation, noise(3)},
		{3, 5120, device.Norm{Eps: 1e-6, Offset: 1}, residual, scaled(noise(4), 30, 0)}, {7, 37, rms, activation, noise(5)}, {3, 20000, rms, residual, noise(6)},
		{4, 4096, layer, residual, scaled(noise(7), 1, 5)}, {9, 1001, layer, activation, noise(8)}, {5, 2, layer, residual, noise(9)},
		{4, 256, rms, residual, constant(0)}, {4, 256, rms, residual, scaled(noise(10), 1e15, 0)},
	} {
		name := fmt.Sprintf("kind=%d rows=%d cols=%d x=%s", c.n.Kind, c.rows, c.cols, typeName(c.x))
		cases = append(cases, backwards(name, summed, func(f *fixture) func(device.Backward) {
			dx, dy := f.inOut("dx", residual, c.rows, c.cols, small(11)), f.in("dy", residual, c.rows, c.cols, small(12))
			x, w := f.in("x", c.x, c.rows, c.cols, c.v), f.in("w", tensor.F32, 1, c.cols, scaled(noise(13), 0.5, 1-c.n.Offset))
			return func(d device.Backward) { d.NormBack(dx, dy, x, w, c.n) }
		}))
	}
	return cases
}

func actMulBackCases() (cases []testCase) {
	l := limit{rms: 1e-5, rel: 1e-5, why: "a function in float32"}
	for act, actName := range []string{"silu", "gelu", "gelu-tanh", "relu", "sigmoid", "softplus"} {
		for _, c := range []struct {
			rows, cols int
			gate       values
		}{
			{0, 100, noise(1)}, {1, 11008, scaled(noise(2), 4, 0)}, {3, 37, scaled(noise(3), 8, 0)}, {65, 1000, scaled(noise(4), 30, 0)}, {3, 1003, hostile(5)},
		} {
			cases = append(cases, backwards(fmt.Sprintf("%s rows=%d cols=%d", actName, c.rows, c.cols), l, func(f *fixture) func(device.Backward) {
				dgate, dup := f.inOut("dgate", residual, c.rows, c.cols, small(6)), f.inOut("dup", residual, c.rows, c.cols, small(7))
				dy := f.in("dy", residual, c.rows, c.cols, small(8))
				gate, up := f.in("gate", activation, c.rows, c.cols, c.gate), f.in("up", activation, c.rows, c.cols, noise(9))
				return func(d device.Backward) { d.ActMulBack(dgate, dup, dy, gate, up, device.Act(act)) }
			}))
		}
	}
	return append(cases, backwards("gelu without up", l, func(f *fixture) func(device.Backward) {
		dgate, dy, gate := f.inOut("dgate", residual, 9, 1003, small(6)), f.in("dy", residual, 9, 1003, small(8)), f.in("gate", activation, 9, 1003, scaled(noise(3), 8, 0))
		return func(d device.Backward) { d.ActMulBack(dgate, tensor.Tensor{}, dy, gate, tensor.Tensor{}, device.GELU) }
	}))
}

func ropeBackCases() (cases []testCase) {
	l := limit{rms: 1e-6, rel: 1e-6, why: "two products and a sum in float32; angles are reduced in float64"}
	for _, c := range []struct {
		q, k, dim, dims int
		r               device.Rope
		pos             []int32
	}{
		{8, 8, 64, 64, device.Rope{}, nil}, {32, 8, 128, 128, device.Rope{}, []int32{0, 1, 2, 1000, 4095, 131071}}, {12, 4, 80, 20, device.Rope{Interleaved: true}, []int32{7, 77, 777}},
		{4, 2, 9, 6, device.Rope{}, []int32{1, 2, 3}}, {8, 2, 64, 64, device.Rope{Scale: 1.2, Interleaved: true}, []int32{100, 5}}, {2, 2, 64, 0, device.Rope{}, []int32{3}},
	} {
		c.r.Dims = c.dims
		name := fmt.Sprintf("q=%d k=%d dim=%d dims=%d interleaved=%v pos=%v", c.q, c.k, c.dim, c.dims, c.r.Interleaved, c.pos)
		cases = append(cases, backwards(name, l, func(f *fixture) func(device.Backward) {
			rows := len(c.pos)
			q, k := f.inOut("dq", residual, rows, c.q*c.dim, small(1)), f.inOut("dk", residual, rows, c.k*c.dim, small(2))
			freqs := f.in("freqs", tensor.F32, 1, c.dims/2, frequencies(1e4, c.dims/2))
			b := device.Batch{Pos: f.ints("pos", 1, rows, c.pos), Seq: f.ints("seq", 1, rows, repeat(0, rows)), Span: 1}
			return func(d device.Backward) { d.RopeBack(q, k, freqs, c.dim, c.r, b) }
		}))
	}
	return cases
}

// attendBack is a case of AttendBack: runs of whole sequences of span positions.
type attendBack struct {
	heads, kvHeads, dim, runs, span, window int
	softcap, sharp                          float32
	sinks                                   bool
	temperature                             float32
	latent                                  int
}

var attendBacks = []attendBack{
	{heads: 1, kvHeads: 1, dim: 64, runs: 1, span: 1}, {heads: 4, kvHeads: 2, dim: 64, runs: 1, span: 33}, {heads: 8, kvHeads: 2, dim: 128, runs: 2, span: 70},
	{heads: 2, kvHeads: 2, dim: 80, runs: 3, span: 17}, {heads: 2, kvHeads: 1, dim: 256, runs: 1, span: 50}, {heads: 2, kvHeads: 2, dim: 96, runs: 1, span: 130, window: 40},
	{heads: 3, kvHeads: 1, dim: 64, runs: 2, span: 65, window: 1}, {heads: 4, kvHeads: 4, dim: 32, runs: 1, span: 100, softcap: 3, sharp: 8}, {heads: 2, kvHeads: 1, dim: 200, runs: 1, span: 40, window: 9, softcap: 20},
	{heads: 2, kvHeads: 2, dim: 128, runs: 1, span: 64, sharp: 30}, {heads: 1, kvHeads: 1, dim: 6, runs: 1, span: 9}, {heads: 2, kvHeads: 1, dim: 64, runs: 0, span: 8},
	{heads: 8, kvHeads: 2, dim: 64, runs: 2, span: 37, sinks: true}, {heads: 2, kvHeads: 1, dim: 64, runs: 1, span: 130, window: 16, sinks: true},
	{heads: 4, kvHeads: 1, dim: 128, runs: 1, span: 90, temperature: 0.3, softcap: 20}, {heads: 2, kvHeads: 2, dim: 200, runs: 2, span: 33, temperature: 0.5, sinks: true, sharp: 10},
	{heads: 4, kvHeads: 1, dim: 48, latent: 32, runs: 2, span: 40}, {heads: 16, kvHeads: 1, dim: 576, latent: 512, runs: 1, span: 70},
	{heads: 4, kvHeads: 2, dim: 512, runs: 1, span: 20},
	{heads: 3, kvHeads: 1, dim: 40, latent: 40, runs: 1, span: 33}, {heads: 2, kvHeads: 1, dim: 190, latent: 128, runs: 1, span: 50, window: 9},
}

// attendBackArguments are those of AttendBack.
type attendBackArguments struct {
	dq, dk, dv, dy, q, k, v tensor.Tensor
	a                       device.Attend
	b                       device.Batch
}

func (c attendBack) rows() int { return c.runs * c.span }

// layout has a page for each sequence.
func (c attendBack) layout() layout {
	return layout{runs: runsFromStart(c.runs), span: c.span, pageRows: 256, sequences: max(c.runs, 1), seqPages: 1, dim: c.dim, kvHeads: c.kvHeads}
}

func (c attendBack) arguments(f *fixture) (x attendBackArguments) {
	rows, wide, narrow, width := c.rows(), c.heads*c.dim, c.kvHeads*c.dim, cmp.Or(c.latent, c.dim)
	x.dq, x.dk = f.inOut("dq", residual, rows, wide, small(1)), f.inOut("dk", residual, rows, narrow, small(2))
	x.dy, x.q = f.in("dy", residual, rows, c.heads*width, small(4)), f.in("q", activation, rows, wide, scaled(noise(5), max(c.sharp, 1), 0))
	x.k = f.in("k", activation, rows, narrow, noise(6))
	x.dv, x.v = x.dk.Columns(c.dim-width, c.dim), x.k.Columns(c.dim-width, c.dim)
	if c.latent == 0 {
		x.dv, x.v = f.inOut("dv", residual, rows, narrow, small(3)), f.in("v", activation, rows, narrow, noise(7))
	}
	l := c.layout()
	x.b = l.batch(f, l.table(f))
	x.a = device.Attend{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: c.dim, Scale: 0.3, Softcap: c.softcap, Window: c.window, Temperature: c.temperature, TemperatureSpan: 16, Latent: c.latent}
	if c.sinks {
		x.a.Sinks = f.in("sinks", tensor.F32, 1, c.heads, scaled(noise(8), 3, 0))
	}
	return x
}

func attendBackCases() (cases []testCase) {
	l := limit{rms: 1e-4, rel: 1e-4, nmse: 1e-8, why: "sums and exponentials in float32, in another order"}
	for _, c := range attendBacks {
		cases = append(cases, backwards(fmt.Sprintf("%+v", c), l, func(f *fixture) func(device.Backward) {
			x := c.arguments(f)
			return func(d device.Backward) { d.AttendBack(x.dq, x.dk, x.dv, x.dy, x.q, x.k, x.v, x.a, x.b) }
		}))
	}
	return cases
}

func clampMulBackCases() (cases []testCase) {
	l := limit{abs: 1e-9, rms: 1e-6, rel: 1e-5, why: "a function and products in float32"}
	for _, c := range []struct {
		rows, cols int
		clamp      device.Clamp
		gate, up   values
	}{
		{0, 64, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, noise(1), noise(2)}, {1, 1, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, noise(1), noise(2)},
		{65, 2880, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, scaled(noise(3), 8, 0), scaled(noise(4), 8, 0)}, {33, 1001, device.Clamp{Limit: 0.5, Up: 0.5, Alpha: 1, Added: 1}, noise(5), noise(6)},
		{3, 256, device.Clamp{Limit: 7, Up: 7, Alpha: 1.702, Added: 1}, list(-30, -7, 0, 7, 8, 100), list(-100, -8, -7, -1, 0, 7, 8)},
		{5, 1001, device.Clamp{Limit: 3.5, Up: 2, Alpha: 1}, scaled(noise(10), 4, 0), scaled(noise(11), 4, 0)},
	} {
		cases = append(cases, backwards(fmt.Sprintf("rows=%d cols=%d limit=%v", c.rows, c.cols, c.clamp.Limit), l, func(f *fixture) func(device.Backward) {
			dgate, dup := f.inOut("dgate", residual, c.rows, c.cols, small(7)), f.inOut("dup", residual, c.rows, c.cols, small(8))
			dy, gate, up := f.in("dy", residual, c.rows, c.cols, small(9)), f.in("gate", activation, c.rows, c.cols, c.gate), f.in("up", activation, c.rows, c.cols, c.up)
			return func(d device.Backward) { d.ClampMulBack(dgate, dup, dy, gate, up, c.clamp) }
		}))
	}
	return cases
}

func clipBackCases() (cases []testCase) {
	for _, c := range []struct {
		rows, cols int
		limit      float32
		v          values
	}{{0, 64, 8, noise(1)}, {1, 1, 0.25, noise(1)}, {3, 1001, 0.5, noise(2)}, {64, 4096, 8, scaled(noise(3), 10, 0)}, {2, 64, 1, hostile(4)}} {
		cases = append(cases, backwards(fmt.Sprintf("rows=%d cols=%d limit=%v", c.rows, c.cols, c.limit), exact, func(f *fixture) func(device.Backward) {
			dx, x := f.inOut("dx", residual, c.rows, c.cols, small(5)), f.in("x", activation, c.rows, c.cols, c.v)
			return func(d device.Backward) { d.ClipBack(dx, x, c.limit) }
		}))
	}
	return cases
}

// runsFromStart are n sequences from their first positions on.
func runsFromStart(n int) (list []run) {
	for s := range n {
		list = append(list, run{s, 0})
	}
	return list
}

func capBackCases() (cases []testCase) {
	for _, c := range []struct {
		rows, cols     int
		scale, softcap float32
	}{{0, 10, 1, 30}, {1, 1, 1, 30}, {3, 1003, 0.5, 30}, {17, 4096, 0.0625, 0}, {2, 333, 1, 2}} {
		name := fmt.Sprintf("rows=%d cols=%d scale=%g cap=%g", c.rows, c.cols, c.scale, c.softcap)
		cases = append(cases, backwards(name, limit{rms: 1e-6, rel: 1e-6, why: "products in float32"}, func(f *fixture) func(device.Backward) {
			dx, y := f.inOut("dx", residual, c.rows, c.cols, small(1)), f.in("y", residual, c.rows, c.cols, scaled(noise(2), max(c.softcap, 1), 0))
			return func(d device.Backward) { d.CapBack(dx, y, c.scale, c.softcap) }
		}))
	}
	return cases
}

// A drawing is rows of logits and the numbers by which columns are drawn.
type drawing struct {
	name       string
	rows, cols int
	v, random  values
}

var drawings = []drawing{
	{"none", 0, 10, noise(1), constant(0)},
	{"one column", 3, 1, noise(1), constant(0.5)},
	{"few columns", 200, 7, scaled(noise(2), 3, 0), scaled(noise(3), 0.49, 0.5)},
	{"vocabulary", 3, 128256, scaled(noise(4), 8, 0), list(0.1, 0.5, 0.9)},
	{"odd vocabulary", 5, 50257, scaled(noise(5), 2, -100), scaled(noise(6), 0.49, 0.5)},
	{"many rows", 256, 1000, scaled(noise(7), 10, 50), scaled(noise(8), 0.49, 0.5)},
	{"the first", 4, 600, noise(9), constant(0)},
	{"nearly the last", 4, 600, noise(10), constant(1 - 0x1p-24)},
	{"all equal", 2, 2000, constant(-3), list(0.25013, 0.75017)},
	{"one that is sure", 2, 3000, withAt(constant(-200), 100, 1234, 3000), constant(0.7)},
	{"impossible ones", 3, 100, withAt(noise(11), -infinity, 0, 5, 99, 150), list(0, 0.4, 0.97)},
}

func sampleBackCases() (cases []testCase) {
	for _, c := range drawings {
		cases = append(cases, backwards(c.name, limit{abs: 1e-7, rel: 3e-6, why: "exponentials in float32"}, func(f *fixture) func(device.Backward) {
			x, random := f.inOut("x", residual, c.rows, c.cols, c.v), f.in("random", tensor.F32, 1, c.rows, c.random)
			return func(d device.Backward) { d.SampleBack(x, random) }
		}))
	}
	return cases
}
