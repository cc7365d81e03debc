package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Rows of experts are multiplied by digits where few see the same one and there is room for them, else by codes, and by fewer rows
// together, buffers, slots and warps where shared memory is short.
func TestGroupPlan(t *testing.T) {
	const hopper, ada, turing = 227 << 10, 99 << 10, 64 << 10
	type want struct {
		digits                          bool
		warps, slots, buffers, together int
	}
	for _, c := range []struct {
		name                  string
		shared                int
		in, bits, groups      int
		rows, experts, chosen int
		digitless             bool
		want                  want
	}{
		{"gate and up of many experts", hopper, 2048, 4, 1, 8, 128, 8, false, want{true, 12, 3, 2, 4}},
		{"one row", hopper, 2048, 4, 1, 1, 128, 8, false, want{true, 12, 3, 2, 1}},
		{"scales too large for digits", hopper, 2048, 4, 1, 8, 128, 8, true, want{false, 12, 3, 2, 8}},
		{"experts that see more rows", hopper, 2048, 4, 1, 64, 128, 8, false, want{false, 12, 3, 2, 8}},
		{"large experts", hopper, 4096, 4, 1, 8, 8, 2, false, want{true, 12, 3, 2, 4}},
		{"their down", hopper, 14336, 4, 1, 8, 8, 2, false, want{true, 12, 3, 1, 4}},
		{"their down, of more rows", hopper, 14336, 4, 1, 16, 8, 2, false, want{false, 12, 2, 1, 5}},
		{"wide codes of small groups", hopper, 14336, 8, 4, 8, 8, 2, false, want{true, 6, 2, 1, 4}},
		{"less memory", ada, 2048, 4, 1, 8, 128, 8, false, want{true, 12, 2, 1, 4}},
		{"and large experts", ada, 14336, 4, 1, 8, 8, 2, false, want{false, 6, 2, 1, 1}},
		{"least memory", turing, 2048, 4, 1, 8, 128, 8, false, want{true, 6, 2, 1, 4}},
		{"and wide codes", turing, 11008, 8, 4, 8, 8, 2, false, want{false, 2, 3, 1, 1}},
	} {
		const declared = 896
		d := planner(t, 9, 132, c.shared, declared)
		g := &group{in: c.in, out: 4096, count: c.experts, most: mostOf{in: c.in, units: c.in / 128, widest: c.bits, unitGroups: c.groups, digitless: c.digitless}}
		r := device.Routes{Rows: tensor.New(tensor.I32, 1, c.rows*c.chosen, nil), Places: tensor.New(tensor.I32, c.rows, c.chosen, nil)}
		p, ok := d.packedPlan(g, &group{}, r)
		if got := (want{p.digits, p.warps, p.slots, p.buffers, p.together}); !ok || got != c.want || p.launch.shared+declared > c.shared {
			t.Errorf("%s: %v %+v, %d bytes of shared memory, want %+v", c.name, ok, got, p.launch.shared, c.want)
		}
	}
}
