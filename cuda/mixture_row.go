package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

type logitsFunc func(d *Device, l launch, logits, gateLogits, words, x, scale, shift, w, bias, gate, gateBias tensor.Tensor,
	count, k, centred int32, eps, offset float32)

// routersOfARow are kernels by the type of the router.
var routersOfARow = map[tensor.Type]logitsFunc{
	tensor.F16: (*Device).choose_logits_f16, tensor.BF16: (*Device).choose_logits_bf16, tensor.F32: (*Device).choose_logits_f32,
}

// A rowMixture is a mixture of one row, or of some, which have one plan.
type rowMixture struct {
	y, x   tensor.Tensor
	to     device.Choice
	router device.Router
	device.Experts
	gate, up, down *group
	first, last    rowPlan
	same           bool          // mixture_gate_alike makes the first products
	most           int           // units of a warp of the last kernel, an even number
	all            tensor.Tensor // what the expert of all rows has computed, or absent
	words          tensor.Tensor // what the router's kernel leaves (Left in kernels/mixture.cu)
	left           left          // for the products behind
}

// A rowPlan is how products with chosen experts are launched.
type rowPlan struct{ blocks, cluster, slots, slot, shared int }

// mixtureRows returns of how many rows each is a mixture by itself, one after the other: two cost as much as two of one when they go together, and three,
// too, where they hardly see the same experts; but where up is computed twice, one.
func mixtureRows(e device.Experts, chosen int) int {
	switch {
	case e.Gate == nil:
		return 1
	case 16*chosen <= e.Up.Len():
		return 3
	}
	return 2
}

// Mixture computes a mixture of one row whose experts are packed: the router, and two
// kernels, whose blocks choose for themselves. Few rows are as many of those. Results of up that are their own gates are computed twice.
func (d *Device) Mixture(y, x tensor.Tensor, to device.Choice, r device.Router, e device.Experts) bool {
	if x.Rows == 0 || x.Rows > mixtureRows(e, to.Chosen()) {
		return false
	}
	if e.Gate == nil {
		e.Gate, e.Gates = e.Up, e.Ups
	}
	m := rowMixture{y: y, x: x, to: to, router: r, Experts: e, gate: e.Gate.(*group), up: e.Up.(*group), down: e.Down.(*group)}
	if !m.fits() || !d.planMixture(&m) {
		return false
	}
	in, experts := x.Cols, r.W.Rows
	want(y.Rows == x.Rows && y.Cols == m.down.out && r.W.Cols == in && r.Scale.Cols == in && to.Logits.Cols == experts && m.gate.in == in && m.up.in == in &&
		m.gate.out == m.up.out && m.down.in == m.up.out && m.down.count == experts && e.Gates.Cols == m.down.in && e.Ups.Cols == m.down.in, "Mixture", y, x, r.W)
	d.linkMixture(&m)
	for i := range x.Rows {
		row := m.row(i)
		d.mix(&row)
	}
	return true
}

// row is row i by itself.
func (m *rowMixture) row(i int) rowMixture {
	one, rows, chosen := *m, m.x.Rows, m.to.Chosen()
	one.y, one.x, one.left = m.y.Slice(i, i+1), m.x.Slice(i, i+1), m.left.row(i)
	one.Gates, one.Ups = m.Gates.Slice(i*chosen, (i+1)*chosen), m.Ups.Slice(i*chosen, (i+1)*chosen)
	if m.to.Shared() {
		one.all = m.Each.Slice(rows*chosen+i, rows*chosen+i+1)
	}
	one.to = device.Choice{Routes: device.Routes{Rows: m.to.Rows.Columns(i*chosen, (i+1)*chosen), Places: m.to.Places.Slice(i, i+1)}, Logits: m.to.Logits.Slice(i, i+1)}
	if !m.router.Gate.Nil() {
		one.to.Gates = m.to.Gates.Slice(i, i+1)
	}
	return one
}

// mix computes m, of one row.
func (d *Device) mix(m *rowMixture) {
	r, x, in := m.router, m.x, m.x.Cols
	m.words = d.scratch(scratchOrdered, tensor.I32, 1, in+choice_keys_behind+choice_ranked)
	l := routerLaunch(r, 1)
	l.shared, l.beside = pieces(in, half_elements)*half_elements*tensor.F16.Size(), true
	routersOfARow[r.W.Type](d, l, m.to.Logits, m.to.Gates, m.words, x, r.Scale, r.Shift, r.W, r.Bias, r.Gate, r.Offset, int32(r.W.Rows), int32(in), flag(r.Norm.Kind == device.Layer), r.Norm.Eps, r.Norm.Offset)
	d.mixes = true
	d.mixtureGate(m)
	d.mixtureDown(m)
}

// linkMixture has m leave the stream that it adds to for its readers.
func (d *Device) linkMixture(m *rowMixture) {
	d.added(m.y)
	if m.Reader != nil {
		m.left = d.leaves(m.y, m.Reader, m.down.tiles())
	}
}

// fits reports whether the kernels can do m.
func (m *rowMixture) fits() bool {
	r, chosen := m.router, m.to.Chosen()
	_, known := routersOfARow[r.W.Type]
	return known && m.x.Type == tensor.F32 && !m.gate.most.digitless && !m.up.most.digitless && !m.down.most.digitless && m.gate.packed() && m.up.packed() && m.down.packed() && (r.Gate.Nil() || r.Gate.Type == r.W.Type) &&
		r.W.Rows <= choice_most_experts && chosen <= route_most_groups && r.Routing.Groups <= route_most_groups && atSixteenBytes(m.Gates) && atSixteenBytes(m.Ups) &&
		m.x.Cols%half_elements == 0 && atSixteenBytes(m.x) && atSixteenBytes(r.W) && atSixteenBytes(r.Gate) && atSixteenBytes(r.Scale) && atSixteenBytes(r.Shift)
}

// plain reports whether experts are chosen by their logits alone, and there are not many.
func (m *rowMixture) plain() bool {
	r, n := m.router, m.router.Routing
	return r.W.Rows <= choice_ranked && r.Correction.Nil() && n.Groups <= 1 && n.Score != device.SparseMixer
}

// planMixture plans the products of m, and reports whether there is room for them.
func (d *Device) planMixture(m *rowMixture) bool {
	chosen, tiles, ok := m.to.Chosen(), m.gate.tiles(), false
	for each := max(1, min(tiles, d.sms/(2*chosen))); !ok && each <= tiles; each *= 2 {
		ok = d.planFirst(m, each)
	}
	if !ok {
		return false
	}
	parts := 1
	for d.major >= 9 && parts < mixture_stage_most_blocks && 2*parts*m.down.tiles() <= d.sms {
		parts *= 2
	}
	units := pieces(chosen*m.down.most.units, parts*expert_feed_warps)
	m.most = pieces(units, 2) * 2
	rows := expert_feed_warps * m.most // of so many units
	m.last, ok = d.planRow(kernel_mixture_down_any, m.down.most, units, (mixture_last_zero_words+rows*mixture_last_unit_words+pieces(rows, 32)*32)*tensor.I32.Size())
	m.last.blocks, m.last.cluster = parts, parts
	return ok
}

// alike reports whether the first products are those of matrices that are alike, of so many tiles of a block.
func (m *rowMixture) alike(run int) bool {
	const lanes = 32
	n := m.gate.with(m.up)
	return m.plain() && !n.differ && pieces(n.units*run, expert_feed_warps) <= lanes && !m.gate.alike.heads.Nil() && !m.up.alike.heads.Nil() && !m.down.alike.heads.Nil()
}

// planFirst plans the first products, so many blocks a matrix, of both matrices each where there are
// no clusters.
func (d *Device) planFirst(m *rowMixture, each int) (ok bool) {
	const sums = expert_feed_warps * exl2_tile_columns
	n, run, cluster, matrices := m.gate.with(m.up), pieces(m.gate.tiles(), each), 1, 2
	if d.major >= 9 {
		cluster, matrices = 2, 1
	}
	beside := n.in*tensor.I32.Size() + digitRow(n.in) + run*(matrices*sums+exl2_tile_columns)*tensor.F32.Size()
	// half of a warp's units at a time: the first is multiplied as soon as the row is in order
	k := kernel_mixture_gate_any
	if m.same = cluster > 1 && m.alike(run); m.same {
		k = kernel_mixture_gate_alike
	}
	m.first, ok = d.planRow(k, n, pieces(n.units*run, 2*expert_feed_warps), beside)
	if cluster > 1 { // a multiprocessor has room for one block, and for one of the last kernel's
		m.first.shared = max(m.first.shared, d.sharedFor(k)/2)
	}
	m.first.blocks, m.first.cluster = each, cluster
	return ok
}

// planRow has so many of a warp's units on their way at once, or as many as a kernel has room for
// beside other things.
func (d *Device) planRow(k kernel, n mostOf, units, beside int) (p rowPlan, ok bool) {
	const ranking = 2 * 4 * choice_most_experts
	p = rowPlan{slots: min(expert_feed_most_slots, max(units, 1)), slot: 4*exl2_chunk_words*n.widest + 128*3*n.pairs()}
	for ; p.slots > 0; p.slots-- {
		p.shared = beside + max(expert_feed_warps*p.slots*p.slot, ranking)
		if p.shared <= d.sharedFor(k) {
			return p, true
		}
	}
	return p, false
}

// launch returns how so many runs of p's blocks are launched.
func (p rowPlan) launch(runs int) launch {
	l := launch{blocks: dim{x: runs * p.blocks}, threads: dim{x: 32 * expert_feed_warps}, shared: p.shared, beside: true}
	if p.cluster > 1 {
		l.cluster = p.cluster
	}
	return l
}

// mixtureGate multiplies by the first matrices of the experts.
func (d *Device) mixtureGate(m *rowMixture) {
	r, n, p, a, b, c := m.router, m.router.Routing, m.first, m.gate, m.up, m.down
	gate := (*Device).mixture_gate
	if !m.plain() {
		gate = (*Device).mixture_gate_any
	}
	l := p.launch(p.cluster * m.to.Chosen())
	if m.same {
		d.mixture_gate_alike(l, m.Gates, m.words, a.alike.heads, b.alike.heads, c.alike.heads, int32(r.W.Rows), int32(a.alike.chunks), int32(a.alike.groups), int32(b.alike.chunks), int32(b.alike.groups),
			int32(p.blocks), a.with(b).all(), int32(a.tiles()), int32(a.in), int32(a.out), int32(m.Act), flag(a.biased || b.biased), int32(p.slots), int32(p.slot), int32(a.with(b).pairs()), int64(m.Gates.Stride))
		return
	}
	gate(d, l, m.Gates, m.words, m.to.Logits, r.Correction, a.table, b.table, c.table,
		int32(r.W.Rows), int32(m.to.Chosen()), int32(a.table.Cols), int32(b.table.Cols), int32(c.table.Cols), int32(a.places), int32(b.places), int32(p.blocks), flag(p.cluster == 1),
		a.with(b).all(), int32(a.tiles()), int32(a.in), int32(a.out), int32(m.Act), int32(p.slots), int32(p.slot), int32(a.with(b).pairs()), int64(m.Gates.Stride),
		int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter)
}

// mixtureDown multiplies by the last matrices, and adds the weighted sum.
func (d *Device) mixtureDown(m *rowMixture) {
	chosen := m.to.Chosen()
	r, n, p, g := m.router, m.router.Routing, m.last, m.down
	down := (*Device).mixture_down
	if !m.plain() {
		down = (*Device).mixture_down_any
	}
	down(d, p.launch(g.tiles()), m.y, m.Gates, m.all, m.to.Logits, m.to.Gates, r.Correction, g.table,
		int32(r.W.Rows), int32(chosen), int32(g.table.Cols), int32(g.places), int32(p.blocks), g.most.all(), int32(m.most), flag(g.biased), int32(g.in), int32(g.out), int32(p.slots), int32(p.slot), int32(g.most.pairs()),
		int64(m.Gates.Stride), m.Scale, int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter,
		m.left.rows, m.left.squares, m.left.powers, m.left.places, m.left.scale, m.left.norm.Offset)
}
