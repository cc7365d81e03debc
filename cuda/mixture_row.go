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
	m := rowMixture{y: y, x: x, to: to, router: r, Experts: e, up: e.Up.(*group), down: e.Down.(*group)}
	if m.gate, m.acts = m.up, e.Ups; m.gated() {
		m.gate, m.acts = e.Gate.(*group), e.Gates
	}
	if !m.few() || !m.fits() || !d.planMixture(&m) {
		return false
	}
	in, experts := x.Cols, r.W.Rows
	want(y.Rows == x.Rows && y.Cols == m.down.out && r.W.Cols == in && r.Scale.Cols == in && to.Logits.Cols == experts && m.gate.in == in && m.up.in == in &&
		m.gate.out == m.up.out && m.down.in == m.up.out && m.down.count == experts && m.acts.Cols == m.down.in && e.Ups.Cols == m.down.in, "Mixture", y, x, r.W)
	if m.to.Shared() {
		m.all = m.Each.Slice(x.Rows*m.to.Chosen(), x.Rows*(m.to.Chosen()+1))
	}
	d.linkMixture(&m)
	d.mixtureLogits(&m)
	d.mixtureGate(&m)
	d.mixtureDown(&m)
	return true
}

// mixtureLogits multiplies rows by their router, and leaves what the products behind read.
func (d *Device) mixtureLogits(m *rowMixture) {
	r, x, in := m.router, m.x, m.x.Cols
	m.words = d.scratch(scratchOrdered, tensor.I32, x.Rows, in+choice_keys_behind+choice_most_experts)
	l := routerLaunch(r, x.Rows)
	l.shared, l.beside = pieces(in, half_elements)*half_elements*tensor.F16.Size(), true
	routersOfRows[r.W.Type][!m.ranking().Nil()](d, l, m.to.Logits, m.to.Gates, m.words, x, r.Scale, r.Shift, r.W, r.Bias, r.Gate, r.Offset, m.ranking(), int32(r.W.Rows), int32(in), flag(r.Norm.Kind == device.Layer), r.Norm.Eps, r.Norm.Offset)
	d.mixes = true
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
	l := p.launch(m.to.Chosen(), m.x.Rows)
	l.blocks.x *= p.cluster
	heads, how := a.alike.heads, m.choosing()
	switch {
	case m.same && m.gated():
		gatesAlike[how].launch(d, l, m.acts, m.words, heads, b.alike.heads, c.alike.heads, int32(r.W.Rows), int32(a.alike.chunks), int32(a.alike.groups), int32(b.alike.chunks), int32(b.alike.groups),
			a.with(b).all(), int32(a.tiles()), int32(a.in), int32(a.out), int32(m.Act), flag(a.biased || b.biased), int32(p.slots), int32(p.slot), int32(a.with(b).pairs()), int64(m.acts.Stride))
		return
	case m.same:
		upsAlike[how].launch(d, l, m.acts, m.words, heads, c.alike.heads, int32(r.W.Rows), int32(a.alike.chunks), int32(a.alike.groups),
			a.most.all(), int32(a.tiles()), int32(a.in), int32(a.out), int32(m.Act), flag(a.biased), int32(p.slots), int32(p.slot), int32(a.most.pairs()), int64(m.acts.Stride))
		return
	}
	gate := firstProducts[how][m.gated()].launch
	gate(d, l, m.acts, m.words, m.to.Logits, r.Correction, a.table, b.table, c.table,
		int32(r.W.Rows), int32(a.table.Cols), int32(b.table.Cols), int32(c.table.Cols), int32(a.places), int32(b.places), flag(p.cluster == 1),
		a.with(b).all(), int32(a.tiles()), int32(a.in), int32(a.out), int32(m.Act), int32(p.slots), int32(p.slot), int32(a.with(b).pairs()), int64(m.acts.Stride),
		int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter)
}

// mixtureDown multiplies by the last matrices, and adds the weighted sum.
func (d *Device) mixtureDown(m *rowMixture) {
	chosen := m.to.Chosen()
	r, n, p, g := m.router, m.router.Routing, m.last, m.down
	m.lastKernel().launch(d, p.launch(g.tiles(), m.x.Rows), m.y, m.acts, m.all, m.to.Logits, m.to.Gates, r.Correction, g.table,
		int32(r.W.Rows), int32(chosen), int32(g.table.Cols), int32(g.places), g.most.all(), int32(m.most), flag(g.biased), int32(g.in), int32(g.out), int32(p.slots), int32(p.slot), int32(g.most.pairs()),
		int64(m.acts.Stride), m.Scale, int32(n.Score), int32(n.Groups), int32(n.TopGroups), flag(n.GroupMax), flag(n.Renorm), n.RenormEps, n.Scale, n.Jitter,
		m.left.rows, m.left.squares, m.left.powers, m.left.places, m.left.scale, m.left.norm.Offset)
}
