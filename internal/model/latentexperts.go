package model

import "exl2/internal/tensor"

// latentExperts are the projections in front of the chosen experts and behind their sum (arch.MoE.Latent).
type latentExperts struct{ in, out *Linear }

func (l *latentExperts) of(get func(*Linear) *Linear) *latentExperts {
	return &latentExperts{get(l.in), get(l.out)}
}

// projected makes the steps of a mixture between projections: read and act are those of its experts, shared the site
// of the expert that all rows see.
func (x *mixture) projected(l *latentExperts, shared []Site, read, act Step) []Step {
	first := Step{Run: x.choose, Back: x.input.back, Keep: read.Keep, Sites: append([]Site{{Reads: Normed, Linears: []*Linear{l.in}, Writes: []Slot{ExpertSource}}}, shared...)}
	read.Run, read.Back, read.Keep = x.gather, x.gatherBack, nil
	sum := Step{Run: x.sumLatents, Back: x.sumLatentsBack, Sites: []Site{{Reads: LatentMixed, Linears: []*Linear{l.out}, Writes: []Slot{Out}}}}
	return []Step{first, read, act, sum, {Run: x.addLatents, Back: x.addLatentsBack}}
}

// gather sorts rows of what experts read by experts.
func (x *mixture) gather(s *State) { s.Dev.Gather(s.At(ExpertIn), s.At(x.in), s.Routes().Rows) }

func (x *mixture) gatherBack(s, g *State, _ []tensor.Tensor) {
	g.Dev.Combine(g.At(x.in), g.At(ExpertIn), s.Routes().Places, tensor.Tensor{}, 1)
}

// sumLatents leaves the weighted sum of what experts give.
func (x *mixture) sumLatents(s *State) {
	d, sum := s.Dev, s.At(Mixture)
	d.Clear(sum)
	d.Combine(sum, s.At(ExpertOut), s.At(Places), s.At(Weights), 1)
	d.Copy(s.At(LatentMixed), sum)
}

func (x *mixture) sumLatentsBack(s, g *State, _ []tensor.Tensor) {
	backward(g).CombineBack(g.At(ExpertOut), g.At(LatentMixed), s.At(Places), s.At(Weights), 1)
}

// addLatents adds the projected sum to the stream, and the expert that all rows see.
func (x *mixture) addLatents(s *State) {
	for _, slot := range x.sums() {
		s.Dev.AddScaled(s.At(Residual), s.At(slot), x.out.residual)
	}
}

func (x *mixture) addLatentsBack(_, g *State, _ []tensor.Tensor) {
	for _, slot := range x.sums() {
		g.Dev.AddScaled(g.At(slot), g.At(Residual), x.out.residual)
	}
}

// sums lists what is added.
func (x *mixture) sums() []Slot {
	if x.shared == nil {
		return []Slot{Out}
	}
	return []Slot{Out, SharedOut}
}
