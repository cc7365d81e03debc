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
	read, act := Step{Run: x.read}, Step{Run: x.act}
	for i := range e.Experts {
		first, last := x.expert(b, m, i)
		read.Sites, act.Sites = append(read.Sites, first), append(act.Sites, last)
	}
	if e.Shared > 0 {
		first, last := x.sharedExpert(b, m)
		read.Sites, act.Sites = append(read.Sites, first), append(act.Sites, last)
	}
	m.Steps = []Step{read, act, {Run: x.add}}
	m.Waits, m.active = true, float64(e.TopK)/float64(e.Experts)
}

// mixture is what a mixture of experts has beside its linears.
type mixture struct {
	*input
	router
	unit
	out    *output
	scores *Linear // the router
	shared bool
	gate   *Linear // of the shared expert, or nil
}

func (b *builder) router(m *Module) router {
	r := router{MoE: b.Spec.MoE}
	if r.Routing.Correction {
		r.correction = b.floats(b.Spec.Names.Layer(m.Layer, b.Spec.Names.Correction), 1, r.Experts)
	}
	return r
}

// expert returns what expert i reads first, and last.
func (x *mixture) expert(b *builder, m *Module, i int) (first, last Site) {
	n := b.Spec.Names
	up, down := b.expertLinear(m, n.ExpertUp, i), b.expertLinear(m, n.ExpertDown, i)
	first = Site{Reads: ExpertIn, Linears: []*Linear{up}, Writes: []Slot{ExpertUp}}
	if !x.ungated {
		first.Linears, first.Writes = []*Linear{b.expertLinear(m, n.ExpertGate, i), up}, []Slot{ExpertGate, ExpertUp}
	}
	last = Site{Reads: ExpertActed, Linears: []*Linear{down}, Writes: []Slot{ExpertOut}}
	for _, s := range []*Site{&first, &last} {
		s.Routed, s.Expert = true, i
	}
	linears := first.Linears
	first.All = func(s *State) tensor.Tensor { return s.At(Normed) }
	last.All = func(s *State) tensor.Tensor { return x.everyRow(s, linears) }
	return first, last
}

// everyRow computes what an expert's last matrix would read if every row of the
// pass came to it, in memory that is free once the experts' units are computed.
func (x *mixture) everyRow(s *State, linears []*Linear) tensor.Tensor {
	in := s.At(Normed)
	up := s.At(ExpertUp).Slice(0, in.Rows)
	outs, y := []tensor.Tensor{up}, up
	if !x.ungated {
		y = s.At(ExpertGate).Slice(0, in.Rows)
		outs = []tensor.Tensor{y, up}
	}
	for i, l := range linears {
		l.W.mul(s.Dev, outs[i], in, l.Bias)
	}
	x.apply(s.Dev, y, outs[0], up)
	return y
}

// sharedExpert returns what the expert that all rows see reads first, and last.
func (x *mixture) sharedExpert(b *builder, m *Module) (first, last Site) {
	n := b.Spec.Names
	x.shared = true
	if b.Spec.MoE.SharedGated {
		x.gate = b.linear(m, n.SharedRouter)
		m.fixed = append(m.fixed, x.gate)
	}
	up, down := b.linear(m, n.SharedUp), b.linear(m, n.SharedDown)
	first = Site{Reads: Normed, Linears: []*Linear{up}, Writes: []Slot{SharedUp}}
	if !x.ungated {
		first.Linears, first.Writes = []*Linear{b.linear(m, n.SharedGate), up}, []Slot{SharedGate, SharedUp}
	}
	return first, Site{Reads: SharedActed, Linears: []*Linear{down}, Writes: []Slot{Out}}
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
	if x.shared {
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
	case x.shared:
		d.AddScaled(sum, s.At(Out), 1)
	}
	if x.out.norm.none() {
		d.AddScaled(s.At(Stream), sum, x.out.residual)
		return
	}
	d.Copy(s.At(Out), sum)
	x.out.add(s)
}

// download brings a slot of F32 to the host.
func download(s *State, slot Slot) []float32 {
	t := s.At(slot)
	v := make([]float32, t.Rows*t.Cols)
	s.Dev.Download(tensor.BytesOf(v), t)
	return v
}
