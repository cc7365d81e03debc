package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Attention is the first half of a block.
type Attention struct {
	dev        device.Device
	name       string
	layer      int
	In         Norm
	Q, K, V, O *Linear
	freqs      tensor.Tensor
	rope       device.Rope
	attend     device.Attend
	residual   float32
}

// Name is the prefix of the half-block's tensors, as "model.layers.0.self_attn".
func (a *Attention) Name() string { return a.name }

// Steps are the norm, which q, k and v read, the mixing of heads, which o
// reads, and the sum.
func (a *Attention) Steps() []Step {
	return []Step{
		{Run: a.norm, Reads: normed, Linears: []*Linear{a.Q, a.K, a.V}},
		{Run: a.mix, Reads: func(s *State) tensor.Tensor { return s.Q }, Linears: []*Linear{a.O}, Adds: a.residual == 1},
		{Run: a.add},
	}
}

// Forward adds attention of the normed stream to the stream.
func (a *Attention) Forward(s *State) {
	a.norm(s)
	a.mix(s)
	a.add(s)
}

func (a *Attention) norm(s *State) { a.In.apply(s, s.Norm, s.X) }

func (a *Attention) mix(s *State) {
	d, c := s.Dev, s.cache(a.layer)
	a.Q.forward(s, s.Q, s.Norm)
	a.K.forward(s, s.K, s.Norm)
	a.V.forward(s, s.V, s.Norm)
	if a.rope.Dims > 0 {
		d.Rope(s.Q, s.K, a.freqs, a.attend.HeadDim, a.rope, s.Batch)
	}
	d.Store(c, s.K, s.V, s.Batch)
	d.Attend(s.Q, s.Q, c, a.attend, s.Batch)
}

func (a *Attention) add(s *State) {
	a.O.forward(s, s.Out, s.Q)
	s.Dev.AddScaled(s.X, s.Out, a.residual)
}

// Free frees the weights.
func (a *Attention) Free() {
	a.dev.Free(a.In.W)
	a.dev.Free(a.freqs)
	for _, l := range Linears(a) {
		l.free(a.dev)
	}
}

// MLP is the second half of a block.
type MLP struct {
	dev            device.Device
	name           string
	In             Norm
	Gate, Up, Down *Linear
	act            device.Act
	residual       float32
}

// Name is the prefix of the half-block's tensors, as "model.layers.0.mlp".
func (m *MLP) Name() string { return m.name }

// Steps are the norm, which gate and up read, the product of the two, which
// down reads, and the sum.
func (m *MLP) Steps() []Step {
	return []Step{
		{Run: m.norm, Reads: normed, Linears: []*Linear{m.Gate, m.Up}},
		{Run: m.mix, Reads: func(s *State) tensor.Tensor { return s.Gate }, Linears: []*Linear{m.Down}, Adds: m.residual == 1},
		{Run: m.add},
	}
}

// Forward adds the feed-forward network of the normed stream to the stream.
func (m *MLP) Forward(s *State) {
	m.norm(s)
	m.mix(s)
	m.add(s)
}

func (m *MLP) norm(s *State) { m.In.apply(s, s.Norm, s.X) }

func (m *MLP) mix(s *State) {
	m.Gate.forward(s, s.Gate, s.Norm)
	m.Up.forward(s, s.Up, s.Norm)
	s.Dev.ActMul(s.Gate, s.Gate, s.Up, m.act)
}

func (m *MLP) add(s *State) {
	m.Down.forward(s, s.Out, s.Gate)
	s.Dev.AddScaled(s.X, s.Out, m.residual)
}

// Free frees the weights.
func (m *MLP) Free() {
	m.dev.Free(m.In.W)
	for _, l := range Linears(m) {
		l.free(m.dev)
	}
}
