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

// Rows in order for one group are so for another if the order of each expert's matrix is known, and the same. Where it is not known, as of matrices that are
// assembled on the GPU, many rows of an expert are grouped all the same, as long as there is an order for them.
func TestArranged(t *testing.T) {
	d := planner(t, 9, 132, 227<<10, 896)
	d.target = "sm_90a"
	of := func(shuffled bool, orders ...uint64) *group {
		return &group{in: 2048, count: len(orders), orders: orders, unshuffled: !shuffled, most: mostOf{in: 2048, units: 16, widest: 4, unitGroups: 1}}
	}
	known, dense := of(true, 3, 5), of(true, 3, 5)
	dense.denseTable = d.Alloc(tensor.I32, 2, 4)
	unknown := of(true, 0, 0)
	for _, c := range []struct {
		name string
		a, b *group
		want bool
	}{
		{"as known", known, of(true, 3, 5), true},
		{"one of another order", known, of(true, 3, 7), false},
		{"not known", unknown, of(true, 0, 0), false},
		{"not known, but the same group", unknown, unknown, true},
		{"some dense", known, dense, false},
		{"nothing", known, &group{}, false},
	} {
		if got := c.a.arranged(c.b); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	r := device.Routes{Rows: tensor.New(tensor.I32, 1, 40, nil), Places: tensor.New(tensor.I32, 20, 2, nil)}
	for _, c := range []struct {
		name string
		g    *group
		want bool
	}{{"known", known, true}, {"not known", unknown, true}, {"no order for many", of(false, 3, 5), false}, {"some dense", dense, false}} {
		if _, got := d.seesMany(r, c.g); got != c.want {
			t.Errorf("%s: many are grouped: %v", c.name, got)
		}
	}
}
