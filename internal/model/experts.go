package model

import (
	"math"

	"exl2/internal/tensor"
)

// experts makes a mixture of experts: the norm, the choice of experts for every
// row, rows sorted by expert, which the experts' first matrices read; their units,
// which the last ones read; the weighted sum. An expert that all rows see works
// beside them.
func (b *builder) experts(m *Module) {
	n, e := b.Spec.Names, b.Spec.MoE
	x := &mixture{input: b.input(m, NormMLPIn), out: b.output(m, NormMLPOut), unit: b.unit(), router: b.router(m)}
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
	m.Waits, m.active, m.assemble = true, float64(e.TopK)/float64(e.Experts), x.steps
	m.Steps = x.steps(m, same)
}

// mixture is what a mixture of experts has beside its sites.
type mixture struct {
	*input
	router
	unit
	out    *output
	scores *Linear // the router
	each   []expert
	shared *expert
	gate   *Linear // of the shared expert, or nil
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
func (x *mixture) steps(_ *Module, get func(*Linear) *Linear) []Step {
	read, act := Step{Run: x.read}, Step{Run: x.act}
	add := func(first, last Site) {
		read.Sites, act.Sites = append(read.Sites, first), append(act.Sites, last)
	}
	for i, e := range x.each {
		e := e.of(get)
		first, last := e.sites(ExpertIn, ExpertGate, ExpertUp, ExpertActed, ExpertOut)
		first.Routed, first.Expert, first.All = true, i, func(s *State) tensor.Tensor { return s.At(Normed) }
		last.Routed, last.Expert, last.All = true, i, func(s *State) tensor.Tensor { return x.everyRow(s, e) }
		add(first, last)
	}
	if x.shared != nil {
		add(x.shared.of(get).sites(Normed, SharedGate, SharedUp, SharedActed, Out))
	}
	read.Back, read.Keep = x.readBack, []Slot{Stream}
	act.Back, act.Keep = x.actBack, x.keeps(ExpertGate)
	if x.shared != nil {
		act.Keep = x.keeps(ExpertGate, SharedGate)
	}
	return []Step{read, act, {Run: x.add, Back: x.addBack}}
}

// of returns the expert made of what get makes of its linears.
func (e expert) of(get func(*Linear) *Linear) expert {
	out := expert{up: get(e.up), down: get(e.down)}
	if e.gate != nil {
		out.gate = get(e.gate)
	}
	return out
}

func (b *builder) router(m *Module) router {
	r := router{MoE: b.Spec.MoE}
	if r.Routing.Correction {
		r.correction = b.floats(b.Spec.Names.Layer(m.Layer, b.Spec.Names.Correction), 1, r.Experts)
	}
	return r
}

// everyRow computes what an expert's last matrix would read if every row of the
// pass came to it, in memory that is free once the experts' units are computed.
func (x *mixture) everyRow(s *State, e expert) tensor.Tensor {
	in := s.At(Normed)
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

// read norms the stream, chooses experts, on the host, and sorts rows by them.
func (x *mixture) read(s *State) {
	d := s.Dev
	x.input.run(s)
	x.scores.W.mul(d, s.At(Scores), s.At(Normed), x.scores.Bias)
	if x.gate != nil {
		x.gate.W.mul(d, s.At(SharedWeights), s.At(Normed), x.gate.Bias)
		x.open(s)
	}
	s.Route = s.follow
	if s.Route == nil {
		s.Route = x.route(download(s, Scores))
	}
	upload(d, s.At(Order), s.Route.Rows)
	upload(d, s.At(Places), s.Route.Places)
	d.Upload(s.At(Weights), tensor.BytesOf(s.Route.Weights))
	order := s.At(Order)
	d.Gather(s.At(ExpertIn), s.At(Normed), order.Reshape(1, order.Rows))
}

// open turns the gate of the shared expert into its weight.
func (x *mixture) open(s *State) {
	w := download(s, SharedWeights)
	for i, v := range w {
		w[i] = float32(1 / (1 + math.Exp(-float64(v))))
	}
	s.Dev.Upload(s.At(SharedWeights), tensor.BytesOf(w))
	same := make([]int32, len(w))
	for i := range same {
		same[i] = int32(i)
	}
	upload(s.Dev, s.At(SharedPlaces), same)
}

// act is the units of all experts.
func (x *mixture) act(s *State) {
	x.apply(s.Dev, s.At(ExpertActed), s.At(ExpertGate), s.At(ExpertUp))
	if x.shared != nil {
		x.apply(s.Dev, s.At(SharedActed), s.At(SharedGate), s.At(SharedUp))
	}
}

// add adds the weighted sum of the experts' outputs to the stream.
func (x *mixture) add(s *State) {
	d, sum := s.Dev, s.At(Mixture)
	d.Clear(sum)
	d.Combine(sum, s.At(ExpertOut), s.At(Places), s.At(Weights))
	switch {
	case x.gate != nil:
		d.Combine(sum, s.At(Out), s.At(SharedPlaces), s.At(SharedWeights))
	case x.shared != nil:
		d.AddScaled(sum, s.At(Out), 1)
	}
	if x.out.norm.none() {
		d.AddScaled(s.At(Stream), sum, x.out.residual)
		return
	}
	d.Copy(s.At(Out), sum)
	x.out.add(s)
}

// addBack spreads the gradient of the sum over the experts' outputs. Where it is
// normalized, Mixture is what was.
func (x *mixture) addBack(s, g *State, _ []tensor.Tensor) {
	d, sum := g.Dev, g.At(Mixture)
	x.out.addBack(s, g, []tensor.Tensor{s.At(Mixture)})
	d.Copy(sum, g.At(Out))
	d.Clear(g.At(Out))
	order, weights := s.At(Order), make([]float32, len(s.Route.Rows))
	for i, at := range s.Route.Places {
		weights[at] = s.Route.Weights[i]
	}
	each := d.Alloc(tensor.F32, order.Rows, sum.Cols)
	defer d.Free(each)
	d.Gather(each, sum, order.Reshape(1, order.Rows))
	weighted(g, g.At(ExpertOut), each, weights)
	switch {
	case x.gate != nil:
		d.Combine(g.At(Out), sum, s.At(SharedPlaces), s.At(SharedWeights))
	case x.shared != nil:
		d.AddScaled(g.At(Out), sum, 1)
	}
}

// weighted adds rows times their weights.
func weighted(g *State, y, x tensor.Tensor, weights []float32) {
	d := g.Dev
	places, list := d.Alloc(tensor.I32, x.Rows, 1), d.Alloc(tensor.F32, x.Rows, 1)
	defer d.Free(places)
	defer d.Free(list)
	same := make([]int32, x.Rows)
	for i := range same {
		same[i] = int32(i)
	}
	upload(d, places, same)
	d.Upload(list, tensor.BytesOf(weights))
	d.Combine(y, x, places, list)
}

func (x *mixture) actBack(s, g *State, kept []tensor.Tensor) {
	x.unit.back(s, g, kept, ExpertActed, ExpertGate, ExpertUp)
	if x.shared != nil {
		x.unit.back(s, g, kept[min(1, len(kept)):], SharedActed, SharedGate, SharedUp)
	}
}

// readBack adds up what the experts of each row have read.
func (x *mixture) readBack(s, g *State, kept []tensor.Tensor) {
	ones := make([]float32, len(s.Route.Places))
	for i := range ones {
		ones[i] = 1
	}
	d, places := g.Dev, s.At(Places)
	weights := d.Alloc(tensor.F32, places.Rows, places.Cols)
	defer d.Free(weights)
	d.Upload(weights, tensor.BytesOf(ones))
	d.Combine(g.At(Normed), g.At(ExpertIn), places, weights)
	x.input.back(s, g, kept)
	d.Clear(g.At(Normed))
}

// download brings a slot of F32 to the host.
func download(s *State, slot Slot) []float32 {
	t := s.At(slot)
	v := make([]float32, t.Rows*t.Cols)
	s.Dev.Download(tensor.BytesOf(v), t)
	return v
}
