package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// back takes the rows for whole sequences.
func (d *delta) back(s, g *State, _ []tensor.Tensor) {
	dev := backward(g)
	switch {
	case d.bare:
		d.bareBack(dev, s, g)
	case d.Plain:
		d.gatedBack(dev, s, g)
	default:
		d.normedBack(dev, s, g)
	}
	if d.gate() != DeltaGate {
		g.Dev.AddScaled(g.At(DeltaGate), g.At(d.gate()), d.scales.Z)
		g.Dev.Clear(g.At(d.gate()))
	}
	decay, beta := d.ratesOf(s)
	ddecay, dbeta := d.ratesOf(g)
	dev.GatedDeltaBack(g.At(DeltaQuery), g.At(DeltaKey), g.At(DeltaValue), ddecay, dbeta, g.At(DeltaColumns), g.At(DeltaMixed),
		s.At(DeltaColumns), s.At(DeltaQuery), s.At(DeltaKey), s.At(DeltaValue), decay, beta, d.GatedDelta, s.Batch)
	if scale := orOne(d.scales.A); scale != 1 {
		dev.Cap(ddecay, scale, 0)
	}
	dev.MatMulBack(g.At(Normed), ddecay, d.a.W.(Dense).Tensor)
	if !d.Plain {
		dev.MatMulBack(g.At(Normed), dbeta, d.b.W.(Dense).Tensor)
	}
}

// bareBack goes back through gates alone.
func (d *delta) bareBack(dev device.Backward, s, g *State) {
	x := s.At(DeltaMixed)
	mixed := dev.Alloc(dev.Activation(), x.Rows, x.Cols)
	defer dev.Free(mixed)
	dev.Copy(mixed, x)
	dGate, dMixed, dy, gate := g.At(d.gate()), g.At(DeltaMixed), g.At(DeltaOut), s.At(d.gate())
	if c, scaled := d.clamp(); scaled {
		dev.ClampMulBack(dGate, dMixed, dy, gate, mixed, c)
		return
	}
	dev.ActMulBack(dGate, dMixed, dy, gate, mixed, device.SiLU)
}

// gatedBack goes back through GatedNorm, group by group.
func (d *delta) gatedBack(dev device.Backward, s, g *State) {
	x, y := s.At(DeltaMixed), g.At(DeltaOut)
	mixed, gated, dy := dev.Alloc(dev.Activation(), x.Rows, x.Cols), dev.Alloc(dev.Activation(), x.Rows, x.Cols), dev.Alloc(tensor.F32, x.Rows, x.Cols)
	defer func() { dev.Free(mixed); dev.Free(gated); dev.Free(dy) }()
	dev.Copy(mixed, x)
	dev.ActMul(gated, s.At(d.gate()), mixed, device.SiLU)
	dev.Clear(dy)
	for lo, n := 0, d.group(); lo < x.Cols; lo += n {
		dev.NormBack(dy.Columns(lo, lo+n), y.Columns(lo, lo+n), gated.Columns(lo, lo+n), d.norm.W.Columns(lo, lo+n), d.norm.Norm)
	}
	dev.ActMulBack(g.At(d.gate()), g.At(DeltaMixed), dy, s.At(d.gate()), mixed, device.SiLU)
}

// normedBack goes back through HeadNormGated.
func (d *delta) normedBack(dev device.Backward, s, g *State) {
	y := s.At(DeltaMixed)
	normed, dy := dev.Alloc(dev.Activation(), y.Rows, y.Cols), dev.Alloc(tensor.F32, y.Rows, y.Cols)
	defer func() { dev.Free(normed); dev.Free(dy) }()
	dev.Norm(d.heads(normed), d.heads(y), d.norm.W, d.norm.Bias, d.norm.Norm)
	dev.ActMulBack(g.At(d.gate()), dy, g.At(DeltaOut), s.At(d.gate()), normed, device.SiLU)
	dev.NormBack(d.heads(g.At(DeltaMixed)), d.heads(dy), d.heads(y), d.norm.W, d.norm.Norm)
}
