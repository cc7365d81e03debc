package cuda

import (
	"reflect"
	"testing"

	"exl2/internal/exl2"
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

func TestScalesByTiles(t *testing.T) {
	rows := []uint32{0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12, 13, 14, 15, 16, 17} // two groups, two tiles
	want := []uint32{0, 1, 2, 3, 10, 11, 12, 13, 4, 5, 6, 7, 14, 15, 16, 17}
	if got := byTiles(rows, 8); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// GPUs with little shared memory have a packed product, too.
func TestPacking(t *testing.T) {
	const hopper, ampere, turing = 227 << 10, 99 << 10, 64 << 10
	for _, c := range []struct {
		name                      string
		shared, in, out           int
		warps, ring, copies, rows int
	}{
		{"few tiles", hopper, 4096, 4096, 16, 4608, 1, 8},
		{"many tiles", hopper, 4096, 11008, 8, 7168, 1, 8},
		{"rows that do not all fit", hopper, 28672, 8192, 16, 4608, 1, 1},
		{"little shared memory", ampere, 4096, 4096, 16, 4608, 1, 2},
		{"little of it and long rows", ampere, 28672, 8192, 8, 4352, 0, 1},
		{"less of it", turing, 4096, 4096, 8, 4352, 0, 3},
		{"none", turing, 28672, 8192, 8, 4352, 0, 0},
	} {
		d := &Device{sms: 132, shared: c.shared}
		m := &matrix{in: c.in, padded: c.out, order: tensor.Tensor{Mem: &memory{}}}
		v, rows := d.packing(m)
		if v.warps != c.warps || v.ring != c.ring || v.copies != c.copies || rows != c.rows {
			t.Errorf("%s: %d warps, %d bytes, %d copies, %d rows, want %+v", c.name, v.warps, v.ring, v.copies, rows, c)
		}
		if used := v.warps*v.ring + v.row(c.in)*(rows+v.copies); rows > 0 && used > c.shared {
			t.Errorf("%s: %d bytes of %d", c.name, used, c.shared)
		}
	}
}
