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
		together.add(e)
	}
	var shared []Site // that read the norm, too
	if x.shared != nil {
		e := x.shared.of(get)
		first, last := e.sites(Normed, SharedGate, SharedUp, SharedActed, SharedOut)
		shared, act.Sites = []Site{first}, append(act.Sites, last)
		together.shared = &e
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

// everyRow computes what an expert's last matrix would read if every row of the
// pass came to it, in memory that is free once the experts' units are computed.
func (x *mixture) everyRow(s *State, e expert) tensor.Tensor {
	in := x.reads(s)
	up, gate := s.At(ExpertUp).Slice(0, in.Rows), tensor.Tensor{}
	y := up
	e.up.W.mul(s.Dev, up, in, e.up.Bias)
	if e.gate != nil {
		gate = s.At(ExpertGate).Slice(0, in.Rows)
		e.gate.W.mul(s.Dev, gate, in, e.gate.Bias)
		y = gate
	}
	x.apply(s.Dev, y, gate, up)
	return y
}

// read norms the stream, chooses experts, and sorts rows by them.
func (x *mixture) read(s *State) {
	x.choose(s)
	s.Dev.Gather(s.At(ExpertIn), x.weigh(s), s.Routes().Rows)
}

// reads returns what experts read of all rows, once it has been weighed.
func (x *mixture) reads(s *State) tensor.Tensor {
	if x.early {
		return s.At(Weighted)
	}
	return s.At(x.in)
}

// weigh multiplies rows by the weights of their experts, where these come early, and returns reads.
// The place of the expert that all rows see, which has not computed yet, is a row's own.
func (x *mixture) weigh(s *State) tensor.Tensor {
	if !x.early {
		return s.At(x.in)
	}
	d, r, sum := s.Dev, s.Routes(), s.At(Mixture)
	d.Copy(s.At(SharedOut), s.At(Normed))
	d.Clear(sum)
	d.Combine(sum, s.At(ExpertOut), r.Places.Columns(1, 2), r.Weights.Columns(0, 1), 1)
	d.Copy(s.At(Weighted), sum)
	return s.At(Weighted)
}

// weights returns what multiplies the experts' outputs, nothing where that came early.
func (x *mixture) weights(s *State) tensor.Tensor {
	if x.early {
		return tensor.Tensor{}
	}
	return s.At(Weights)
}

// choose leaves in the state which experts see which rows, and what these read.
func (x *mixture) choose(s *State) {
	if x.apart != nil {
		x.chooseApart(s)
		return
	}
	d := s.Dev
	if r, ok := x.router(); ok && s.follow == nil {
		d.Choose(s.choice(), s.At(Normed), s.At(Residual), r)
		s.first = nil
		return
	}
	x.input.run(s)
	if x.takes(s) {
		return
	}
	x.scores.W.mul(d, s.At(Scores), s.At(Normed), x.scores.Bias)
	gate := tensor.Tensor{}
	if x.gate != nil {
		gate = s.At(SharedScores)
		x.gate.W.mul(d, gate, s.At(Normed), x.gate.Bias)
	}
	d.Route(s.Routes(), s.At(Scores), x.correction, gate, x.routing)
	s.first = nil
}

// router returns the norm, the router and the gate as one, if there is a norm and they
// are dense, of one type.
func (x *mixture) router() (r device.Router, ok bool) {
	n := x.input.norm
	if x.apart != nil {
		n = x.apart.router
	}
	w, ok := x.scores.W.(Dense)
	if !ok || n.none() {
		return r, false
	}
	r = device.Router{Norm: n.Norm, Scale: n.W, Shift: n.Bias, W: w.Tensor, Bias: x.scores.Bias, Correction: x.correction, Routing: x.routing}
	if x.gate == nil {
		return r, true
	}
	gate, ok := x.gate.W.(Dense)
	r.Gate, r.Offset = gate.Tensor, x.gate.Bias
	return r, ok && gate.Type == w.Type
}

// takes has the state take the choice of another, if it follows one.
func (x *mixture) takes(s *State) bool {
	if s.follow == nil {
		return false
	}
	if s.follow != s {
		for _, slot := range []Slot{Order, Choice, First, Places, Weights} {
			s.Dev.Copy(s.At(slot), s.follow.At(slot))
		}
	}
	s.first = s.follow.first
	return true
}

// act is the units of all experts.
func (x *mixture) act(s *State) {
	x.apply(s.Dev, s.At(ExpertActed), s.At(ExpertGate), s.At(ExpertUp))
	if x.shared != nil {
		x.sharedUnit.apply(s.Dev, s.At(SharedActed), s.At(SharedGate), s.At(SharedUp))
	}
}

// add adds the weighted sum of the experts' outputs to the stream.
func (x *mixture) add(s *State) {
	if x.apart != nil {
		x.addApart(s)
		return
	}
	x.sum(s, func(y tensor.Tensor, scale float32) {
		s.Dev.Combine(y, s.At(ExpertOut), s.At(Places), x.weights(s), scale)
	})
}

// sum adds to the stream what into adds to y, scaled, in the end.
func (x *mixture) sum(s *State, into func(y tensor.Tensor, scale float32)) {
	if x.out.norm.none() {
		into(s.At(Residual), x.out.residual)
		return
	}
	d, sum := s.Dev, s.At(Mixture)
	d.Clear(sum)
	into(sum, 1)
	d.Copy(s.At(Out), sum)
	x.out.add(s)
}

// addBack spreads the gradient of the sum over the experts' outputs. Where it is
// normalized, Mixture is what was.
func (x *mixture) addBack(s, g *State, _ []tensor.Tensor) {
	if x.apart != nil {
		x.addApartBack(s, g)
		return
	}
	if x.out.norm.none() {
		backward(g).CombineBack(g.At(ExpertOut), g.At(Residual), s.At(Places), x.weights(s), x.out.residual)
		return
	}
	x.out.addBack(s, g, []tensor.Tensor{s.At(Mixture)})
	backward(g).CombineBack(g.At(ExpertOut), g.At(Out), s.At(Places), x.weights(s), 1)
	g.Dev.Clear(g.At(Out))
}

func (x *mixture) actBack(s, g *State, kept []tensor.Tensor) {
	x.unit.back(s, g, kept, ExpertActed, ExpertGate, ExpertUp)
	if x.shared != nil {
		x.sharedUnit.back(s, g, kept[min(1, len(kept)):], SharedActed, SharedGate, SharedUp)
	}
}

// readBack adds up what the experts of each row have read.
func (x *mixture) readBack(s, g *State, kept []tensor.Tensor) {
	weights, r := tensor.Tensor{}, s.Routes()
	if x.early {
		weights = r.Weights.Columns(0, 1)
	}
	g.Dev.Combine(g.At(x.in), g.At(ExpertIn), r.Places.Columns(0, r.Chosen()), weights, 1)
	x.input.back(s, g, kept)
	g.Dev.Clear(g.At(Normed))
	if x.apart != nil {
		x.apart.in.back(g, ExpertNormed, Residual, kept[0])
		g.Dev.Clear(g.At(ExpertNormed))
	}
}
