package cuda

import (
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Blocks of a mixture of one row: of each first matrix, and of a tile of the last ones;
// and the units that a warp of each kernel asks for at once.
func TestPlanMixture(t *testing.T) {
	const hopper, ampere, turing, declared = 227 << 10, 99 << 10, 64 << 10, 6 << 10
	for _, c := range []struct {
		name                   string
		major, sms, shared     int
		hidden, width, chosen  int
		each, slots, parts, of int
		ok                     bool
	}{
		{"qwen3-30b-a3b on Hopper", 9, 132, hopper, 2048, 768, 8, 8, 2, 2, 2, true},
		{"qwen3-30b-a3b on Ampere", 8, 108, ampere, 2048, 768, 8, 6, 2, 1, 2, true},
		{"mixtral-8x7b on Hopper", 9, 132, hopper, 4096, 14336, 2, 33, 5, 1, 3, true},
		{"few columns", 9, 132, hopper, 256, 32, 4, 1, 1, 8, 1, true},
		{"two multiprocessors", 9, 2, hopper, 512, 1376, 2, 1, 5, 1, 2, true},
		{"little shared memory", 7, 72, turing, 2048, 768, 8, 8, 1, 1, 1, true},
		{"too little", 7, 72, turing, 4096, 14336, 8, 0, 0, 0, 0, false},
		{"more units than lanes have", 9, 132, hopper, 4096, 14336, 4, 0, 0, 0, 0, false},
	} {
		d := planner(t, c.major, c.sms, c.shared, declared)
		group := func(in, out int) *group {
			return &group{in: in, out: out, most: mostOf{in: in, units: in / 128, widest: 4, unitGroups: 1}}
		}
		places := tensor.New(tensor.I32, 1, c.chosen, nil)
		m := rowMixture{gate: group(c.hidden, c.width), up: group(c.hidden, c.width), down: group(c.width, c.hidden),
			to: device.Choice{Routes: device.Routes{Places: places, Rows: places}}}
		ok := d.planMixture(&m)
		if ok != c.ok || ok && (m.first.blocks != c.each || m.first.slots != c.slots || m.last.blocks != c.parts || m.last.slots != c.of) {
			t.Errorf("%s: %v, %+v and %+v, want %+v", c.name, ok, m.first, m.last, c)
		}
		if ok && max(m.first.shared, m.last.shared)+declared > c.shared {
			t.Errorf("%s: %d and %d bytes of shared memory beside what is declared, of %d", c.name, m.first.shared, m.last.shared, c.shared)
		}
	}
}
