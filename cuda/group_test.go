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
// assembled on the GPU, many rows of an expert are grouped all the same.
func TestArranged(t *testing.T) {
	d := planner(t, 9, 132, 227<<10, 896)
	d.target = "sm_90a"
	of := func(orders ...uint64) *group {
		return &group{in: 2048, count: len(orders), orders: orders, divided: orders, most: mostOf{in: 2048, units: 16, widest: 4, unitGroups: 1}}
	}
	known, dense, divided := of(3, 5), of(3, 5), of(3, 5)
	divided.divided = []uint64{3, 6}
	dense.denseTable = d.Alloc(tensor.I32, 2, 4)
	unknown := of(0, 0)
	for _, c := range []struct {
		name              string
		a, b              *group
		ordered, arranged bool
	}{
		{"as known", known, of(3, 5), true, true},
		{"one of another order", known, of(3, 7), false, false},
		{"one of other units", known, divided, true, false},
		{"not known", unknown, of(0, 0), false, false},
		{"not known, but the same group", unknown, unknown, true, true},
		{"some dense", known, dense, false, false},
		{"nothing", known, &group{}, false, false},
	} {
		if ordered, arranged := c.a.ordered(c.b), c.a.arranged(c.b); ordered != c.ordered || arranged != c.arranged {
			t.Errorf("%s: ordered %v, arranged %v", c.name, ordered, arranged)
		}
	}
	r := device.Routes{Rows: tensor.New(tensor.I32, 1, 40, nil), Places: tensor.New(tensor.I32, 20, 2, nil)}
	for _, c := range []struct {
		name string
		g    *group
		want bool
	}{{"known", known, true}, {"not known", unknown, true}, {"some dense", dense, false}} {
		if got := d.seesMany(r, c.g); got != c.want {
			t.Errorf("%s: many are grouped: %v", c.name, got)
		}
	}
}

// Units of many rows of experts have room for three of the largest set, of any width and as many experts as there are, in what a GPU has; where there is less, as on a
// GPU of 99 KB, they are multiplied eight rows at a time.
func TestGroupRing(t *testing.T) {
	for _, c := range []struct {
		name            string
		shared          int
		experts, widest int
		want            bool
	}{
		{"of 4 bits", 227 << 10, 128, 4, true},
		{"of 8 bits", 227 << 10, 128, 8, true},
		{"of 8 bits, 512 experts", 227 << 10, 512, 8, true},
		{"as many experts as leave no room", 227 << 10, 4096, 8, false},
		{"a GPU of less", 99 << 10, 8, 2, false},
	} {
		d := planner(t, 9, 132, c.shared, 128)
		d.target = "sm_90a"
		g := &group{in: 2048, count: c.experts, most: mostOf{in: 2048, units: 16, widest: c.widest, unitGroups: 1}}
		ring, ok := d.groupRing(g, g)
		if unit := 4*32*2*128 + 8*512*c.widest; ok != c.want || ok && (ring.bytes < 3*unit || ring.bytes%512 != 0 || ring.shared+128 > c.shared) {
			t.Errorf("%s: %v, %+v", c.name, ok, ring)
		}
	}
}
