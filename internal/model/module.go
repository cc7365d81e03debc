package model

import (
	"exl2/internal/device"
	"exl2/internal/tensor"
)

// A Module is one part of the residual stream's way: Forward reads the stream
// (the embedding: s.IDs) and leaves the result there (the head: in the logits).
// Conversion works through the list one module at a time, inference runs all
// of it.
type Module struct {
	ModuleSpec
	Steps []Step // in the order they run

	dev   device.Device
	owned []tensor.Tensor // freed with the module; linears free their own
}

// A Step computes what some linears read, and those linears are run on it.
// Calibration stops between Run and the products.
type Step struct {
	// Run computes from the stream and from what the products of the step before
	// have written: a conversion holds no more than that.
	Run   func(s *State)
	Sites []Site // what is multiplied then; none in many steps

	// Back turns the gradients of what Run has computed, in g, into those of what
	// it has read, and adds those there. kept holds the slots of Keep as they were
	// before Run; all other slots of s are as the module's Forward leaves them. It
	// is nil where no backward pass is known.
	Back func(s, g *State, kept []tensor.Tensor)
	Keep []Slot
}

// A Site is an activation that linears read: they share one Hessian.
type Site struct {
	Reads   Slot
	Linears []*Linear
	Writes  []Slot // where the product of each linear goes
	Adds    bool   // what they compute is added to the stream as it is
}

// Forward runs the module.
func (m *Module) Forward(s *State) {
	for i := range m.Steps {
		m.Steps[i].Run(s)
		m.Steps[i].Multiply(s)
	}
}

// Multiply runs the linears of a step.
func (t *Step) Multiply(s *State) {
	for i := range t.Sites {
		site := &t.Sites[i]
		x := s.At(site.Reads)
		for k, l := range site.Linears {
			l.W.mul(s.Dev, s.At(site.Writes[k]), x, l.Bias)
		}
	}
}

// AllLinears lists the linears of the module in the order they run.
func (m *Module) AllLinears() []*Linear {
	var list []*Linear
	for _, t := range m.Steps {
		for _, s := range t.Sites {
			list = append(list, s.Linears...)
		}
	}
	return list
}

// Bytes is what the products of a pass over one row read.
func (m *Module) Bytes() int {
	sum := 0
	for _, l := range m.AllLinears() {
		sum += l.W.Bytes() + l.Bias.Bytes()
	}
	return sum
}

// Free frees the weights.
func (m *Module) Free() {
	for _, t := range m.owned {
		m.dev.Free(t)
	}
	m.owned = nil
	for _, l := range m.AllLinears() {
		l.free(m.dev)
	}
}

// Twin returns a module that shares the weights of m, and whose linears can be
// replaced by themselves. It must be freed before m.
func (m *Module) Twin() *Module {
	t := &Module{ModuleSpec: m.ModuleSpec, dev: m.dev}
	for _, step := range m.Steps {
		sites := make([]Site, len(step.Sites))
		for i, site := range step.Sites {
			linears := make([]*Linear, len(site.Linears))
			for k, l := range site.Linears {
				twin := *l
				twin.sharedW, twin.sharedBias = true, true
				linears[k] = &twin
			}
			site.Linears = linears
			sites[i] = site
		}
		step.Sites = sites
		t.Steps = append(t.Steps, step)
	}
	return t
}
