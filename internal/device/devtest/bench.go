package devtest

import (
	"fmt"
	"strings"
	"testing"

	"exl2/internal/affine"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/sampling"
	"exl2/internal/tensor"
)

// coldBytes is more than any cache holds: the operations that are measured go
// through copies of their operands of this size together.
const coldBytes = 192 << 20

// A benchCase is an operation to measure. build allocates its operands and
// returns the call and the bytes that it reads and writes; flops is 0 for
// operations that memory bounds.
type benchCase struct {
	name  string
	flops float64
	build func(d device.Device) (call func(), bytes int)
}

// Bench measures operations at the shapes of models: those that are bound by
// memory in GB/s, products of many rows in TFLOP/s. Operations are recorded, as
// a decode step is, and read memory that no cache holds.
func Bench(b *testing.B, open func(t testing.TB) device.Device) {
	d := open(b)
	defer func() { d.Close() }()
	for _, list := range [][]benchCase{benchSimple(), benchMixtures(), benchProducts(), benchAttend()} {
		for _, c := range list {
			b.Run(c.name, func(b *testing.B) { c.measure(b, d) })
			if err := d.Sync(); err != nil {
				b.Log(err)
				d.Close()
				d = open(b)
			}
		}
	}
}

func (c benchCase) measure(b *testing.B, d device.Device) {
	tracked := &tracker{Device: d}
	defer tracked.free()
	var calls []func()
	total, bytes := 0, 0
	for total < coldBytes && len(calls) < 200 {
		call, n := c.build(tracked)
		calls, total, bytes = append(calls, call), total+n, n
	}
	replay, err := d.Record(func() {
		for _, call := range calls {
			call()
		}
	})
	if err == nil {
		err = d.Sync()
	}
	if err != nil {
		b.Skip(err)
	}
	for b.Loop() {
		replay()
		d.Sync()
	}
	seconds := b.Elapsed().Seconds() / float64(b.N*len(calls))
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(seconds*1e6, "µs")
	if c.flops > 0 {
		b.ReportMetric(c.flops/seconds/1e12, "TFLOP/s")
	} else {
		b.ReportMetric(float64(bytes)/seconds/1e9, "GB/s")
	}
}

// tracker frees what has been allocated through it.
type tracker struct {
	device.Device
	tensors  []tensor.Tensor
	matrices []device.Matrix
	caches   []device.Cache
	groups   []device.Group
}

// Alloc allocates memory that free frees.
func (t *tracker) Alloc(typ tensor.Type, rows, cols int) tensor.Tensor {
	x := t.Device.Alloc(typ, rows, cols)
	t.tensors = append(t.tensors, x)
	return x
}

// LoadEXL2 loads a matrix that free frees.
func (t *tracker) LoadEXL2(m *exl2.Matrix, out int) device.Matrix {
	w := t.Device.LoadEXL2(m, out)
	t.matrices = append(t.matrices, w)
	return w
}

// LoadAffine loads a matrix that free frees.
func (t *tracker) LoadAffine(m *affine.Matrix) device.Matrix {
	w := t.Device.LoadAffine(m)
	t.matrices = append(t.matrices, w)
	return w
}

// NewCache makes a cache that free frees.
func (t *tracker) NewCache(s device.CacheShape) device.Cache {
	c := t.Device.NewCache(s)
	t.caches = append(t.caches, c)
	return c
}

// Group makes a group that free frees.
func (t *tracker) Group(list []device.Matrix, dense, biases []tensor.Tensor) device.Group {
	g := t.Device.Group(list, dense, biases)
	t.groups = append(t.groups, g)
	return g
}

func (t *tracker) free() {
	for _, g := range t.groups {
		t.FreeGroup(g)
	}
	for _, x := range t.tensors {
		t.Free(x)
	}
	for _, m := range t.matrices {
		t.FreeEXL2(m)
	}
	for _, c := range t.caches {
		t.FreeCache(c)
	}
}

// filled allocates noise: zeros make some GPUs faster than numbers do.
func filled(d device.Device, t tensor.Type, rows, cols int) tensor.Tensor {
	const period = 1 << 16
	x, block := d.Alloc(t, rows, cols), encode(t, period, noise(1))
	data := make([]byte, 0, x.Bytes()+len(block))
	for len(data) < x.Bytes() {
		data = append(data, block...)
	}
	d.Upload(x, data[:x.Bytes()])
	return x
}

// benchSimple lists the operations without products, for a step and a prompt.
func benchSimple() (cases []benchCase) {
	add := func(name string, rows int, build func(d device.Device) (func(), int)) {
		cases = append(cases, benchCase{name: fmt.Sprintf("%s/rows=%d", name, rows), build: build})
	}
	for _, rows := range []int{1, 2048} {
		const hidden, width = 4096, 11008
		add("Norm", rows, func(d device.Device) (func(), int) {
			x, y, w := filled(d, tensor.F32, rows, hidden), d.Alloc(d.Activation(), rows, hidden), filled(d, tensor.F32, 1, hidden)
			return func() { d.Norm(y, x, w, tensor.Tensor{}, device.Norm{Eps: 1e-5}) }, x.Bytes() + y.Bytes()
		})
		add("AddScaled", rows, func(d device.Device) (func(), int) {
			y, x := filled(d, tensor.F32, rows, hidden), filled(d, d.Activation(), rows, hidden)
			return func() { d.AddScaled(y, x, 1) }, 2*y.Bytes() + x.Bytes()
		})
		add("ActMul", rows, func(d device.Device) (func(), int) {
			g, u := filled(d, d.Activation(), rows, width), filled(d, d.Activation(), rows, width)
			return func() { d.ActMul(g, g, u, device.SiLU) }, 3 * g.Bytes()
		})
		add("HeadNorm", rows, func(d device.Device) (func(), int) {
			x, w := filled(d, d.Activation(), rows, hidden), filled(d, tensor.F32, 1, 128)
			return func() { d.HeadNorm(x, w, hidden/128, device.Norm{Eps: 1e-6}) }, 2 * x.Bytes()
		})
		add("Rope", rows, func(d device.Device) (func(), int) {
			q, k, freqs := filled(d, d.Activation(), rows, hidden), filled(d, d.Activation(), rows, hidden/4), filled(d, tensor.F32, 1, 64)
			b := device.Batch{Pos: d.Alloc(tensor.I32, 1, rows), Seq: d.Alloc(tensor.I32, 1, rows), Span: rows}
			return func() { d.Rope(q, k, freqs, 128, device.Rope{Dims: 128}, b) }, 2 * (q.Bytes() + k.Bytes())
		})
		for _, c := range []struct {
			name string
			s    sampling.Settings
		}{{"greedy", sampling.Settings{}}, {"temperature", sampling.Settings{Temperature: 0.8}}, {"filters", sampling.Settings{Temperature: 0.1, TopK: 50, TopP: 0.9}}} {
			add("Sample "+c.name, rows, func(d device.Device) (func(), int) {
				n := min(rows, 64)
				x, out, pos, settings := filled(d, tensor.F32, n, 128256), d.Alloc(tensor.I32, 2, n), d.Alloc(tensor.I32, 1, n), d.Alloc(tensor.F32, n, sampling.Columns)
				s := device.Sampling{Settings: settings, Seeds: d.Alloc(tensor.I32, n, 2), Greedy: c.s.Temperature == 0, Unfiltered: !c.s.Selects()}
				d.Upload(settings, encode(tensor.F32, n*sampling.Columns, list(c.s.Row()...)))
				return func() { d.Sample(out, x, pos, s) }, x.Bytes()
			})
		}
	}
	return cases
}

// benchProducts lists products at the shapes of llama2-7b: few rows are bound
// by memory, many by arithmetic.
func benchProducts() (cases []benchCase) {
	for _, s := range []struct{ in, out int }{{4096, 4096}, {4096, 11008}, {11008, 4096}} {
		cases = append(cases, benchProduct(fmt.Sprintf("MatMul/f16/%dx%d", s.in, s.out), s.in, s.out, func(d device.Device) (func(y, x tensor.Tensor), int) {
			w := filled(d, tensor.F16, s.out, s.in)
			return func(y, x tensor.Tensor) { d.MatMul(y, x, w, tensor.Tensor{}) }, w.Bytes()
		})...)
		for _, recipe := range []string{"1:4b_128g", "0.1:4b_128g/0.9:3b_128g", "0.1:6b_128g/0.9:5b_128g"} {
			name := strings.ReplaceAll(recipe, "/", "+") // a slash separates names
			m := lazily(func() *exl2.Matrix { return quantized(s.in, s.out, recipe) })
			cases = append(cases, benchProduct(fmt.Sprintf("QMatMul/%s/%dx%d", name, s.in, s.out), s.in, s.out, func(d device.Device) (func(y, x tensor.Tensor), int) {
				w := d.LoadEXL2(m(), s.out)
				return func(y, x tensor.Tensor) { d.QMatMul(y, x, w, tensor.Tensor{}) }, w.Bytes()
			})...)
		}
		cases = append(cases, benchAffine(s.in, s.out)...)
	}
	return cases
}

// benchAffine lists products by matrices as GPTQ makes them.
func benchAffine(in, out int) (cases []benchCase) {
	for _, s := range []affineShape{{bits: 4, group: 128}, {bits: 4, group: 128, ordered: true}, {bits: 3, group: 128}, {bits: 8, group: 128}} {
		s.in, s.out = in, out
		m := lazily(s.matrix)
		cases = append(cases, benchProduct("QMatMul/affine "+strings.ReplaceAll(s.String(), " ", ","), in, out, func(d device.Device) (func(y, x tensor.Tensor), int) {
			w := d.LoadAffine(m())
			return func(y, x tensor.Tensor) { d.QMatMul(y, x, w, tensor.Tensor{}) }, w.Bytes()
		})...)
	}
	return cases
}

// benchProduct lists products by one matrix, which load returns with its size.
func benchProduct(name string, in, out int, load func(d device.Device) (func(y, x tensor.Tensor), int)) (cases []benchCase) {
	for _, rows := range []int{1, 2, 4, 8, 16, 32, 64, 128, 512, 2048} {
		flops := 0.0
		if rows > 16 {
			flops = 2 * float64(rows) * float64(in) * float64(out)
		}
		cases = append(cases, benchCase{fmt.Sprintf("%s/rows=%d", name, rows), flops, func(d device.Device) (func(), int) {
			y, x := d.Alloc(d.Activation(), rows, out), filled(d, d.Activation(), rows, in)
			multiply, bytes := load(d)
			return func() { multiply(y, x) }, bytes + x.Bytes() + y.Bytes()
		}})
	}
	return cases
}

// lazily returns what f returns, which is called once at most.
func lazily[T any](f func() T) func() T {
	var v T
	done := false
	return func() T {
		if !done {
			v, done = f(), true
		}
		return v
	}
}

// benchAttend lists attention: steps at depths, with rotation and storing, whose time
// is that of reading keys and values, and prompts.
func benchAttend() (cases []benchCase) {
	for _, c := range []struct{ heads, kvHeads, sequences, depth, span int }{
		{32, 32, 1, 100, 1}, {32, 32, 1, 1000, 1}, {32, 32, 1, 8192, 1}, {32, 8, 1, 100, 1}, {32, 8, 1, 8000, 1}, {32, 4, 1, 100, 1}, {32, 8, 8, 100, 1}, {32, 8, 16, 2000, 1},
		{32, 32, 1, 0, 512}, {32, 32, 1, 0, 2048}, {32, 32, 1, 8192, 2048}, {32, 8, 1, 0, 4096}, {32, 8, 1, 6144, 2048},
		{32, 8, 1, 8192, 16}, {32, 8, 1, 8192, 64}, {32, 8, 1, 8192, 128}, {32, 8, 1, 8192, 300}, {16, 8, 1, 8192, 512},
	} {
		const dim = 128
		name := fmt.Sprintf("Attend/heads=%d:%d/sequences=%d/depth=%d/span=%d", c.heads, c.kvHeads, c.sequences, c.depth, c.span)
		flops := 0.0
		if c.span > 1 {
			flops = 4 * float64(c.heads*dim) * float64(c.span) * (float64(c.depth) + float64(c.span)/2)
		}
		cases = append(cases, benchCase{name, flops, func(d device.Device) (func(), int) {
			l := layout{span: c.span, pageRows: 256, sequences: c.sequences, seqPages: (c.depth+c.span)/256 + 1, dim: dim, kvHeads: c.kvHeads}
			for i := range c.sequences {
				l.runs = append(l.runs, run{i, c.depth})
			}
			if c.span > 1 {
				l.reach = l.reached()
			}
			f := &fixture{dev: d, round: d.Activation()}
			table := l.table(f)
			b, cache, whole := l.batch(f, table), d.NewCache(l.shape()), l.whole()
			all := filled(d, d.Activation(), whole.rows(), l.cols())
			d.Store(cache, 0, all, all, whole.batch(f, table))
			q := filled(d, d.Activation(), l.rows(), c.heads*dim)
			a := device.Attend{Heads: c.heads, KVHeads: c.kvHeads, HeadDim: dim, Scale: 0.088}
			if c.span == 1 {
				k, freqs := filled(d, d.Activation(), l.rows(), l.cols()), filled(d, tensor.F32, 1, dim/2)
				y := d.Alloc(d.Activation(), l.rows(), c.heads*dim)
				return func() { d.Mix(y, q, k, k, freqs, cache, 0, device.Heads{}, device.Rope{Dims: dim}, a, b) }, 2*c.sequences*(c.depth+c.span)*l.cols()*2 + 2*q.Bytes()
			}
			return func() { d.Attend(q, q, cache, 0, a, b) }, 2*c.sequences*(c.depth+c.span)*l.cols()*2 + 2*q.Bytes()
		}})
	}
	return cases
}
