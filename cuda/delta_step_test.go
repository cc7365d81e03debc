package cuda

import (
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Linear attention of rows by themselves is products and one kernel if the stream was left for the products.
func TestLinearAttention(t *testing.T) {
	const hidden, dim, keys, values = 4096, 128, 2, 4
	for _, c := range []struct {
		name   string
		rows   int
		left   bool
		change func(m *device.LinearMixing)
		want   []string
	}{
		{"one row", 1, true, nil, []string{"qmatmul_one", "delta_step"}},
		{"two rows", 2, true, nil, []string{"qmatmul_two", "delta_step"}},
		{"sixteen rows", 16, true, nil, []string{"qmatmul_batch_16", "delta_step"}},
		{"nothing is left", 1, false, nil, nil},
		{"runs of rows", 2, true, func(m *device.LinearMixing) { m.Batch.Span = 2 }, nil},
		{"more positions", 1, true, func(m *device.LinearMixing) { m.Kernel = 5 }, nil},
		{"rates of float32", 1, true, func(m *device.LinearMixing) { m.Rates.Type = tensor.F32 }, nil},
	} {
		d := hopperFake(t)
		d.shared = 227 << 10
		g := device.GatedDelta{KeyHeads: keys, ValueHeads: values, KeyDim: dim, ValueDim: dim, Kernel: 4}
		f32 := func(rows, cols int) tensor.Tensor { return d.Alloc(tensor.F32, rows, cols) }
		g.Conv, g.Decay, g.Bias = f32(g.Columns(), 4), f32(1, values), f32(1, values)
		p := device.Products{X: f32(c.rows, hidden), Scale: f32(1, hidden), Left: c.left}
		for _, out := range []int{g.Keys(), g.Keys(), g.Values(), g.Values()} {
			p.List = append(p.List, device.Product{W: orderedMatrix(d, hidden, out), Y: d.Alloc(tensor.F16, c.rows, out)})
		}
		leave(d, p)
		before := d.linked
		m := device.LinearMixing{GatedDelta: g, Rates: d.Alloc(tensor.F16, 2*values, hidden), Scale: f32(1, dim), Norm: device.Norm{Eps: 1e-6},
			State: device.DeltaState{State: f32(c.rows, g.StateSize()), Inputs: d.Alloc(tensor.F16, c.rows, 3*g.Columns())},
			Batch: device.Batch{Pos: d.Alloc(tensor.I32, 1, c.rows), Seq: d.Alloc(tensor.I32, 1, c.rows), Span: 1}}
		if c.change != nil {
			c.change(&m)
		}
		d.trail.clear()
		if got := d.LinearAttention(d.Alloc(tensor.F16, c.rows, g.Values()), p, m); got != (c.want != nil) || !slices.Equal(d.trail.names, c.want) {
			t.Errorf("%s: %v, %v, %v", c.name, got, d.trail.names, d.err)
		}
		if c.want == nil && d.linked != before {
			t.Errorf("%s: what was left is %+v, was %+v", c.name, d.linked, before)
		}
	}
}
