package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

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
		x.input.run(s)
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
	d.Route(s.Routes(), s.At(Scores), x.correction, tensor.Tensor{}, gate, x.routing)
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
	if a := x.apart; a != nil {
		r.Scales, r.Apart = a.scales, &device.Weighing{Norm: a.in.Norm, Scale: a.in.W}
	}
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
	x.sum(s, nil, func(y tensor.Tensor, scale float32) {
		s.Dev.Combine(y, s.At(ExpertOut), s.At(Places), x.weights(s), scale)
	})
}

// sum adds to the stream what into adds to y, scaled, in the end, and may leave it for the step that follows, which may be nil.
func (x *mixture) sum(s *State, follower *Step, into func(y tensor.Tensor, scale float32)) {
	if x.out.norm.none() {
		into(s.At(Residual), x.out.residual)
		return
	}
	d, sum := s.Dev, s.At(Mixture)
	d.Clear(sum)
	into(sum, 1)
	if x.joins(s, follower, device.Sum{Y: sum}) {
		return
	}
	d.Copy(s.At(Out), sum)
	x.out.add(s)
}

// joins adds the sum of a mixture to the stream on a device that can, and leaves it for the step that follows.
func (x *mixture) joins(s *State, follower *Step, p device.Sum) bool {
	f, ok := s.Dev.(device.Fuser)
	if !ok || s.apart {
		return false
	}
	next, reader := follower.reads(s)
	if p.Reader = next; !x.out.joins(f, s, p) {
		return false
	}
	s.left = reader
	return true
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
