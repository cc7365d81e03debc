package model

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// mlp makes the second half of a block: the norm, which gate and up read, the
// product of the two, which down reads, and the sum.
func (b *builder) mlp(m *Module) {
	read, act, add := b.mlpSteps(m)
	if b.Spec.PerLayer.Size > 0 {
		add = b.layerInput(m, b.layerScale(m)).behind(add)
	}
	m.Steps, m.Chained = []Step{read, act, add}, true
}

// layerScale returns what multiplies the stream behind a layer, whose last module it is.
func (b *builder) layerScale(m *Module) float32 {
	v, ok := m.Vector(b.Spec.Names, b.Spec.Names.LayerScale)
	if !ok {
		return 1
	}
	return b.number(v)
}

// mlpSteps returns the three steps of an MLP.
func (b *builder) mlpSteps(m *Module) (read, act, add Step) {
	n := b.Spec.Names
	in, out, u := b.input(m, NormMLPIn), b.output(m, NormMLPOut), b.unit(m)
	u.width = b.Spec.MLPWidth(m.Layer)
	out.residual *= orOne(b.Spec.MLP.Scale)
	site := Site{Reads: Normed, Linears: []*Linear{b.linear(m, n.Up)}, Writes: []Slot{Up}}
	if !u.ungated {
		site = Site{Reads: Normed, Linears: []*Linear{b.linear(m, n.Gate), site.Linears[0]}, Writes: []Slot{Gate, Up}}
	}
	down := b.linear(m, n.Down)
	act = Step{Run: u.run, unit: &u, Sites: []Site{{Reads: Acted, Linears: []*Linear{down}, Writes: []Slot{Out}, Adds: out.plain()}}}
	act.Back, act.Keep = func(s, g *State, kept []tensor.Tensor) { u.back(s, g, kept, Acted, Gate, Up) }, u.keeps(Gate)
	return in.step(site), act, out.step()
}

// A unit is what stands between the first products of an MLP and the last.
type unit struct {
	act              device.Act
	squared, ungated bool
	clamp            device.Clamp  // or none
	xielu            *device.XIELU // or none
	width            int           // of a layer's own; 0 means that of the slots
}

// of returns the columns of a slot that the unit has.
func (u unit) of(t tensor.Tensor) tensor.Tensor {
	if u.width == 0 {
		return t
	}
	return within(t, u.width)
}

// unit returns that of a layer's MLP, or of the expert that all rows see.
func (b *builder) unit(m *Module) unit {
	p := b.Spec.MLP
	u := unit{act: p.Act, squared: p.Squared, ungated: p.Ungated}
	if u.clamp, _ = b.Spec.ClampsOf(m.Layer); p.XIELU {
		u.xielu = b.xielu(m)
	}
	return u
}

// expertUnit returns that of the experts that rows choose.
func (b *builder) expertUnit(m *Module) unit {
	u := b.unit(m)
	_, u.clamp = b.Spec.ClampsOf(m.Layer)
	return u
}

// xielu loads the numbers of a layer's activation function.
func (b *builder) xielu(m *Module) *device.XIELU {
	n := b.Spec.Names
	softplus := func(x float32) float32 { return float32(math.Log1p(math.Exp(float64(x)))) }
	number := func(part string) float32 {
		v, _ := m.Vector(n, part)
		return b.number(v)
	}
	beta := number(n.XIELUBeta)
	return &device.XIELU{Positive: softplus(number(n.XIELUPositive)), Negative: beta + softplus(number(n.XIELUNegative)), Beta: beta, Least: number(n.XIELULeast)}
}

// number loads a vector's only number, in a tensor of no dimension or of one.
func (b *builder) number(v VectorSpec) float32 {
	t, kind, ok := b.get(v.Name, v.Shape(), []int{}, []int{1})
	if !ok {
		return 0
	}
	return tensor.Widen(kind, t.Data)[0]
}

// firsts returns of how many matrices it is that devices multiply with it: a gate and what it opens, or what is activated alone; or 0.
func (u unit) firsts() int {
	switch {
	case u.gates():
		return 2
	case u.alone():
		return 1
	}
	return 0
}

// gates reports whether it is act(gate)·up.
func (u unit) gates() bool { return !u.ungated && !u.squared && u.clamp.Limit == 0 }

// alone reports whether it is act(up), or that times up.
func (u unit) alone() bool { return u.ungated && u.clamp.Limit == 0 && u.xielu == nil }

// mixes reports whether devices make it of what experts' first matrices give (device.Unit): act(gate)·up, or act(up)·up, or what is limited.
func (u unit) mixes() bool { return u.gates() || u.squared && u.alone() || u.limits() }

// limits reports whether it is of a gate and up that are limited.
func (u unit) limits() bool { return !u.ungated && u.clamp.Limit > 0 }

// ofExperts returns it for devices.
func (u unit) ofExperts() device.Unit { return device.Unit{Act: u.act, Clamp: u.clamp} }

func (u unit) run(s *State) {
	y, gate, up := u.of(s.At(Acted)), u.of(s.At(Gate)), u.of(s.At(Up))
	if u.alone() {
		s.actMul(y, up, u.times(up), u.act, s.reader)
		return
	}
	u.apply(s.Dev, y, gate, up)
}

// activate has products of its first matrices be what the unit makes of them, in y.
func (u unit) activate(p *device.Products, y tensor.Tensor) {
	p.List[0].Y, p.Act = y, u.act
	switch {
	case u.gates():
		p.Then, p.List[1].Y = device.Gate, tensor.Tensor{}
	case u.squared:
		p.Then = device.SelfGate
	default:
		p.Then = device.Activate
	}
}

// times returns what act(up) is multiplied by where there is no gate: up itself if ReLU is squared, max(x, 0)·x, or nothing.
func (u unit) times(up tensor.Tensor) tensor.Tensor {
	if u.squared {
		return up
	}
	return tensor.Tensor{}
}

// apply stores the unit of gate and up in y; gate may change, and is absent where
// the unit has none.
func (u unit) apply(d device.Device, y, gate, up tensor.Tensor) {
	switch {
	case u.clamp.Limit > 0:
		d.ClampMul(y, gate, up, u.clamp)
	case u.xielu != nil:
		d.XIELU(y, up, *u.xielu)
	case u.ungated:
		d.ActMul(y, up, u.times(up), u.act)
	case u.squared:
		d.ActMul(gate, gate, gate, u.act)
		d.ActMul(y, gate, up, u.act)
	default:
		d.ActMul(y, gate, up, u.act)
	}
}

// keeps lists what back needs that apply overwrites.
func (u unit) keeps(gates ...Slot) []Slot {
	if u.ungated || !u.squared || u.clamp.Limit > 0 {
		return nil
	}
	return gates
}

// back adds the gradients of gate and up, given that of what apply made of them;
// kept is the gate before, if keeps asks for it.
func (u unit) back(s, g *State, kept []tensor.Tensor, acted, gate, up Slot) {
	d, dy, none := backward(g), u.of(g.At(acted)), tensor.Tensor{}
	dGate, dUp, x, y := u.of(g.At(gate)), u.of(g.At(up)), u.of(s.At(gate)), u.of(s.At(up))
	switch {
	case u.clamp.Limit > 0:
		d.ClampMulBack(dGate, dUp, dy, x, y, u.clamp)
	case u.xielu != nil:
		d.XIELUBack(dUp, dy, y, *u.xielu)
	case u.ungated && u.squared:
		u.squareBack(d, dUp, dy, y)
	case u.ungated:
		d.ActMulBack(dUp, none, dy, y, none, u.act)
	case u.squared:
		once := clone(d, dGate)
		defer d.Free(once)
		d.ActMulBack(once, dUp, dy, x, y, u.act)
		u.squareBack(d, dGate, once, u.of(kept[0]))
	default:
		d.ActMulBack(dGate, dUp, dy, x, y, u.act)
	}
}

// squareBack adds the gradient of act(x)·x.
func (u unit) squareBack(d device.Backward, dx, dy, x tensor.Tensor) {
	twice := d.Alloc(tensor.F32, dy.Rows, dy.Cols)
	defer d.Free(twice)
	d.ActMulBack(dx, twice, dy, x, x, u.act)
	d.AddScaled(dx, twice, 1)
}

// output is the last step of a sublayer: its output, normalized or not, joins
// the stream, which may be normalized then.
type output struct {
	norm     Norm // or none
	sums     bool // norm is of the stream, not of the output
	residual float32
	then     float32 // multiplies the stream behind that
	apart    bool    // not with products: others of its layer are not, either, and kernels that take turns are slower
}

func (b *builder) output(m *Module, p Place) *output {
	o := &output{norm: b.norm(m, p), sums: b.Spec.NormSums, residual: orOne(b.Spec.Residual), then: 1, apart: b.Spec.PerLayer.Size > 0}
	if p == NormMLPOut && b.Spec.PerLayer.Size == 0 {
		o.then = b.layerScale(m)
	}
	return o
}

func (o *output) step() Step {
	return Step{Run: o.add, Back: o.addBack, Keep: o.keeps(), joins: o}
}

// plain reports whether the product is added as it is.
func (o *output) plain() bool { return o.residual == 1 && o.then == 1 && o.norm.none() }

// keeps lists what addBack needs that add overwrites.
func (o *output) keeps() []Slot {
	switch {
	case o.norm.none():
		return nil
	case o.sums:
		return []Slot{Residual, Out}
	}
	return []Slot{Out}
}

func (o *output) add(s *State) { o.addOf(s, Out) }

// addOf adds a slot; what is normalized of it is in Out.
func (o *output) addOf(s *State, from Slot) {
	if !o.norm.none() && !o.sums {
		o.norm.apply(s, Out, from)
		from = Out
	}
	s.Dev.AddScaled(s.At(Residual), s.At(from), o.residual)
	if !o.norm.none() && o.sums {
		o.norm.apply(s, Residual, Residual)
	}
	if o.then != 1 {
		s.Dev.Cap(s.At(Residual), o.then, 0)
	}
}

func (o *output) addBack(_, g *State, kept []tensor.Tensor) {
	if o.then != 1 {
		g.Dev.Cap(g.At(Residual), o.then, 0)
	}
	if !o.norm.none() && o.sums {
		g.Dev.AddScaled(kept[0], kept[1], o.residual)
		o.norm.backInPlace(backward(g), g.At(Residual), kept[0], 1)
		g.Dev.AddScaled(g.At(Out), g.At(Residual), o.residual)
		return
	}
	g.Dev.AddScaled(g.At(Out), g.At(Residual), o.residual)
	if !o.norm.none() {
		o.norm.backInPlace(backward(g), g.At(Out), kept[0], 1)
	}
}
