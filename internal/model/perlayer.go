package model

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// layerInputs makes the inputs of all layers (arch.PerLayer), which stand in the stream behind the residual one.
type layerInputs struct {
	table      tensor.Tensor
	model      *Linear
	norm       Norm // whose epsilon is as of the product, not divided by √hidden
	first, end int
	layers     int
	size       int
}

func (b *builder) layerInputs(m *Module) *layerInputs {
	s := b.Spec
	p := &layerInputs{table: b.own(m, b.matrix(m.Inputs, s.PerLayer.Rows, s.Layers*s.PerLayer.Size)), model: b.linear(m, s.Names.PerLayerModel), norm: b.norm(m, NormPerLayer)}
	m.fixed = append(m.fixed, p.model)
	p.first, p.end, p.layers, p.size = s.Hidden, s.Hidden+s.Layers*s.PerLayer.Size, s.Layers, s.PerLayer.Size
	return p
}

func (p *layerInputs) run(s *State) {
	d, y, x := s.Dev, s.At(Stream).Columns(p.first, p.end), s.At(LayerInputs)
	d.Copy(s.At(Normed), s.At(Residual))
	p.model.W.mul(d, x, s.At(Normed), p.model.Bias)
	p.norm.heads(d, x, p.layers)
	d.Embed(y, p.table, s.IDs, float32(math.Sqrt(float64(p.size)/2)))
	d.AddScaled(y, x, float32(1/math.Sqrt2))
}

// layerInput is what a layer does with its input, behind its MLP.
type layerInput struct {
	gate, out  *Linear
	act        device.Act
	first, end int     // columns of the stream
	sum        *output // how what that gives joins the stream
}

func (b *builder) layerInput(m *Module, then float32) *layerInput {
	n := b.Spec.Names
	p := &layerInput{gate: b.linear(m, n.PerLayerGate), out: b.linear(m, n.PerLayerOut), act: b.Spec.MLP.Act, sum: &output{norm: b.norm(m, NormPerLayer), residual: 1, then: then}}
	m.fixed = append(m.fixed, p.gate, p.out)
	p.first, p.end = b.Spec.Input(m.Layer)
	return p
}

// behind returns the step that does that behind the one that adds the MLP's output: the last one alone changes the stream.
func (p *layerInput) behind(add Step) Step {
	return Step{Keep: add.Keep, joins: add.joins, behind: p, Run: func(s *State) {
		add.Run(s)
		p.run(s)
	}, Back: func(s, g *State, kept []tensor.Tensor) {
		p.back(s, g)
		add.Back(s, g, kept)
	}}
}

func (p *layerInput) run(s *State) {
	p.multiply(s)
	p.sum.addOf(s, LayerOut)
}

// multiply computes what the layer's input gives.
func (p *layerInput) multiply(s *State) {
	if d := s.Dev; !p.gated(s) {
		d.Copy(s.At(LayerStream), s.At(Residual))
		d.Copy(s.At(LayerInput), s.At(Stream).Columns(p.first, p.end))
		p.gate.W.mul(d, s.At(LayerGate), s.At(LayerStream), p.gate.Bias)
		d.ActMul(s.At(LayerActed), s.At(LayerGate), s.At(LayerInput), p.act)
	}
	p.out.W.mul(s.Dev, s.At(LayerOut), s.At(LayerActed), p.out.Bias)
}

// gated computes the gated input on a device that does so at once, and reports whether it has.
func (p *layerInput) gated(s *State) bool {
	f, fuses := s.Dev.(device.Fuser)
	w, dense := p.gate.W.(Dense)
	return fuses && dense && !s.apart && p.gate.Bias.Nil() && f.MatMulGated(s.At(LayerActed), s.At(Residual), w.Tensor, s.At(Stream).Columns(p.first, p.end), p.act)
}

// join is run of what is normalized and added on a device that does that at once, and returns for which step something is left.
func (p *layerInput) join(f device.Fuser, s *State, behind []Step, follower *Step) *Step {
	p.multiply(s)
	return p.sum.join(f, s, LayerOut, behind, follower)
}

// back turns the gradient of the stream behind it into that of the stream in front of it.
func (p *layerInput) back(s, g *State) {
	d := backward(g)
	if p.sum.then != 1 {
		d.Cap(g.At(Residual), p.sum.then, 0)
	}
	for _, slot := range []Slot{LayerInput, LayerGate, LayerActed, LayerOut} {
		d.Clear(g.At(slot))
	}
	d.NormBack(g.At(LayerOut), g.At(Residual), s.At(LayerOut), p.sum.norm.W, p.sum.norm.Norm)
	d.MatMulBack(g.At(LayerActed), g.At(LayerOut), p.out.W.(Dense).Tensor)
	d.ActMulBack(g.At(LayerGate), g.At(LayerInput), g.At(LayerActed), s.At(LayerGate), s.At(LayerInput), p.act)
	d.MatMulBack(g.At(Residual), g.At(LayerGate), p.gate.W.(Dense).Tensor)
	d.AddScaled(g.At(Stream).Columns(p.first, p.end), g.At(LayerInput), 1)
}
