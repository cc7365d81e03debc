package cuda

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A rowMixture is a mixture of one row, or of some, which have one plan.
type rowMixture struct {
	y, x   tensor.Tensor
	to     device.Choice
	router device.Router
	device.Experts
	gate, up, down *group // gate is up where results of up are their own gates
	acts           tensor.Tensor
	whole          int // how many times as wide as the others the expert is that all rows see, where it is the last one of the groups, or 0
	first, last    rowPlan
	same           bool          // the first products are of matrices that are alike
	most           int           // units of a warp of the last kernel, an even number
	all            tensor.Tensor // what the expert of all rows has computed, or absent
	words          tensor.Tensor // what the router's kernel leaves (Left in kernels/mixture.cu)
	left           left          // for the products behind
}

// A rowPlan is how products with chosen experts are launched.
type rowPlan struct{ blocks, cluster, slots, slot, shared int }

// Mixture computes a mixture of a row whose experts are packed, or of a few: the router, and two
// kernels, whose blocks choose for themselves.
func (d *Device) Mixture(y, x tensor.Tensor, to device.Choice, r device.Router, e device.Experts) bool {
	if x.Rows == 0 {
		return false
	}
	if r.Gate.Nil() {
		to.Gates = tensor.Tensor{}
	}
	m := rowMixture{y: y, x: x, to: to, router: r, Experts: e}
	m.take(e.Groups)
	if e.Whole != nil {
		m.takeWhole()
	}
	if !d.few(&m) || !d.wholes(&m) {
		return false
	}
	if m.acts = e.Opens(); m.whole > 0 { // which has no place for it
		m.acts = d.scratch(scratchInputs, tensor.F16, x.Rows*m.runs(), pieces(m.down.in, half_elements)*half_elements).Columns(0, m.down.in)
	}
	if !m.fits() || !d.planMixture(&m) {
		return false
	}
	in, experts := x.Cols, r.W.Rows
	want(y.Rows == x.Rows && y.Cols == m.down.out && r.W.Cols == in && r.Scale.Cols == in && to.Logits.Cols == experts && m.gate.in == in && m.up.in == in &&
		m.gate.out == m.up.out && m.gate.last.out == m.up.last.out && m.down.in == m.up.out && m.down.count == experts+min(m.whole, 1) && (m.whole == 0 || m.down.last.in == m.up.last.out) && m.acts.Cols == m.down.in && e.Ups.Cols == m.down.in, "Mixture", y, x, r.W)
	if m.to.Shared() && m.whole == 0 {
		m.all = m.Each.Slice(x.Rows*m.to.Chosen(), x.Rows*(m.to.Chosen()+1))
	}
	d.linkMixture(&m)
	d.mixtureLogits(&m)
	d.mixtureGate(&m)
	d.mixtureDown(&m)
	return true
}

// take has the matrices be those of g.
func (m *rowMixture) take(g device.Groups) {
	m.up, m.down = g.Up.(*group), g.Down.(*group)
	if m.gate = m.up; g.Gate != nil {
		m.gate = g.Gate.(*group)
	}
}

// takeWhole has the expert that all rows see be one of each row's.
func (m *rowMixture) takeWhole() {
	m.take(*m.Whole)
	m.whole = m.up.last.out / m.up.out
	want(m.whole > 0 && m.up.last.out == m.whole*m.up.out && (m.whole == 1 || m.up.out%exl2_tile_columns == 0), "Mixture")
}

// mixtureLogits multiplies rows by their router, and leaves what the products behind read.
func (d *Device) mixtureLogits(m *rowMixture) {
	r, x, in := m.router, m.x, m.x.Cols
	m.words = d.scratch(scratchOrdered, tensor.I32, x.Rows, in+choice_keys_behind+choice_most_experts)
	l := routerLaunch(r, x.Rows)
	l.beside = true
	if a := r.Apart; a != nil {
		routersApart[r.W.Type](d, l, m.to.Logits, m.words, x, a.Scale, r.Scale, r.W, r.Bias, int32(r.W.Rows), int32(in), a.Norm.Eps, a.Norm.Offset)
		return
	}
	l.shared = pieces(in, half_elements) * half_elements * tensor.F16.Size()
	routersOfRows[r.W.Type][!m.ranking().Nil()](d, l, m.to.Logits, m.to.Gates, m.words, x, r.Scale, r.Shift, r.W, r.Bias, r.Gate, r.Offset, m.ranking(), int32(r.W.Rows), int32(in), flag(r.Norm.Kind == device.Layer), r.Norm.Eps, r.Norm.Offset)
}

// linkMixture has m leave the stream that it adds to for its readers.
func (d *Device) linkMixture(m *rowMixture) {
	d.added(m.y)
	if m.Reader != nil {
		m.left = d.leaves(m.y, m.Reader, m.down.tiles())
	}
}

// launch returns how so many runs of p's blocks are launched for each row.
func (p rowPlan) launch(runs, rows int) launch {
	l := launch{blocks: dim{p.blocks, runs, rows}, threads: dim{x: 32 * expert_feed_warps}, shared: p.shared, beside: true}
	if p.cluster > 1 {
		l.cluster = p.cluster
	}
	return l
}

// mixtureGate multiplies by the first matrices of the experts.
func (d *Device) mixtureGate(m *rowMixture) {
	r, n, p, a, b, c := m.router, m.router.Routing, m.first, m.gate, m.up, m.down
	l := p.launch(m.runs(), m.x.Rows)
	l.blocks.x *= p.cluster
	heads, how, act, u, times := a.alike.heads, m.choosing(), actOf(m.Unit), m.Clamp, int32(m.whole)
	switch {
	case m.same && m.gated():
		gatesAlike[how].of(m.wide()).launch(d, l, m.acts, m.words, heads, b.alike.heads, c.alike.heads, int32(a.count), int32(a.alike.chunks), int32(a.alike.groups), int32(b.alike.chunks), int32(b.alike.groups),
			a.with(b).all(), int32(a.tiles()), int32(a.in), int32(a.out), act, flag(a.biased || b.biased), int32(p.slots), int32(p.slot), int32(a.with(b).pairs()), int64(m.acts.Stride), times, u.Limit, u.Up, u.Alpha, u.Added)
		return
	case m.same:
		upsAlike[how].of(m.wide()).launch(d, l, m.acts, m.words, heads, c.alike.heads, int32(a.count), int32(a.alike.chunks), int32(a.alike.groups),
			a.most.all(), int32(a.tiles()), int32(a.in), int32(a.out), act, flag(a.biased), int32(p.slots), int32(p.slot), int32(a.most.pairs()), int64(m.acts.Stride), times, u.Limit, u.Up, u.Alpha, u.Added)
		return
	}
	gate := firstProducts[how][m.gated()].of(m.wide()).launch
	gate(d, l, m.acts, m.words, m.to.Logits, r.Correction, a.table, b.table, c.table,
		int32(r.W.Rows), int32(a.table.Cols), int32(b.table.Cols), int32(c.table.Cols), int32(a.places), int32(b.places), flag(p.cluster == 1),
		a.with(b).all(), int32(a.tiles()), int32(a.in), int32(a.out), act, int32(p.slots), int32(p.slot), int32(a.with(b).pairs()), int64(m.acts.Stride),
		int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter, times, u.Limit, u.Up, u.Alpha, u.Added)
}

// mixtureDown multiplies by the last matrices, and adds the weighted sum.
func (d *Device) mixtureDown(m *rowMixture) {
	r, n, p, g := m.router, m.router.Routing, m.last, m.down
	m.lastOf().launch(d, p.launch(g.tiles(), m.x.Rows), m.y, m.acts, m.all, m.to.Logits, m.to.Gates, r.Correction, r.Scales, g.table,
		int32(r.W.Rows), int32(m.to.Chosen()), int32(m.whole), int32(m.unitsOfWhole()), int32(g.table.Cols), int32(g.places), g.most.all(), int32(m.most), flag(g.biased), int32(g.in), int32(g.out), int32(p.slots), int32(p.slot), int32(g.most.pairs()),
		int64(m.acts.Stride), m.Scale, int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter,
		m.left.rows, m.left.squares, m.left.powers, m.left.places, m.left.scale, m.left.norm.Offset)
}
