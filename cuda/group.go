package cuda

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// group is matrices of one shape, as a table of where they are (Matrix in
// kernels/expert.cuh and kernels/gemv_group.cu).
type group struct {
	in, out, count int
	biased         bool
	most           mostOf                       // of packed matrices, of a last one of another size but what a unit is
	last           struct{ in, out, units int } // of the last packed matrix
	dense          tensor.Type                  // of those that are not packed
	table          tensor.Tensor                // I32 [count, words]: a Matrix, and regions and places of units behind it; absent if none is packed
	orders         []uint64                     // of packed matrices, in which they take x; 0 is unknown
	divided        []uint64                     // as orders, of how they are divided into units, too
	places         int                          // where in a row of the table places of units are, in words
	denseTable     tensor.Tensor                // I32 [count, words]: a Matrix; absent if all are packed
	alike          alikeTable
}

// alikeTable is Alike of kernels/expert_alike.cuh of packed matrices, which may all be divided into units alike.
type alikeTable struct {
	heads          tensor.Tensor // where they are; units behind them are of those that are alike
	same           bool          // they are
	chunks, groups int
}

// mostOf is the most that packed matrices of some inputs have.
type mostOf struct {
	in, units, widest, unitGroups int
	differ                        bool // not all have so many units
	digitless                     bool // one is
}

func (a mostOf) and(b mostOf) mostOf {
	differ := a.differ || b.differ || a.units > 0 && b.units != a.units
	return mostOf{max(a.in, b.in), max(a.units, b.units), max(a.widest, b.widest), max(a.unitGroups, b.unitGroups), differ, a.digitless || b.digitless}
}

// all returns how many units each has, or 0 if they differ.
func (a mostOf) all() int32 {
	if a.differ {
		return 0
	}
	return int32(a.units)
}

// pairs returns of how many pairs of groups a unit is, where one group is a pair.
func (a mostOf) pairs() int { return (a.unitGroups + 1) / 2 }

// with returns what is the most in two groups.
func (g *group) with(h *group) mostOf { return g.most.and(h.most) }

func (g *group) In() int  { return g.in }
func (g *group) Out() int { return g.out }
func (g *group) Len() int { return g.count }

// tiles returns how many blocks a row's product with a packed matrix takes.
func (g *group) tiles() int { return pieces(g.out, exl2_tile_columns) }

// ragged reports whether the last matrix has another size.
func (g *group) ragged() bool { return !g.table.Nil() && (g.last.in != g.in || g.last.out != g.out) }

// packed reports whether all matrices are.
func (g *group) packed() bool { return g.denseTable.Nil() }

// ordered reports whether rows that are in order for g are so for h: of each expert, that has to be known.
func (g *group) ordered(h *group) bool { return g.agree(h, g.orders, h.orders) }

// arranged reports whether they are so by units, too.
func (g *group) arranged(h *group) bool { return g.agree(h, g.divided, h.divided) }

func (g *group) agree(h *group, own, others []uint64) bool {
	return g == h || g.packed() && h.packed() && slices.Equal(own, others) && !slices.Contains(own, 0)
}

// Group makes the table of a list.
func (d *Device) Group(list []device.Matrix, dense, biases []tensor.Tensor) device.Group {
	g := &group{count: max(len(list), len(dense)), biased: len(biases) > 0}
	want(len(biases) == 0 || len(biases) == g.count, "Group", biases...)
	packed, places, others, some := make([][]uint64, g.count), make([][]uint64, g.count), make([][]uint64, g.count), 0
	for i := range g.count {
		bias := tensor.Tensor{}
		if len(biases) > 0 {
			bias = biases[i]
		}
		if len(list) > 0 && list[i] != nil {
			packed[i], places[i] = g.packedEntry(d, list[i].(*matrix), bias, i)
			some++
		} else {
			others[i] = g.denseEntry(d, dense[i], bias, some == i)
			want(bias.Nil() || bias.Cols == g.out, "Group", bias)
		}
	}
	if some > 0 {
		g.places = 2 * pad(packed, 2) // at 16 bytes
		for i := range packed {
			packed[i] = append(packed[i], places[i]...)
		}
		pad(packed, 16) // whole lines of the cache
		g.table = g.load(d, packed)
		if some == g.count {
			g.loadAlike(d, list, packed)
		}
	}
	if some < g.count {
		pad(others, 1)
		g.denseTable = g.load(d, others)
	}
	return g
}

// loadAlike makes the table of matrices that may be alike, given their entries.
func (g *group) loadAlike(d *Device, list []device.Matrix, entries [][]uint64) {
	const headWords = expert_alike_head_bytes / 8
	first, same := list[0].(*matrix), true
	places := first.placesOfUnits()
	var table []uint64
	for i, m := range list {
		m := m.(*matrix)
		same = same && m.chunks == first.chunks && m.groups == first.groups && slices.EqualFunc(m.placesOfUnits(), places, slices.Equal)
		table = append(table, entries[i][:headWords]...)
	}
	for _, p := range places {
		chunk, packed := p[0], p[1]
		table = append(table, uint64(packed)|uint64(chunk*4*exl2_chunk_words)<<32, uint64(packed>>20)*16) // scales of a group are 16 bytes
	}
	if d.err == nil {
		g.alike = alikeTable{load(d, tensor.I32, 1, 2*len(table), table), same, first.chunks, first.groups}
	}
}

// pad adds zeros to entries, so that all are as long as the longest, in multiples of
// unit, and returns the length.
func pad(table [][]uint64, unit int) (long int) {
	for _, entry := range table {
		long = max(long, pieces(len(entry), unit)*unit)
	}
	for i, entry := range table {
		table[i] = append(entry, make([]uint64, long-len(entry))...)
	}
	return long
}

// load uploads entries of one length.
func (g *group) load(d *Device, table [][]uint64) tensor.Tensor {
	if d.err != nil {
		return tensor.Tensor{}
	}
	return load(d, tensor.I32, g.count, 2*len(table[0]), slices.Concat(table...))
}

// packedEntry is a Matrix of kernels/expert.cuh and its regions, and places is those of
// its units.
func (g *group) packedEntry(d *Device, m *matrix, bias tensor.Tensor, i int) (entry, places []uint64) {
	if i == 0 {
		g.in, g.out = m.in, m.out
	}
	most, alike := mostOf{m.in, m.units128, m.widest, m.unitGroups, false, m.digitless}, m.in == g.in && m.out == g.out
	want((alike || i == g.count-1) && !m.order.Nil() && (bias.Nil() || bias.Cols == m.out), "Group", m.words)
	if !alike {
		most.in, most.units = g.most.in, g.most.units
	}
	g.orders, g.divided = append(g.orders, m.sorted), append(g.divided, m.arranged())
	g.most, g.last.in, g.last.out, g.last.units = g.most.and(most), m.in, m.out, m.units128
	for _, t := range []tensor.Tensor{m.words, m.scales, m.units, m.order, m.places, bias} {
		entry = append(entry, d.addressOrNull(t))
	}
	pair := func(low, high int) uint64 { return uint64(uint32(low)) | uint64(uint32(high))<<32 }
	entry = append(entry, pair(len(m.regions), m.chunks), pair(m.groups, 0), pair(m.units128, 0), 0)
	for _, r := range m.regions {
		entry = append(entry, pair(r.bits, r.block), pair(r.blocks, r.place), pair(r.group, r.shift), 0)
	}
	for _, p := range m.placesOfUnits() {
		places = append(places, pair(int(p[0]), int(p[1])))
	}
	return entry, places
}

// denseEntry is a Matrix of kernels/gemv_group.cu.
func (g *group) denseEntry(d *Device, w, bias tensor.Tensor, first bool) []uint64 {
	if first { // of these
		want(g.out == 0 || w.Cols == g.in && w.Rows == g.out, "Group", w)
		g.in, g.out, g.dense = w.Cols, w.Rows, w.Type
	}
	want(w.Cols == g.in && w.Rows == g.out && w.Type == g.dense && w.Dense(), "Group", w)
	return []uint64{d.addressOrNull(w), d.addressOrNull(bias)}
}

// addressOrNull returns where a tensor begins, 0 for an absent one.
func (d *Device) addressOrNull(t tensor.Tensor) uint64 {
	if t.Nil() {
		return 0
	}
	return uint64(d.address("Group", t))
}

// GroupsAffine is false: grouped products know the codes of EXL2 alone.
func (d *Device) GroupsAffine() bool { return false }

// FreeGroup frees the tables.
func (d *Device) FreeGroup(g device.Group) {
	d.Free(g.(*group).table)
	d.Free(g.(*group).denseTable)
	d.Free(g.(*group).alike.heads)
}

// groupsOf returns groups as this device has them.
func groupsOf(list []device.Group) (groups []*group) {
	for _, g := range list {
		groups = append(groups, g.(*group))
	}
	return groups
}

// GroupMul multiplies rows by the matrices of their experts.
func (d *Device) GroupMul(ys []tensor.Tensor, x, rows tensor.Tensor, groups []device.Group, r device.Routes) {
	n := r.Rows.Cols
	want(len(ys) == len(groups) && (rows.Nil() && x.Rows == n || rows.Cols == n), "GroupMul", x, rows)
	if n == 0 {
		return
	}
	var packed []tensor.Tensor
	var tables []*group
	for i, of := range groups {
		g := of.(*group)
		want(ys[i].Rows == n && ys[i].Cols == g.out && x.Cols == g.in && g.count == r.First.Cols-1 && !g.ragged(), "GroupMul", ys[i], x)
		if !g.table.Nil() {
			packed, tables = append(packed, ys[i]), append(tables, g)
		}
		if !g.denseTable.Nil() {
			d.denseGroup(ys[i], x, rows, g, r)
		}
	}
	many := len(packed) == len(groups) && atSixteenBytes(x) && d.seesMany(r, tables...)
	for len(packed) > 0 {
		k := min(2, len(packed))
		last := k - 1
		if many {
			d.manyGroups(packed[0], packed[last], groupInput{x: x, rows: rows}, tables[0], tables[last], r)
		} else {
			d.packedGroups(packed[:k], x, rows, tables[:k], &group{}, r)
		}
		packed, tables = packed[k:], tables[k:]
	}
}

var denseGroups = map[tensor.Type]func(d *Device, l launch, y, x, table, rows, experts, first tensor.Tensor, n, k int32, ldy, ldx int64){
	tensor.F16: (*Device).gemv_group_f16, tensor.BF16: (*Device).gemv_group_bf16, tensor.F32: (*Device).gemv_group_f32,
}

func (d *Device) denseGroup(y, x, rows tensor.Tensor, g *group, r device.Routes) {
	multiply := pick("GroupMul", denseGroups, g.dense, y, x)
	l := launch{blocks: dim{x: pieces(g.out, gemv_group_warps), y: y.Rows}, threads: dim{x: 32 * gemv_group_warps}}
	multiply(d, l, y, x, g.denseTable, rows, r.Experts, r.First, int32(g.out), int32(g.in), int64(y.Stride), int64(x.Stride))
}
