package devtest

import (
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

func embedCases() (cases []testCase) {
	for _, c := range []struct {
		table      tensor.Type
		rows, cols int
		scale      float32
		v          values
	}{
		{tensor.F16, 0, 64, 1, noise(1)},
		{tensor.F32, 1, 1, 1, noise(1)},
		{tensor.F16, 1, 4096, 1, noise(2)},
		{tensor.BF16, 3, 5120, 1, noise(3)},
		{tensor.F32, 33, 100, 0.5, noise(4)},
		{tensor.F16, 33, 7, 63.99, noise(5)},
		{tensor.BF16, 200, 2049, 45.254833, noise(6)},
		{tensor.F16, 9, 64, 1, hostile(7)},
		{tensor.BF16, 9, 63, 1, hostile(8)},
	} {
		const vocabulary = 50
		ids := make([]int32, c.rows)
		for r := range ids {
			ids[r] = int32(mix(9, r) % vocabulary)
		}
		if c.rows > 2 {
			ids[0], ids[1] = 0, vocabulary-1
		}
		cases = append(cases, testCase{name: fmt.Sprintf("%v rows=%d cols=%d", c.table, c.rows, c.cols), limit: exact, build: func(f *fixture) func(device.Device) {
			y := f.out("y", residual, c.rows, c.cols)
			table := f.in("table", c.table, vocabulary, c.cols, c.v)
			list := f.ints("ids", 1, c.rows, ids)
			return func(d device.Device) { d.Embed(y, table, list, c.scale) }
		}})
	}
	return cases
}

// normLimit is that of norms: the device sums in float32, the reference in
// float64, and the result is rounded to fp16.
var normLimit = limit{abs: 1e-6, rel: ulp, nmse: 1e-6, why: "sums in float32, one rounding to fp16"}

type normCase struct {
	rows, cols int
	n          device.Norm
	x, y       tensor.Type
	bias       bool
	v          values
}

func normCases() (cases []testCase) {
	rms, layer := device.Norm{Eps: 1e-5}, device.Norm{Kind: device.Layer, Eps: 1e-5}
	offset := device.Norm{Eps: 1e-6, Offset: 1}
	for _, c := range []normCase{
		{0, 64, rms, residual, activation, false, noise(1)},
		{1, 1, rms, residual, activation, false, noise(1)},
		{1, 64, rms, residual, activation, false, noise(2)},
		{1, 4096, rms, residual, activation, false, noise(3)},
		{3, 4096, rms, activation, activation, false, noise(4)},
		{3, 8192, rms, residual, residual, false, noise(5)},
		{129, 5120, offset, residual, activation, false, scaled(noise(6), 30, 0)},
		{5, 16384, rms, residual, activation, true, noise(7)},
		{2, 20000, layer, residual, activation, true, scaled(noise(8), 1, 5)},
		{4, 8192, layer, residual, activation, false, noise(9)},
		{3, 4096, layer, activation, activation, true, noise(10)},
		{3, 1000, layer, residual, residual, true, scaled(noise(11), 1, 100)},
		{7, 1001, rms, residual, activation, true, noise(12)},
		{7, 37, layer, activation, activation, false, noise(13)},
		{5, 3, layer, residual, activation, false, noise(14)},
		{4, 256, rms, residual, activation, false, constant(0)},
		{4, 256, layer, residual, activation, false, constant(3)},
		{9, 512, rms, activation, activation, false, hostile(15)},
		{9, 512, rms, residual, activation, false, scaled(noise(16), 1e4, 0)},
		{5, 128, rms, residual, activation, false, withRow(noise(17), 2, 128, nan)},
		{5, 128, layer, activation, activation, true, withRow(noise(18), 3, 128, nan)},
	} {
		cases = append(cases, c.testCase(), c.inPlace())
	}
	return cases
}

func (c normCase) name() string {
	return fmt.Sprintf("kind=%d rows=%d cols=%d x=%s y=%s bias=%v", c.n.Kind, c.rows, c.cols, typeName(c.x), typeName(c.y), c.bias)
}

func typeName(t tensor.Type) string {
	switch t {
	case activation:
		return "act"
	case residual:
		return "F32"
	}
	return t.String()
}

// weights allocates what a norm multiplies by and adds.
func (c normCase) weights(f *fixture) (w, bias tensor.Tensor) {
	w = f.in("w", tensor.F32, 1, c.cols, scaled(noise(20), 0.5, 1-c.n.Offset))
	if c.bias {
		bias = f.in("bias", tensor.F32, 1, c.cols, noise(21))
	}
	return w, bias
}

func (c normCase) testCase() testCase {
	return testCase{name: c.name(), limit: normLimit, build: func(f *fixture) func(device.Device) {
		y := f.out("y", c.y, c.rows, c.cols)
		x := f.in("x", c.x, c.rows, c.cols, c.v)
		w, bias := c.weights(f)
		return func(d device.Device) { d.Norm(y, x, w, bias, c.n) }
	}}
}

// inPlace is the same norm with y and x in one place, which takes one type.
func (c normCase) inPlace() testCase {
	if c.x != c.y {
		c.x, c.y = activation, activation
	}
	return testCase{name: c.name() + " in place", limit: normLimit, build: func(f *fixture) func(device.Device) {
		x := f.inOut("x", c.x, c.rows, c.cols, c.v)
		w, bias := c.weights(f)
		return func(d device.Device) { d.Norm(x, x, w, bias, c.n) }
	}}
}

func headNormCases() (cases []testCase) {
	for _, c := range []struct {
		rows, heads, dim int
		n                device.Norm
		v                values
	}{
		{0, 8, 64, device.Norm{Eps: 1e-6}, noise(1)},
		{1, 1, 64, device.Norm{Eps: 1e-6}, noise(1)},
		{2, 32, 160, device.Norm{Kind: device.Layer, Eps: 1e-5}, noise(1)},
		{1, 32, 128, device.Norm{Eps: 1e-6}, noise(2)},
		{5, 7, 80, device.Norm{Eps: 1e-6}, noise(3)},
		{33, 8, 96, device.Norm{Eps: 1e-6, Offset: 1}, noise(4)},
		{3, 16, 256, device.Norm{Eps: 1e-6, Offset: 1}, scaled(noise(5), 30, 0)},
		{200, 4, 128, device.Norm{Kind: device.Layer, Eps: 1e-5}, noise(6)},
		{3, 3, 33, device.Norm{Kind: device.Layer, Eps: 1e-5}, noise(7)},
		{4, 2, 64, device.Norm{Eps: 1e-6}, constant(0)},
		{9, 2, 64, device.Norm{Eps: 1e-6}, hostile(8)},
		{4, 2, 64, device.Norm{Eps: 1e-6}, withRow(noise(9), 1, 64, nan)},
	} {
		name := fmt.Sprintf("kind=%d rows=%d heads=%d dim=%d", c.n.Kind, c.rows, c.heads, c.dim)
		cases = append(cases, testCase{name: name, limit: normLimit, build: func(f *fixture) func(device.Device) {
			x := f.inOut("x", activation, c.rows, c.heads*c.dim, c.v)
			w := f.in("w", tensor.F32, 1, c.dim, scaled(noise(20), 0.5, 1-c.n.Offset))
			return func(d device.Device) { d.HeadNorm(x, w, c.heads, c.n) }
		}}, testCase{name: name + " and keys", limit: normLimit, build: func(f *fixture) func(device.Device) {
			keys := (c.heads + 3) / 4
			q, k := f.inOut("q", activation, c.rows, c.heads*c.dim, c.v), f.inOut("k", activation, c.rows, keys*c.dim, noise(10))
			wq, wk := f.in("wq", tensor.F32, 1, c.dim, scaled(noise(20), 0.5, 1-c.n.Offset)), f.in("wk", tensor.F32, 1, c.dim, noise(21))
			return func(d device.Device) { d.HeadNorms(q, k, wq, wk, c.n) }
		}}, testCase{name: name + " and keys, each with weights of its own", limit: normLimit, build: func(f *fixture) func(device.Device) {
			keys := (c.heads + 3) / 4
			q, k := f.inOut("q", activation, c.rows, c.heads*c.dim, c.v), f.inOut("k", activation, c.rows, keys*c.dim, noise(10))
			wq, wk := f.in("wq", tensor.F32, c.heads, c.dim, scaled(noise(20), 0.5, 1-c.n.Offset)), f.in("wk", tensor.F32, keys, c.dim, noise(21))
			return func(d device.Device) { d.HeadNorms(q, k, wq, wk, c.n) }
		}})
	}
	return cases
}

// frequencies are those of rotary positions over the given number of pairs.
func frequencies(theta float64, pairs int) values {
	return func(i int) float32 { return float32(math.Pow(theta, -float64(i)/float64(pairs))) }
}

func ropeCases() (cases []testCase) {
	limit := limit{abs: 1e-6, rel: ulp, why: "two products and a sum in float32, one rounding to fp16; angles are reduced in float64"}
	plain, crossed := device.Rope{}, device.Rope{Interleaved: true}
	for _, c := range []struct {
		q, k, dim, dims int
		r               device.Rope
		theta           float64
		pos             []int32
	}{
		{8, 8, 64, 64, plain, 1e4, nil},
		{1, 1, 64, 64, plain, 1e4, []int32{0}},
		{32, 8, 128, 128, plain, 5e5, []int32{1}},
		{32, 8, 128, 128, plain, 1e4, []int32{0, 1, 2, 1000, 4095, 131071, 1000000}},
		{32, 8, 128, 128, crossed, 1e4, []int32{0, 1, 2, 1000, 4095, 131071, 1000000}},
		{12, 4, 80, 20, plain, 1e4, []int32{7, 77, 777}},
		{12, 4, 80, 20, crossed, 1e4, []int32{7, 77, 777}},
		{3, 1, 96, 96, plain, 1e4, []int32{31, 32, 33, 34, 35, 36, 37, 38, 39}},
		{5, 1, 256, 128, crossed, 1e6, []int32{99, 100}},
		{16, 16, 256, 256, plain, 1e4, []int32{511, 8191}},
		{4, 2, 10, 6, plain, 100, []int32{1, 2, 3}},
		{4, 2, 9, 6, crossed, 100, []int32{1, 2, 3}},
		{8, 2, 64, 64, device.Rope{Scale: 1.2}, 1e4, []int32{100, 5}},
	} {
		c.r.Dims = c.dims
		name := fmt.Sprintf("q=%d k=%d dim=%d dims=%d interleaved=%v theta=%g pos=%v", c.q, c.k, c.dim, c.dims, c.r.Interleaved, c.theta, c.pos)
		cases = append(cases, testCase{name: name, limit: limit, build: func(f *fixture) func(device.Device) {
			rows := len(c.pos)
			q := f.inOut("q", activation, rows, c.q*c.dim, noise(1))
			k := f.inOut("k", activation, rows, c.k*c.dim, noise(2))
			freqs := f.in("freqs", tensor.F32, 1, c.dims/2, frequencies(c.theta, c.dims/2))
			b := device.Batch{Pos: f.ints("pos", 1, rows, c.pos), Seq: f.ints("seq", 1, rows, repeat(0, rows)), Span: 1}
			return func(d device.Device) { d.Rope(q, k, freqs, c.dim, c.r, b) }
		}})
	}
	return cases
}
