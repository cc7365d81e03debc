package model

import (
	"slices"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// grouped is a mixture at once: the products of all chosen experts in one, by what
// is in device memory, so that nothing waits.
type grouped struct {
	*mixture
	gate, up, down kin
	shared         *expert
}

// kin is a matrix of every expert, and the group that is made of them.
type kin struct {
	linears []*Linear
	group   device.Group
	of      []Weight // what it was made of
	release func()
}

func (g *grouped) add(e expert) {
	if e.gate != nil {
		g.gate.linears = append(g.gate.linears, e.gate)
	}
	g.up.linears, g.down.linears = append(g.up.linears, e.up), append(g.down.linears, e.down)
}

// run computes the mixture, and reports whether it could: matrices of mixed kinds
// are multiplied one by one, and so are those that see many rows.
func (g *grouped) run(s *State) bool {
	d := s.Dev
	if !s.few() || !g.possible(d) {
		return false
	}
	groups := []device.Group{g.up.group}
	to := []tensor.Tensor{s.At(ExpertUp)}
	if g.gate.linears != nil {
		groups, to = []device.Group{g.gate.group, g.up.group}, []tensor.Tensor{s.At(ExpertGate), s.At(ExpertUp)}
	}
	g.choose(s)
	r := s.Routes()
	d.GroupMul(to, s.At(Normed), r.Rows, groups, r)
	if e := g.shared; e != nil {
		if e.gate != nil {
			e.gate.W.mul(d, s.At(SharedGate), s.At(Normed), e.gate.Bias)
		}
		e.up.W.mul(d, s.At(SharedUp), s.At(Normed), e.up.Bias)
	}
	g.act(s)
	d.GroupMul([]tensor.Tensor{s.At(ExpertOut).Slice(0, r.Rows.Cols)}, s.At(ExpertActed), tensor.Tensor{}, []device.Group{g.down.group}, r)
	if e := g.shared; e != nil {
		e.down.W.mul(d, s.At(SharedOut), s.At(SharedActed), e.down.Bias)
	}
	g.mixture.add(s)
	return true
}

// possible reports whether there are groups, and makes them.
func (g *grouped) possible(d device.Device) bool {
	for _, k := range []*kin{&g.gate, &g.up, &g.down} {
		if k.linears != nil && !k.refresh(d) {
			return false
		}
	}
	return true
}

func (g *grouped) free() {
	for _, k := range []*kin{&g.gate, &g.up, &g.down} {
		k.free()
	}
}

// refresh makes the group anew if a linear has another weight, and reports whether
// there can be one.
func (k *kin) refresh(d device.Device) bool {
	changed := len(k.of) != len(k.linears)
	for i := 0; i < len(k.linears) && !changed; i++ {
		changed = k.of[i] != k.linears[i].W
	}
	if !changed {
		return k.group != nil
	}
	k.free()
	var packed []device.Matrix
	var dense, biases []tensor.Tensor
	for _, l := range k.linears {
		k.of = append(k.of, l.W)
		switch w := l.W.(type) {
		case Quantized:
			packed = append(packed, w.Matrix)
		case Dense:
			dense = append(dense, w.Tensor)
		}
		if !l.Bias.Nil() {
			biases = append(biases, l.Bias)
		}
	}
	sameType := !slices.ContainsFunc(dense, func(t tensor.Tensor) bool { return t.Type != dense[0].Type })
	if n := len(k.linears); len(packed) != n && len(dense) != n || !sameType {
		return false
	}
	k.group = d.Group(packed, dense, biases)
	k.release = func() { d.FreeGroup(k.group) }
	return true
}

func (k *kin) free() {
	if k.release != nil {
		k.release()
	}
	k.group, k.of, k.release = nil, nil, nil
}
