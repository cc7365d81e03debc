package model

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// apart is what a mixture has whose experts, router and shared expert each norm the stream by themselves
// (arch.MoE.Apart).
type apart struct {
	router, in  Norm          // of the stream
	out, shared Norm          // of the experts' sum, and of what the expert beside them gives
	scales      tensor.Tensor // of weights, F32 [1, experts]
}

func (b *builder) apart(m *Module) *apart {
	n, hidden := b.Spec.Names, b.Spec.Hidden
	a := &apart{in: b.norm(m, NormExpertIn), out: b.norm(m, NormExpertOut), shared: b.norm(m, NormShared)}
	scale := b.floats(n.Layer(m.Layer, n.RouterScale), 1, hidden)
	each := b.floats(n.Layer(m.Layer, n.ExpertScales), 1, b.Spec.MoE.Experts)
	if b.err != nil {
		return a
	}
	weights := make([]float32, hidden)
	for i, v := range scale {
		weights[i] = float32(float64(v) / math.Sqrt(float64(hidden)))
	}
	a.router = Norm{Norm: device.Norm{Kind: b.Spec.Norm.Kind, Eps: b.Spec.Norm.Eps}, W: b.own(m, b.upload(tensor.F32, 1, hidden, tensor.BytesOf(weights)))}
	a.scales = b.own(m, b.upload(tensor.F32, 1, len(each), tensor.BytesOf(each)))
	return a
}

// chooseApart is choose of such a mixture, but for what the expert reads that all rows see: the router's norm is in ExpertNormed before that of the experts.
func (x *mixture) chooseApart(s *State) {
	d := s.Dev
	if !x.takes(s) {
		if r, ok := x.router(); ok {
			d.Choose(s.choice(), s.At(ExpertNormed), s.At(Residual), r)
		} else {
			x.apart.router.apply(s, ExpertNormed, Residual)
			x.scores.W.mul(d, s.At(Scores), s.At(ExpertNormed), x.scores.Bias)
			d.Route(s.Routes(), s.At(Scores), x.correction, x.apart.scales, tensor.Tensor{}, x.routing)
		}
		s.first = nil
	}
	x.apart.in.apply(s, ExpertNormed, Residual)
}

// addApart adds the norm of the sum of both norms to the stream.
func (x *mixture) addApart(s *State) {
	s.Dev.Clear(s.At(Mixture))
	s.Dev.Combine(s.At(Mixture), s.At(ExpertOut), s.At(Places), s.At(Weights), 1)
	x.addNorms(s)
}

// addNorms adds the norm of the norms of Mixture and SharedOut.
func (x *mixture) addNorms(s *State) {
	d, a := s.Dev, x.apart
	d.Clear(s.At(Together))
	a.out.apply(s, Out, Mixture)
	d.AddScaled(s.At(Together), s.At(Out), 1)
	a.shared.apply(s, Out, SharedOut)
	d.AddScaled(s.At(Together), s.At(Out), 1)
	d.Copy(s.At(Out), s.At(Together))
	x.out.add(s)
}

// addApartBack spreads the gradient of the sum over what the experts give.
func (x *mixture) addApartBack(s, g *State) {
	d, a := backward(g), x.apart
	x.out.addBack(s, g, []tensor.Tensor{s.At(Together)})
	d.Clear(g.At(Mixture))
	a.out.back(g, Out, Mixture, s.At(Mixture))
	a.shared.back(g, Out, SharedOut, s.At(SharedOut))
	d.CombineBack(g.At(ExpertOut), g.At(Mixture), s.At(Places), s.At(Weights), 1)
	d.Clear(g.At(Out))
}
