package model

import (
	"sync"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// grouped is a mixture at once: the products of all chosen experts in one, by what
// is in device memory, so that nothing waits.
type grouped struct {
	*mixture
	module   *Module
	mu       sync.Mutex // of the groups, which whoever comes first makes
	matrices kins
	whole    kins // with the expert's behind that all rows see, if it has their unit, and is as wide as some of them
	shared   *expert
	latent   *latentExperts
}

// kins are the matrices of experts, of which gates may be absent.
type kins struct{ gate, up, down kin }

func (k *kins) all() []*kin { return []*kin{&k.gate, &k.up, &k.down} }

// refresh makes the groups anew if matrices have changed, and reports whether there can be groups.
func (k *kins) refresh(d device.Device) bool {
	for _, k := range k.all() {
		if k.linears != nil && !k.refresh(d) {
			return false
		}
	}
	return true
}

func (k *kins) free() {
	for _, k := range k.all() {
		k.free()
	}
}

// kin is a matrix of every expert, and the group that is made of them.
type kin struct {
	linears []*Linear
	group   device.Group
	of      []Weight // what it was made of
	release func()
}

func (k *kins) add(e expert) {
	if e.gate != nil {
		k.gate.linears = append(k.gate.linears, e.gate)
	}
	k.up.linears, k.down.linears = append(k.up.linears, e.up), append(k.down.linears, e.down)
}

// groups returns those that refresh has made.
func (k *kins) groups() device.Groups {
	return device.Groups{Gate: k.gate.group, Up: k.up.group, Down: k.down.group}
}

// runs reports whether the mixture can be computed at once: matrices of kinds that have no
// group are multiplied one by one, and so are those that see many rows.
func (g *grouped) runs(s *State) bool { return (s.few() || g.sparse(s)) && g.possible(s.Dev) }

// run computes the mixture.
func (g *grouped) run(s *State) {
	d := s.Dev
	if g.unit.mixes() && !g.early && g.latent == nil && !s.apart {
		g.mix(s)
		return
	}
	groups := []device.Group{g.matrices.up.group}
	to := []tensor.Tensor{s.At(ExpertUp)}
	if g.matrices.gate.linears != nil {
		groups, to = []device.Group{g.matrices.gate.group, g.matrices.up.group}, []tensor.Tensor{s.At(ExpertGate), s.At(ExpertUp)}
	}
	g.choose(s)
	r := s.Routes()
	if l := g.latent; l != nil {
		l.in.W.mul(d, s.At(ExpertSource), s.At(Normed), l.in.Bias)
	}
	d.GroupMul(to, g.weigh(s), r.Rows, groups, r)
	g.apply(d, s.At(ExpertActed), s.At(ExpertGate), s.At(ExpertUp))
	d.GroupMul([]tensor.Tensor{s.At(ExpertOut).Slice(0, r.Rows.Cols)}, s.At(ExpertActed), tensor.Tensor{}, []device.Group{g.matrices.down.group}, r)
	if !g.mixesShared(s) {
		g.runShared(s)
	}
	if l := g.latent; l != nil {
		g.sumLatents(s)
		l.out.W.mul(d, s.At(Out), s.At(LatentMixed), l.out.Bias)
		g.addLatents(s)
		return
	}
	g.mixture.add(s)
}

// sharedSites returns what the expert that all rows see reads first, and last.
func (g *grouped) sharedSites() (first, last Site) {
	return g.shared.sites(Normed, SharedGate, SharedUp, SharedActed, SharedOut)
}

// runShared computes the expert that all rows see, of what is normalized.
func (g *grouped) runShared(s *State) {
	first, last := g.sharedSites()
	first.multiply(s)
	g.sharedUnit.apply(s.Dev, s.At(SharedActed), s.At(SharedGate), s.At(SharedUp))
	last.multiply(s)
}

// Among so many experts rows of a prompt are few for each, up to so many, or any number on a device
// that groups many.
const manyExperts, sparseRows = 32, 64

// sparse reports whether a pass of many rows leaves few for each expert. Then a launch for
// each takes longer than decoding packed weights once more for every eight of its rows.
func (g *grouped) sparse(s *State) bool {
	for _, k := range g.matrices.all() {
		for _, l := range k.linears {
			if _, packed := l.W.(Quantized); !packed {
				return false
			}
		}
	}
	n := len(g.each)
	return n >= manyExperts && (s.Dev.GroupsMany() || s.Routes().Rows.Cols <= sparseRows*n)
}

// mix computes the mixture by as few operations as there are for units that are gated, by themselves or others.
func (g *grouped) mix(s *State) {
	if g.apart != nil {
		g.mixApart(s)
		return
	}
	g.sum(s, g.follower(s), func(y tensor.Tensor, scale float32) {
		var left *Step
		e := g.together(s, scale)
		if g.out.norm.none() { // y is the stream
			e.Reader, left = g.follower(s).reads(s)
		}
		if !g.mixWhole(s, y, e) {
			if shared := g.mixesShared(s); !shared || !g.mixRow(s, y, e) {
				g.mixBehind(s, shared, y, e)
			}
		}
		s.left = left
	})
}

// mixApart is mix of experts whose norm is one of their own.
func (g *grouped) mixApart(s *State) {
	a, sum := g.apart, s.At(Mixture)
	s.Dev.Clear(sum)
	shared, e := g.mixesShared(s), g.together(s, 1)
	if !shared || !g.mixRow(s, sum, e) {
		g.chooseApart(s)
		if !shared {
			g.input.run(s)
			g.runShared(s)
		}
		s.Dev.MixExperts(sum, s.At(g.in), e, s.Routes())
	}
	if a.out.Norm != a.shared.Norm || !g.joins(s, g.follower(s), device.Sum{Y: sum, With: &device.Addend{Y: s.At(SharedOut), Norm: a.out.Norm, Own: a.shared.W, First: a.out.W}}) {
		g.addNorms(s)
	}
}

// follower returns the step that reads the stream next as the mixture leaves it, or nil.
func (g *grouped) follower(s *State) *Step {
	if g.inner || s.follow != nil {
		return nil
	}
	return g.module.follower
}

// mixesShared reports whether there is no shared expert to be computed any more.
func (g *grouped) mixesShared(s *State) bool {
	return g.shared == nil || g.sharedUnit.firsts() > 0 && g.mixShared(s)
}

// mixWhole is mixRow of the expert that all rows see, too.
func (g *grouped) mixWhole(s *State, y tensor.Tensor, e device.Experts) bool {
	if !s.few() || g.shared == nil || (g.shared.gate == nil) != (g.matrices.gate.linears == nil) || g.sharedUnit.ofExperts() != g.unit.ofExperts() || !g.sharedUnit.mixes() || !g.wholes(s.Dev) {
		return false
	}
	whole := g.whole.groups()
	e.Whole = &whole
	return g.mixRow(s, y, e)
}

// wholes reports whether there are groups of packed experts with the one that all rows see, if that is as wide as one of the others or as some, and makes them.
func (g *grouped) wholes(d device.Device) bool {
	if _, ok := d.(device.Fuser); !ok || !g.fitsShared() {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.whole.refresh(d)
}

// fitsShared reports whether matrices of the expert that all rows see are packed, as wide as others or some times as wide, and biased if those are.
func (g *grouped) fitsShared() bool {
	x, m := g.shared, &g.matrices
	all, packed := x.up.W.(Quantized)
	one, both := m.up.linears[0].W.(Quantized)
	if !packed || !both {
		return false
	}
	times := all.Out() / one.Out()
	const tile = 32 // columns of devices' blocks, at which it is divided
	return (times == 1 || one.Out()%tile == 0) && x.up.widened(m.up.linears[0], 1, times) && x.down.widened(m.down.linears[0], times, 1) &&
		(x.gate == nil || x.gate.widened(m.gate.linears[0], 1, times))
}

// widened reports whether l is packed, as another is, has so many times its inputs and outputs, and a bias if that has one.
func (l *Linear) widened(of *Linear, in, out int) bool {
	a, packed := l.W.(Quantized)
	b, both := of.W.(Quantized)
	return packed && both && a.In() == in*b.In() && a.Out() == out*b.Out() && l.Bias.Nil() == of.Bias.Nil()
}

// together returns the matrices of all experts, and memory for what they compute.
func (g *grouped) together(s *State, scale float32) device.Experts {
	return device.Experts{Groups: g.matrices.groups(), Gates: s.At(ExpertGate), Ups: s.At(ExpertUp), Each: s.At(ExpertOut), Unit: g.unit.ofExperts(), Scale: scale}
}

// mixBehind adds the mixture to y behind the choice, and computes the shared expert before if that is to be done.
func (g *grouped) mixBehind(s *State, shared bool, y tensor.Tensor, all device.Experts) {
	g.choose(s)
	if !shared {
		g.runShared(s)
	}
	s.Dev.MixExperts(y, s.At(g.in), all, s.Routes())
}

// mixRow adds the mixture to y, with the router and the norm in front, on a device that can.
func (g *grouped) mixRow(s *State, y tensor.Tensor, e device.Experts) bool {
	f, ok := s.Dev.(device.Fuser)
	r, dense := g.router()
	s.first = nil
	return ok && dense && s.follow == nil && f.Mixture(y, s.At(Residual), s.choice(), r, e)
}

// mixShared computes the expert that all rows see, with the norm in front, on a device
// that can.
func (g *grouped) mixShared(s *State) bool {
	f, ok := s.Dev.(device.Fuser)
	n := g.input.norm
	first, last := g.sharedSites()
	list, packed := first.products(s)
	down, packedDown := last.products(s)
	if !ok || s.apart || n.none() || !packed || !packedDown {
		return false
	}
	p := device.Products{X: s.At(Residual), Norm: n.Norm, Scale: n.W, Shift: n.Bias, List: list, Next: down[0].W}
	g.sharedUnit.activate(&p, s.At(SharedActed))
	return f.Products(p, device.Products{X: s.At(SharedActed), Sorted: true, List: down})
}

// possible reports whether there are groups, and makes them.
func (g *grouped) possible(d device.Device) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.matrices.refresh(d)
}

func (g *grouped) free() {
	g.matrices.free()
	g.whole.free()
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
	n := len(k.linears)
	packed, dense, biases := make([]device.Matrix, n), make([]tensor.Tensor, n), []tensor.Tensor(nil)
	types := map[tensor.Type]bool{} // of dense ones
	for i, l := range k.linears {
		k.of = append(k.of, l.W)
		switch w := l.W.(type) {
		case Quantized:
			packed[i] = w.Matrix
		case Dense:
			dense[i], types[w.Type] = w.Tensor, true
		default:
			return false
		}
		if !l.Bias.Nil() {
			biases = append(biases, l.Bias)
		}
	}
	if len(types) > 1 {
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
