package cuda

import (
	"reflect"
	"slices"
	"testing"

	"exl2/internal/exl2"
	"exl2/internal/half"
	"exl2/internal/tensor"
)

// Regions are runs of groups of one width and size, the last of which may be
// smaller; sizes that are no power of two stand alone.
func TestRegions(t *testing.T) {
	type group struct{ bits, blocks int }
	for _, c := range []struct {
		name   string
		groups []group
		want   []region
	}{
		{"one width", []group{{4, 4}, {4, 4}, {4, 4}}, []region{{bits: 4, blocks: 12, shift: 2}}},
		{"two widths", []group{{4, 2}, {3, 2}, {3, 2}}, []region{{bits: 4, blocks: 2, shift: 1}, {bits: 3, block: 2, blocks: 4, group: 1, shift: 1, word: 8}}},
		{"two sizes", []group{{4, 1}, {4, 2}}, []region{{bits: 4, blocks: 1}, {bits: 4, block: 1, blocks: 2, group: 1, shift: 1, word: 4}}},
		{"last group smaller", []group{{4, 4}, {4, 3}}, []region{{bits: 4, blocks: 7, shift: 2}}},
		{"smaller group in between", []group{{4, 4}, {4, 3}, {4, 4}}, []region{{bits: 4, blocks: 7, shift: 2}, {bits: 4, block: 7, blocks: 4, group: 2, shift: 2, word: 28}}},
		{"no power of two", []group{{4, 3}, {4, 3}}, []region{{bits: 4, blocks: 3, shift: noShift}, {bits: 4, block: 3, blocks: 3, group: 1, shift: noShift, word: 12}}},
	} {
		m, row, word := matrix{}, 0, 0
		for i, g := range c.groups {
			m.addGroup(i, exl2.Group{Bits: g.bits, Row: row, Rows: g.blocks * exl2.Align, Word: word})
			row, word = row+g.blocks*exl2.Align, word+g.blocks*g.bits
		}
		if !reflect.DeepEqual(m.regions, c.want) {
			t.Errorf("%s: %+v, want %+v", c.name, m.regions, c.want)
		}
	}
}

// Steps have a warp's units in order, and the last of them is known.
func TestSteps(t *testing.T) {
	const four, eight = 2<<step_first_width | step_above_two | step_above_three, 2<<step_first_width | step_wide | step_above_two | step_above_three | step_unusual
	const next = 67 | 140<<16
	m := &matrix{units128: 33, groups: 67, chunks: 140, regions: []region{{bits: 4, blocks: 34, shift: 2}, {bits: 3, block: 34, blocks: 72, place: 36, group: 9, shift: 1}, {bits: 8, block: 106, blocks: 22, place: 90, group: 45}}}
	units := make([]uint32, 45+22)
	for i := range units {
		units[i] = uint32(i) * 0x10001
	}
	for _, c := range []struct {
		warp, step int
		want       []uint32
	}{
		{0, 0, []uint32{four, 0, 0, next}},
		{0, 1, []uint32{four | step_last_step | step_unusual | 4<<step_first_block | 4<<step_first_chunk, 1 | 16<<16, 1 | 16<<16, next}},
		{4, 1, []uint32{1<<step_first_width | 34<<step_first_block | step_last_step | step_unusual | step_above_two | step_many_groups | 36<<step_first_chunk, 9 | 144<<16, 10 | 160<<16, next}},
		{15, 1, []uint32{eight | 122<<step_first_block | step_four_groups | step_many_groups | 122<<step_first_chunk, 61 | 61*16<<16, 62 | 62*16<<16, next}},
		{15, 2, []uint32{eight | 126<<step_first_block | step_four_groups | step_many_groups | step_last_step | 130<<step_first_chunk, 65 | 65*16<<16, 66 | 66*16<<16, next}},
		{3, 2, []uint32{0, 0, 0, next}},
	} {
		if got := m.steps(units)[4*(3*c.warp+c.step):][:4]; !slices.Equal(got, c.want) {
			t.Errorf("step %d of warp %d: %x, want %x", c.step, c.warp, got, c.want)
		}
	}
	none := &matrix{units128: 1, regions: []region{{bits: 5, blocks: 4, shift: 2}}}
	if got := none.steps(units)[:4]; !slices.Equal(got, []uint32{step_last_step | step_unusual, 0, 0, 0}) {
		t.Errorf("a warp without units has %x", got)
	}
}

func TestScalesByTiles(t *testing.T) {
	// Two groups, two tiles: column c of group r has code (c + r) % 16.
	const columns = 64
	rows, want := make([]uint32, 2*columns/8), []uint32(nil)
	for i := range rows {
		for k := range 8 {
			rows[i] |= uint32((i%8*8+k+i/8)%16) << (4 * k)
		}
	}
	for tile := range 2 {
		for group := range 2 {
			for g := 0; g < 8; g += 2 {
				var w uint32
				for k := range 8 {
					w |= uint32((tile*32+g+k/4+8*(k%4)+group)%16) << (4 * k)
				}
				want = append(want, w)
			}
		}
	}
	if got := byTiles(rows, columns/8); !reflect.DeepEqual(got, want) {
		t.Errorf("%x, want %x", got, want)
	}
}

// A row is of digits where there is room for four bytes an element beside the units, and else of
// halves.
func TestDigitsOrHalves(t *testing.T) {
	for _, c := range []struct {
		in, widest, groups int
		want, ordered      kernel // of a row that is put in order, and of one that lies so
	}{
		{4096, 8, 4, kernel_qmatmul_placed_wide, kernel_qmatmul_one_wide}, {11008, 4, 1, kernel_qmatmul_placed, kernel_qmatmul_one},
		{28672, 3, 1, kernel_qmatmul_placed, kernel_qmatmul_one}, {28672, 4, 1, kernel_qmatmul_placed, kernel_qmatmul_one}, {28672, 6, 1, kernel_qmatmul_placed_wide, kernel_qmatmul_one_wide},
		{28672, 6, 4, kernel_qmatmul_halves, kernel_qmatmul_halves}, {28672, 8, 1, kernel_qmatmul_halves, kernel_qmatmul_halves}, {28672, 8, 4, kernel_qmatmul_halves, kernel_qmatmul_halves},
	} {
		d := planner(t, 9, 132, 227<<10, 384)
		m := &matrix{in: c.in, padded: 8192, groups: c.in * c.groups / 128, widest: c.widest, unitGroups: c.groups, units128: c.in / 128}
		for i := range m.units128 {
			m.unitBlocks = append(m.unitBlocks, uint16(i*exl2_unit_blocks))
		}
		one := packed{list: [mostMatrices]*matrix{m}, n: 1}
		p, ok := d.plan(one.needs(d.sms), 1)
		one.ordered = true
		if q, ok := d.plan(one.needs(d.sms), 1); !ok || q.name != c.ordered {
			t.Errorf("%+v: kernel %s of a row in order", c, kernels[q.name].name)
		}
		if lanes := map[bool]int{true: (c.groups + 1) / 2, false: c.groups}[p.digits]; !ok || p.name != c.want || p.groups != lanes || p.shared+384 > 227<<10 {
			t.Errorf("%+v: kernel %s with scales of %d groups and %d bytes", c, kernels[p.name].name, p.groups, p.shared)
		}
	}
}

// A row's q, k and v, beside which others attend, have no more blocks than their busiest one needs.
func TestBlocksBeside(t *testing.T) {
	for _, c := range []struct{ tiles, sms, alone, beside int }{
		{160, 132, 132, 80}, {384, 132, 132, 128}, {192, 132, 132, 96}, {80, 132, 80, 80}, {265, 132, 132, 89}, {5, 2, 2, 2}, {1, 132, 1, 1},
	} {
		p := packed{list: [mostMatrices]*matrix{{padded: c.tiles * exl2_tile_columns}}, n: 1, x: tensor.Tensor{Rows: 1}}
		alone := p.blocks(c.sms)
		p.leaving.words = 1
		if beside := p.blocks(c.sms); alone != c.alone || beside != c.beside {
			t.Errorf("%d tiles on %d multiprocessors: %d blocks, %d beside others, want %d and %d", c.tiles, c.sms, alone, beside, c.alone, c.beside)
		}
	}
}

// GPUs with little shared memory have a packed product, too.
func TestPackedPlan(t *testing.T) {
	const hopper, ampere, turing, declared = 227 << 10, 99 << 10, 64 << 10, 1 << 10
	for _, c := range []struct {
		name                     string
		shared, in, out, rows    int
		warps, round, slots, fit int
	}{
		{"a row", hopper, 4096, 4096, 1, 16, 2, 3, 1},
		{"a long row", hopper, 11008, 4096, 1, 16, 2, 3, 1},
		{"a longer row", hopper, 28672, 4096, 1, 16, 2, 3, 1},
		{"long runs", hopper, 4096, 128256, 1, 16, 8, 3, 1},
		{"eight rows", hopper, 4096, 4096, 8, 16, 2, 2, 8},
		{"rows that do not all fit", hopper, 28672, 8192, 8, 8, 2, 1, 3},
		{"little shared memory", ampere, 4096, 4096, 8, 8, 2, 1, 7},
		{"less of it", turing, 4096, 4096, 4, 8, 2, 1, 3},
		{"none", turing, 28672, 8192, 1, 0, 0, 0, 0},
	} {
		d := planner(t, 8, 132, c.shared, declared)
		m := &matrix{in: c.in, padded: c.out, groups: c.in / 128, widest: 4, unitGroups: 1}
		n := (&packed{list: [mostMatrices]*matrix{m}, n: 1}).needs(d.sms)
		fit := d.fit(n, c.rows)
		p, _ := d.plan(n, max(fit, 1))
		if fit == 0 {
			p = packedPlan{}
		}
		if p.warps != c.warps || p.round != c.round || p.slots != c.slots || fit != c.fit {
			t.Errorf("%s: %d warps, %d tiles, %d slots, %d rows, want %+v", c.name, p.warps, p.round, p.slots, fit, c)
		}
		if p.shared+declared > c.shared {
			t.Errorf("%s: %d bytes of %d", c.name, p.shared, c.shared)
		}
	}
}

// A matrix some of whose scales would be infinite times the power of two that digits' are multiplied by is multiplied by fp16.
func TestTooLarge(t *testing.T) {
	for _, c := range []struct {
		scale float32
		bits  int
		want  bool
	}{{65504, 2, false}, {32736, 3, false}, {32768, 3, true}, {-4096, 6, true}, {1023, 8, false}, {1024, 8, true}} {
		if got := tooLarge(half.ToF16(c.scale), c.bits); got != c.want {
			t.Errorf("%v of %d bits: %v", c.scale, c.bits, got)
		}
	}
	d := planner(t, 9, 132, 227<<10, 128)
	for rows := 1; rows <= 4; rows++ {
		n := need{widest: 8, run: 1, each: 1, in: 4096, groups: 1, areas: 32, blocks: 128, most: 32}
		digits, ok := d.plan(n, rows)
		n.digitless = true
		if plan, also := d.plan(n, rows); !ok || !also || !digits.digits && !digits.areas || plan.digits || plan.areas {
			t.Errorf("%d rows: %+v, and with large scales %+v", rows, digits, plan)
		}
	}
	if list := (mostOf{in: 1}).and(mostOf{in: 1, digitless: true}); !list.digitless {
		t.Error("a group with such a matrix is not known")
	}
}
