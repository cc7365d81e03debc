package cuda

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// few reports whether rows are so few that experts are read for each anew sooner than for all at once, as kernels of several rows do (group_packed.go), which
// take longer to begin. What is read more than once, or could be while blocks of down wait for others, was measured (docs/performance.md, "A few rows by the
// kernels of one"); blocks that have to choose experts for themselves are slower, and matrices without gates have less to read.
func (d *Device) few(m *rowMixture) bool {
	const most, mostUngated, mostChoosing = 8, 3, 4                      // rows
	const mostAnew, mostAnewApart, mostAnewChoosing = 128e6, 64e6, 100e6 // weights
	rows, chosen, experts := m.x.Rows, m.to.Chosen(), m.router.W.Rows
	if rows == 1 || !m.gated() && m.plain() {
		return rows <= mostUngated
	}
	seen := float64(experts)*(1-math.Pow(1-float64(chosen)/float64(experts), float64(rows))) + float64(m.whole)
	runs := float64(rows * m.runs())
	matrices := float64(m.matrices()+1)*(runs-seen) + runs*d.waste(rows*m.down.tiles())
	anew := matrices * float64(m.up.in*m.up.out)
	switch {
	case !m.plain():
		return rows <= mostChoosing && anew <= mostAnewChoosing
	case m.router.Apart != nil:
		return rows <= most && anew <= mostAnewApart
	}
	return rows <= most && anew <= mostAnew
}

// waste returns what multiprocessors that have nothing to do could do beside so many blocks, two each at once, as a share of what these do.
func (d *Device) waste(blocks int) float64 {
	places := 2 * d.sms
	if blocks <= places {
		return 0
	}
	return float64(pieces(blocks, places)*places)/float64(blocks) - 1
}

// wholes reports whether blocks of the first products leave no more than two fifths of the places for them idle, where the expert that all rows see is one of a row's.
func (d *Device) wholes(m *rowMixture) bool {
	beside := d.beside(m)
	blocks := d.blocksOf(m, beside)
	return m.whole == 0 || blocks == m.gate.tiles() || 5*blocks*m.matrices()*m.runs()*m.x.Rows >= 3*beside*d.sms
}

// blocksOf returns how many blocks a first matrix has, of so many blocks a multiprocessor.
func (d *Device) blocksOf(m *rowMixture, beside int) int {
	return max(1, min(m.gate.tiles(), beside*d.sms/m.x.Rows/(m.matrices()*m.runs())))
}

// unitsOfDown returns how many units a tile of a row's last products has.
func (m *rowMixture) unitsOfDown() int {
	return m.to.Chosen()*m.down.most.units + m.unitsOfWhole()
}

// unitsOfWhole returns how many of them the expert has that all rows see, if it is one of a row's.
func (m *rowMixture) unitsOfWhole() int {
	if m.whole == 0 {
		return 0
	}
	return m.down.last.units
}

// fits reports whether the kernels can do m.
func (m *rowMixture) fits() bool {
	r, chosen := m.router, m.to.Chosen()
	_, known := routersOfRows[r.W.Type]
	for _, t := range []tensor.Tensor{m.x, m.y, m.to.Logits, m.to.Gates, m.Each} { // rows lie one behind the other
		known = known && (m.x.Rows == 1 || t.Nil() || t.Stride == t.Cols)
	}
	if a := r.Apart; a != nil {
		known = known && m.plain() && r.Correction.Nil() && r.Gate.Nil() && linkable(r.Norm, r.Shift) && linkable(a.Norm, tensor.Tensor{}) && r.Norm.Offset == 0 && r.Norm.Eps == a.Norm.Eps && atSixteenBytes(a.Scale)
	}
	return known && m.x.Type == tensor.F32 && !m.gate.most.digitless && !m.up.most.digitless && !m.down.most.digitless && m.gate.packed() && m.up.packed() && m.down.packed() && (r.Gate.Nil() || r.Gate.Type == r.W.Type) &&
		r.W.Rows <= choice_most_experts && chosen <= route_most_groups && r.Routing.Groups <= route_most_groups && atSixteenBytes(m.acts) &&
		m.x.Cols%half_elements == 0 && atSixteenBytes(m.x) && atSixteenBytes(r.W) && atSixteenBytes(r.Gate) && atSixteenBytes(r.Scale) && atSixteenBytes(r.Shift)
}

// runs returns how many experts a row has, that all rows see where that is among them as many as it has the width of.
func (m *rowMixture) runs() int { return m.to.Chosen() + m.whole }

// gated reports whether results of up have gates.
func (m *rowMixture) gated() bool { return m.Gate != nil }

// plain reports whether the router's kernel leaves what experts are chosen by.
func (m *rowMixture) plain() bool {
	r, n := m.router, m.router.Routing
	return n.Groups <= 1 && (r.Correction.Nil() && n.Score != device.SparseMixer || n.Score == device.Sigmoid)
}

// A choosing is how blocks choose their expert (Choosing of kernels/mixture_first.cuh).
type choosing int

const (
	byKey choosing = iota
	byKeys
	byAny
)

func (m *rowMixture) choosing() choosing {
	switch {
	case !m.plain():
		return byAny
	case m.router.W.Rows > choice_ranked:
		return byKeys
	}
	return byKey
}

// ranking is what is added to scores to choose by them, where the router's kernel does so.
func (m *rowMixture) ranking() (correction tensor.Tensor) {
	if m.plain() {
		correction = m.router.Correction
	}
	return correction
}

// planMixture plans the products of m, and reports whether there is room for them.
func (d *Device) planMixture(m *rowMixture) bool {
	beside := d.beside(m)
	return d.planBlocks(m, beside) || beside > 1 && d.planBlocks(m, 1)
}

// beside returns how many blocks a multiprocessor is to have: two of some rows, and of one row where there are clusters and the last products have work for
// so many; else one, with room for one of the next kernel (docs/performance.md, "Two blocks of one row").
func (d *Device) beside(m *rowMixture) int {
	tiles := m.down.tiles()
	if m.x.Rows > 1 || d.major >= 9 && 2*tiles > d.sms && tiles <= 2*d.sms {
		return 2
	}
	return 1
}

// matrices returns how many matrices of an expert the first products have.
func (m *rowMixture) matrices() int {
	if m.gated() {
		return 2
	}
	return 1
}

// planBlocks plans them with so many blocks a multiprocessor.
func (d *Device) planBlocks(m *rowMixture, beside int) bool {
	places, tiles, ok := beside*d.sms/m.x.Rows, m.gate.tiles(), false
	for each := d.blocksOf(m, beside); !ok && each <= tiles; each *= 2 {
		ok = d.planFirst(m, each, beside)
	}
	if !ok {
		return false
	}
	parts := 1
	for d.major >= 9 && parts < mixture_stage_most_blocks && 2*parts*m.down.tiles() <= places {
		parts *= 2
	}
	units := pieces(m.unitsOfDown(), parts*expert_feed_warps)
	m.most = pieces(units, 2) * 2
	m.last, ok = d.planLast(m, beside, units)
	if least, fits := d.planLast(m, 2, units); d.major >= 9 && fits && least.slots > 1 && 3*least.slots >= 2*m.last.slots { // it has room beside one of the first
		m.last = least
	}
	m.last.blocks, m.last.cluster = parts, parts
	return ok
}

// planLast plans the last products, of so many blocks a multiprocessor, whose warps have so many units.
func (d *Device) planLast(m *rowMixture, beside, units int) (p rowPlan, ok bool) {
	rows := expert_feed_warps * m.most
	return d.planRow(m.lastOf().kernel, beside, m.down.most, units, (mixture_last_zero_words+rows*mixture_last_unit_words+pieces(rows, 32)*32)*tensor.I32.Size())
}

// alike reports whether the first products are those of matrices that are alike, of so many tiles of a block.
func (m *rowMixture) alike(run int) bool {
	const lanes = 32
	n := m.gate.with(m.up)
	return m.plain() && !n.differ && pieces(n.units*run, expert_feed_warps) <= lanes && m.gate.alike.same && m.up.alike.same
}

// planFirst plans the first products, so many blocks a matrix, of both matrices each where there are
// no clusters, and so many a multiprocessor.
func (d *Device) planFirst(m *rowMixture, each, blocks int) (ok bool) {
	const sums = expert_feed_warps * exl2_tile_columns
	n, run, cluster, matrices := m.gate.with(m.up), pieces(m.gate.tiles(), each), 1, m.matrices()
	if d.major >= 9 {
		cluster, matrices = matrices, 1
	}
	beside := n.in*tensor.I32.Size() + digitRow(n.in) + run*(matrices*sums+exl2_tile_columns)*tensor.F32.Size()
	// half of a warp's units at a time: the first is multiplied as soon as the row is in order
	m.same = d.major >= 9 && m.alike(run)
	k := m.firstKernel()
	m.first, ok = d.planRow(k, blocks, n, pieces(n.units*run, 2*expert_feed_warps), beside)
	if d.major >= 9 && blocks == 1 { // a multiprocessor has room for one block, and for one of the last kernel's
		m.first.shared = max(m.first.shared, d.sharedFor(k)/2)
	}
	m.first.blocks, m.first.cluster = each, cluster
	return ok
}

// planRow has, in each of so many blocks of a multiprocessor, so many of a warp's units on their way at once, or as many as a kernel has room for
// beside other things.
func (d *Device) planRow(k kernel, blocks int, n mostOf, units, beside int) (p rowPlan, ok bool) {
	const ranking = 2 * 4 * choice_most_experts
	room := d.sharedOf(k, blocks)
	p = rowPlan{slots: min(expert_feed_most_slots, max(units, 1)), slot: 4*exl2_chunk_words*n.widest + 128*3*n.pairs()}
	for ; p.slots > 0; p.slots-- {
		p.shared = beside + max(expert_feed_warps*p.slots*p.slot, ranking)
		if p.shared <= room {
			return p, true
		}
	}
	return p, false
}
