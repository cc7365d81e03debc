package cuda

import (
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Linear attention of many rows of a run goes by chunks, of heads that there are kernels for.
func TestDeltaChunks(t *testing.T) {
	for _, c := range []struct {
		name                                 string
		runs, span, keys, values, dim, width int
		plain                                bool
		change                               func(d *Device)
		want                                 []string
	}{
		{"few rows", 1, 31, 2, 4, 128, 128, false, nil, []string{"delta_convolve_128", "delta_rule_128"}},
		{"a chunk", 1, 32, 2, 4, 128, 128, false, nil, []string{"delta_convolve_128", "delta_chunks_prepare_rule_128", "delta_chunks_rule_128"}},
		{"runs", 3, 100, 2, 4, 96, 192, false, nil, []string{"delta_convolve", "delta_chunks_prepare_rule_128", "delta_chunks_rule_128"}},
		{"small heads", 1, 33, 1, 2, 64, 20, false, nil, []string{"delta_convolve", "delta_chunks_prepare_rule_64", "delta_chunks_rule_64"}},
		{"plain", 1, 64, 8, 128, 128, 80, true, nil, []string{"delta_convolve_128", "delta_chunks_prepare_plain_128", "delta_chunks_plain_128"}},
		{"large heads", 1, 64, 1, 1, 256, 256, false, nil, []string{"delta_convolve", "delta_rule_256"}},
		{"odd heads", 1, 64, 1, 1, 100, 64, false, nil, []string{"delta_convolve", "delta_rule_128"}},
		{"before bfloat16", 1, 64, 2, 4, 128, 128, false, func(d *Device) { d.major = 7 }, []string{"delta_convolve_128", "delta_rule_128"}},
		{"little shared memory", 1, 64, 2, 4, 128, 128, false, func(d *Device) { d.shared = 64 << 10 }, []string{"delta_convolve_128", "delta_rule_128"}},
	} {
		d := hopperFake(t)
		d.shared = 227 << 10
		if c.change != nil {
			c.change(d)
		}
		g := device.GatedDelta{KeyHeads: c.keys, ValueHeads: c.values, KeyDim: c.dim, ValueDim: c.width, Kernel: 4, Plain: c.plain}
		f32 := func(rows, cols int) tensor.Tensor { return d.Alloc(tensor.F32, rows, cols) }
		f16 := func(rows, cols int) tensor.Tensor { return d.Alloc(tensor.F16, rows, cols) }
		g.Conv, g.Decay, g.Bias = f32(g.Columns(), 4), f32(1, c.values), f32(1, c.values)
		rows, b := c.runs*c.span, tensor.Tensor{}
		if c.plain {
			g.Skip = f32(1, c.values)
		} else {
			b = f32(rows, c.values)
		}
		m := device.DeltaState{State: f32(c.runs, g.StateSize()), Inputs: f16(c.runs, 3*g.Columns())}
		batch := device.Batch{Pos: d.Alloc(tensor.I32, 1, rows), Seq: d.Alloc(tensor.I32, 1, rows), Span: c.span}
		d.trail.clear()
		d.GatedDelta(f32(rows, g.Values()), f32(rows, g.Columns()), f16(rows, g.Keys()), f16(rows, g.Keys()), f16(rows, g.Values()), f32(rows, c.values), b, g, m, batch)
		if !slices.Equal(d.trail.names, c.want) {
			t.Errorf("%s: %v, want %v, %v", c.name, d.trail.names, c.want, d.err)
		}
	}
}
