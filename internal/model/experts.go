package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// experts makes a mixture of experts: the norm, the choice of experts for every
// row, rows sorted by expert, which the experts' first matrices read; their units,
// which the last ones read; the weighted sum. An expert that all rows see works
// beside them.
func (b *builder) experts(m *Module) {
	x := b.mixture(m, b.input(m, NormMLPIn))
	m.assemble = x.steps
	m.Steps = x.steps(m, same)
}

// mixture loads a mixture of experts, behind a norm.
func (b *builder) mixture(m *Module, in *input) *mixture {
	n, e := b.Spec.Names, b.Spec.MoE
	x := &mixture{input: in, out: b.output(m, NormMLPOut), unit: b.expertUnit(m), sharedUnit: b.unit(m), routing: e.Routing.Routing, early: e.Early}
	x.out.residual *= orOne(e.Scale)
	if v, ok := m.Vector(n, n.Correction); ok && e.Routing.Correction {
		x.correction = b.own(m, b.numbers(v))
	}
	switch x.in = Normed; {
	case e.Apart:
		x.in, x.apart = ExpertNormed, b.apart(m)
	case e.Latent > 0:
		x.in, x.latent = ExpertSource, &latentExperts{b.linear(m, n.LatentIn), b.linear(m, n.LatentOut)}
	}
	x.scores = b.linear(m, n.Router)
	m.fixed = append(m.fixed, x.scores)
	for i := range e.Experts {
		x.each = append(x.each, b.expert(m, i, n.ExpertGate, n.ExpertUp, n.ExpertDown))
	}
	if e.Shared > 0 {
		shared := b.expert(m, 0, n.SharedGate, n.SharedUp, n.SharedDown)
		x.shared = &shared
	}
	if e.SharedGated {
		x.gate = b.linear(m, n.SharedRouter)
		m.fixed = append(m.fixed, x.gate)
	}
	m.active = float64(e.TopK) / float64(e.Experts)
	return x
}

// mixture is what a mixture of experts has beside its sites.
type mixture struct {
	*input
	unit
	sharedUnit unit
	routing    device.Routing
	correction tensor.Tensor  // F32 [1, experts], or absent
	in         Slot           // what the chosen experts read
	apart      *apart         // norms of their own, or nil
	latent     *latentExperts // projections around them, or nil
	early      bool           // weights multiply what experts read
	inner      bool           // attention of the same module adds to the stream behind it
	out        *output
	scores     *Linear // the router
	each       []expert
	shared     *expert
	gate       *Linear // of the shared expert, or nil
}

// An expert is the matrices of an MLP; gate is nil where it has none.
type expert struct{ gate, up, down *Linear }

func (b *builder) expert(m *Module, i int, gate, up, down string) expert {
	e := expert{up: b.expertLinear(m, up, i), down: b.expertLinear(m, down, i)}
	if !b.Spec.MLP.Ungated {
		e.gate = b.expertLinear(m, gate, i)
	}
	return e
}

// sites returns what an expert reads first, and last, with its outputs in slots.
func (e expert) sites(in, gate, up, acted, out Slot) (first, last Site) {
	first = Site{Reads: in, Linears: []*Linear{e.up}, Writes: []Slot{up}}
	if e.gate != nil {
		first.Linears, first.Writes = []*Linear{e.gate, e.up}, []Slot{gate, up}
	}
	return first, Site{Reads: acted, Linears: []*Linear{e.down}, Writes: []Slot{out}}
}

// steps makes the steps of a module.
func (x *mixture) steps(m *Module, get func(*Linear) *Linear) []Step {
	list, together := x.made(m, get)
	m.whole = func(s *State) bool {
		if !together.runs(s) {
			return false
		}
		together.run(s)
		return true
	}
	return list
}

// made makes the steps, and the mixture at once, which m frees.
func (x *mixture) made(m *Module, get func(*Linear) *Linear) ([]Step, *grouped) {
	read, act := Step{Run: x.read}, Step{Run: x.act}
	add := func(first, last Site) {
		read.Sites, act.Sites = append(read.Sites, first), append(act.Sites, last)
	}
	together := &grouped{mixture: x, module: m}
	for i, e := range x.each {
		e := e.of(get)
		first, last := e.sites(ExpertIn, ExpertGate, ExpertUp, ExpertActed, ExpertOut)
		first.Routed, first.Expert, first.All = true, i, x.reads
		last.Routed, last.Expert, last.All = true, i, func(s *State) tensor.Tensor { return x.everyRow(s, e) }
		add(first, last)
		together.matrices.add(e)
		together.whole.add(e)
	}
	var shared []Site // that read the norm, too
	if x.shared != nil {
		e := x.shared.of(get)
		first, last := e.sites(Normed, SharedGate, SharedUp, SharedActed, SharedOut)
		shared, act.Sites = []Site{first}, append(act.Sites, last)
		together.shared = &e
		together.whole.add(e)
	}
	read.Back, read.Keep = x.readBack, []Slot{Residual}
	act.Back, act.Keep = x.actBack, x.keeps(ExpertGate)
	if x.shared != nil {
		act.Keep = x.keeps(ExpertGate, SharedGate)
	}
	m.onFree = append(m.onFree, together.free)
	m.waits = func() bool { return !together.possible(m.dev) }
	if x.latent != nil {
		together.latent = x.latent.of(get)
		return x.projected(together.latent, shared, read, act), together
	}
	read.Sites = append(read.Sites, shared...)
	return []Step{read, act, {Run: x.add, Back: x.addBack}}, together
}

// of returns the expert made of what get makes of its linears.
func (e expert) of(get func(*Linear) *Linear) expert {
	out := expert{up: get(e.up), down: get(e.down)}
	if e.gate != nil {
		out.gate = get(e.gate)
	}
	return out
}
