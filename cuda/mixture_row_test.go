package cuda

import (
	"slices"
	"testing"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Blocks of a mixture of one row, or of some: of each first matrix, and of a tile of the last ones;
// and the units that a warp of each kernel asks for at once.
func TestPlanMixture(t *testing.T) {
	const hopper, ampere, turing, declared = 227 << 10, 99 << 10, 64 << 10, 6 << 10
	for _, c := range []struct {
		name                   string
		major, sms, shared     int
		rows, chosen, beside   int // blocks that a multiprocessor has room for
		hidden, width          int
		each, slots, parts, of int
		ok                     bool
	}{
		{"qwen3-30b-a3b on Hopper", 9, 132, hopper, 1, 8, 1, 2048, 768, 8, 2, 2, 2, true},
		{"two rows of it", 9, 132, hopper, 2, 8, 2, 2048, 768, 8, 2, 2, 2, true},
		{"three rows of it", 9, 132, hopper, 3, 8, 2, 2048, 768, 5, 2, 1, 2, true},
		{"four rows of it", 9, 132, hopper, 4, 8, 2, 2048, 768, 4, 2, 1, 2, true},
		{"eight rows of it", 9, 132, hopper, 8, 8, 2, 2048, 768, 2, 2, 1, 2, true},
		{"qwen3-30b-a3b on Ampere", 8, 108, ampere, 1, 8, 1, 2048, 768, 6, 2, 1, 2, true},
		{"gpt-oss-20b on Hopper", 9, 132, hopper, 1, 4, 2, 2944, 2944, 33, 2, 2, 2, true},
		{"lfm2-8b-a1b on Hopper", 9, 132, hopper, 1, 4, 1, 2048, 1792, 16, 3, 2, 2, true},
		{"mixtral-8x7b on Hopper", 9, 132, hopper, 1, 2, 2, 4096, 14336, 66, 2, 2, 1, true},
		{"two rows of it", 9, 132, hopper, 2, 2, 1, 4096, 14336, 16, 5, 1, 3, true},
		{"deepseek-v3 on Hopper", 9, 132, hopper, 1, 9, 2, 7168, 2048, 14, 1, 1, 1, true},
		{"few columns", 9, 132, hopper, 1, 4, 1, 256, 32, 1, 1, 8, 1, true},
		{"two multiprocessors", 9, 2, hopper, 1, 2, 1, 512, 1376, 1, 5, 1, 2, true},
		{"little shared memory", 7, 72, turing, 1, 8, 1, 2048, 768, 8, 1, 1, 1, true},
		{"too little", 7, 72, turing, 1, 8, 1, 4096, 14336, 0, 0, 0, 0, false},
		{"more units than lanes have", 9, 132, hopper, 1, 4, 1, 4096, 14336, 0, 0, 0, 0, false},
	} {
		d := planner(t, c.major, c.sms, c.shared, declared)
		group := func(in, out int) *group {
			return &group{in: in, out: out, most: mostOf{in: in, units: in / 128, widest: 4, unitGroups: 1}}
		}
		m := mixtureOf(c.rows, c.chosen, group(c.hidden, c.width), group(c.width, c.hidden), true)
		ok := d.planMixture(&m)
		if ok != c.ok || ok && (m.first.blocks != c.each || m.first.slots != c.slots || m.last.blocks != c.parts || m.last.slots != c.of) {
			t.Errorf("%s: %v, %+v and %+v, want %+v", c.name, ok, m.first, m.last, c)
		}
		most := max(m.first.shared, m.last.shared) + declared
		if ok && c.beside*(most+1<<10) > c.shared+1<<10 {
			t.Errorf("%s: %d and %d bytes of shared memory beside what is declared, %d such blocks of %d", c.name, m.first.shared, m.last.shared, c.beside, c.shared)
		}
	}
}

// mixtureOf is a mixture of rows with so many chosen experts each, of which up and down are the matrices, and up those of gates, too.
func mixtureOf(rows, chosen int, up, down *group, gated bool) rowMixture {
	m := rowMixture{x: tensor.New(tensor.F32, rows, up.in, nil), Experts: device.Experts{Groups: device.Groups{Up: up, Down: down}}}
	if gated {
		m.Gate = up
	}
	m.take(m.Groups)
	m.to.Rows, m.to.Places = tensor.New(tensor.I32, 1, rows*chosen, nil), tensor.New(tensor.I32, rows, chosen, nil)
	return m
}

// So many rows are a mixture by the kernels of one.
func TestFewRows(t *testing.T) {
	sigmoid := device.Routing{Score: device.Sigmoid}
	for _, c := range []struct {
		name            string
		experts, chosen int
		in, width       int
		ungated         bool
		r               device.Routing
		correction      bool
		most            int
		whole           int // experts that all rows see
	}{
		{"qwen3-30b-a3b", 128, 8, 2048, 768, false, device.Routing{}, false, 8, 0},
		{"qwen3.5-35b-a3b", 256, 8, 2048, 512, false, device.Routing{}, false, 8, 0},
		{"lfm2-8b-a1b", 32, 4, 2048, 1792, false, sigmoid, true, 8, 0},
		{"mixtral-8x7b", 8, 2, 4096, 14336, false, device.Routing{Score: device.SoftmaxTop}, false, 2, 0},
		{"gpt-oss-20b, whose last products of three rows would be six blocks behind others", 32, 4, 2880, 2880, false, device.Routing{Score: device.SoftmaxTop}, false, 2, 0},
		{"nemotron-3-nano-30b-a3b", 128, 6, 2688, 1856, true, sigmoid, true, 3, 0},
		{"groups of experts", 256, 8, 7168, 2048, false, device.Routing{Score: device.Sigmoid, Groups: 8, TopGroups: 4}, true, 3, 0},
		{"deepseek-v3", 256, 8, 7168, 2048, false, device.Routing{Score: device.Sigmoid, Groups: 8, TopGroups: 4}, true, 1, 1},
		{"ling-mini-2.0", 256, 8, 2048, 512, false, device.Routing{Score: device.Sigmoid, Groups: 8, TopGroups: 4}, true, 4, 1},
		{"ernie-4.5-21b-a3b", 64, 6, 2560, 1536, false, device.Routing{}, true, 3, 2},
		{"phi-3.5-moe", 16, 2, 4096, 6400, false, device.Routing{Score: device.SparseMixer}, false, 2, 0},
		{"all experts of one", 1, 1, 2048, 768, false, device.Routing{}, false, 8, 0},
	} {
		most, d := 0, planner(t, 9, 132, 227<<10, 6<<10)
		for rows := 1; rows <= 64; rows++ {
			m := mixtureOf(rows, c.chosen, &group{in: c.in, out: c.width}, &group{in: c.width, out: c.in}, !c.ungated)
			m.whole = c.whole
			m.router = device.Router{W: tensor.New(tensor.F16, c.experts, c.in, nil), Routing: c.r}
			if c.correction {
				m.router.Correction = tensor.New(tensor.F32, 1, c.experts, &memory{size: 4 * c.experts})
			}
			if d.few(&m) {
				most = rows
			}
		}
		if most != c.most {
			t.Errorf("%s: up to %d rows, want %d", c.name, most, c.most)
		}
	}
}

// The expert that all rows see is one of a row's while blocks of the first products have something to do.
func TestWholes(t *testing.T) {
	d := planner(t, 9, 132, 227<<10, 6<<10)
	for _, c := range []struct {
		name          string
		chosen, times int
		width         int
		ungated       bool
		not           []int // rows
	}{
		{"qwen3.5-35b-a3b", 8, 1, 512, false, []int{8}},
		{"granite-4.0-h-tiny", 6, 2, 512, false, nil},
		{"nemotron-3-nano-30b-a3b", 6, 2, 1856, true, nil},
		{"few columns", 8, 1, 32, false, nil},
	} {
		for rows := 1; rows <= 8; rows++ {
			m := mixtureOf(rows, c.chosen, &group{in: 2048, out: c.width}, &group{in: c.width, out: 2048}, !c.ungated)
			m.whole = c.times
			if got, want := d.wholes(&m), !slices.Contains(c.not, rows); got != want {
				t.Errorf("%s, %d rows: %v, want %v", c.name, rows, got, want)
			}
		}
	}
}
