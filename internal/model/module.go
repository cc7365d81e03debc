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

	// Chained says that a step needs nothing but the stream in front of the module
	// and what the linears of the step before compute, and that the last one alone
	// changes the stream.
	Chained bool

	dev    device.Device
	dense  map[string]tensor.Tensor // what has been loaded of matrices, by name
	owned  []tensor.Tensor          // freed with the module; linears free their own
	fixed  []*Linear                // that no site has
	onFree []func()

	// assemble makes the steps of m, or of its twin, out of what get makes of each
	// linear, where steps know linears beside their sites'.
	assemble func(m *Module, get func(*Linear) *Linear) []Step
	active   float64 // share of the experts that a row sees

	// whole computes what the steps do at once, and reports whether it has; nil where
	// there is no such way.
	whole func(s *State) bool

	waits func() bool // Waits; nil where it never does

	follower *Step // what always runs next, on the stream as Forward leaves it; or nil
}

// Follow says that modules always run one after the other, and that nothing else touches
// the stream between them.
func Follow(modules ...*Module) {
	for i, m := range modules[:len(modules)-1] {
		m.follower = &modules[i+1].Steps[0]
	}
}

// ByRows reports whether each row is computed by itself.
func (m *Module) ByRows() bool { return m.Kind == MLP || m.Kind == Experts || m.Kind == Head }

// Waits reports whether decode steps of the module wait for its device, and so
// cannot be recorded.
func (m *Module) Waits() bool { return m.waits != nil && m.waits() }

// AtOnce returns how many of the rows of a pass the module's device is to compute at once, so that all take the least
// time, or 0 if it has nothing to multiply. Experts read less where rows are together.
func (m *Module) AtOnce(rows int) (most int) {
	f, ok := m.dev.(device.Fuser)
	for _, l := range m.AllLinears() {
		w, packed := l.W.(Quantized)
		if !ok || !packed || m.Kind == Experts {
			return rows
		}
		most = max(most, f.AtOnce(rows, w.Matrix))
	}
	return most
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

	// What Run is, where a device can do it with the products around it: the
	// stream, normalized or not, for the only site; an MLP's unit; attention of what
	// the step before has multiplied; linear attention, the next step, which reads what is
	// normalized once more; norms of latents, in front of attention to them; the sum of Out and the stream. All but one of them are nil.
	in      *input
	unit    *unit
	mixes   *attention
	recurs  *delta
	latents *latent
	joins   *output
	behind  *layerInput // what joins the stream behind that, or nil
}

// A Site is an activation that linears read: they share one Hessian.
type Site struct {
	Reads   Slot
	Linears []*Linear
	Writes  []Slot // where the product of each linear goes; nil if a later step multiplies
	Adds    bool   // what they compute is added to the stream as it is

	// Routed says that the slots hold rows sorted by expert, and that the linears
	// are those of Expert and see its rows only. All computes what they would read
	// if every row of the pass came to that expert; it may be called after Run.
	Routed bool
	Expert int
	All    func(s *State) tensor.Tensor
}

// Packable reports whether EXL2 can hold the site's matrices, which have as many
// inputs as each other.
func (t *Site) Packable() bool { return t.Linears[0].Packable() }

// In returns what the site's linears read in the pass.
func (t *Site) In(s *State) tensor.Tensor { return t.of(t.Input(s), s) }

// Input returns the slot that the site's linears read.
func (t *Site) Input(s *State) tensor.Tensor { return within(s.At(t.Reads), t.Linears[0].In) }

// output returns the slot that linear k of the site writes.
func (t *Site) output(s *State, k int) tensor.Tensor {
	return within(s.At(t.Writes[k]), t.Linears[k].Out)
}

// of returns the site's rows of a slot's, in the pass that s has run.
func (t *Site) of(x tensor.Tensor, s *State) tensor.Tensor {
	if t.Routed {
		first := s.Ranges()
		return x.Slice(int(first[t.Expert]), int(first[t.Expert+1]))
	}
	return x
}

// Forward runs the module.
func (m *Module) Forward(s *State) {
	left := s.left
	s.left = nil
	if m.whole != nil && m.whole(s) || m.fused(s, left) {
		return
	}
	for i := range m.Steps {
		m.Steps[i].Run(s)
		m.Steps[i].Multiply(s)
	}
}

// Multiply runs the linears of a step.
func (t *Step) Multiply(s *State) {
	for i := range t.Sites {
		t.Sites[i].multiply(s)
	}
}

// multiply runs the linears of a site.
func (t *Site) multiply(s *State) {
	x := t.In(s)
	if x.Rows == 0 || t.together(s, x) {
		return
	}
	for k := range t.Writes {
		l := t.Linears[k]
		l.W.mul(s.Dev, t.of(t.output(s, k), s), x, l.Bias)
	}
}

// Sites lists where linears read, in the order they run.
func (m *Module) Sites() []Site {
	var list []Site
	for _, t := range m.Steps {
		list = append(list, t.Sites...)
	}
	return list
}

// AllLinears lists the linears of the module in the order they run.
func (m *Module) AllLinears() []*Linear {
	var list []*Linear
	for _, s := range m.Sites() {
		list = append(list, s.Linears...)
	}
	return list
}

// Bytes is what the products of a pass over one row read: of experts, those that a
// row sees.
func (m *Module) Bytes() int {
	sum, experts := 0, 0
	for _, t := range m.Steps {
		for _, s := range t.Sites {
			n := 0
			for _, l := range s.Linears {
				n += l.bytes()
			}
			if s.Routed {
				experts += n
			} else {
				sum += n
			}
		}
	}
	for _, l := range m.fixed {
		sum += l.bytes()
	}
	return sum + int(m.active*float64(experts))
}

// Free frees the weights.
func (m *Module) Free() {
	for _, f := range m.onFree {
		f()
	}
	m.onFree = nil
	for _, t := range m.owned {
		m.dev.Free(t)
	}
	m.owned, m.dense = nil, nil
	for _, l := range append(m.AllLinears(), m.fixed...) {
		l.free(m.dev)
	}
}

// Twin returns a module that shares the weights of m, and whose linears can be
// replaced by themselves. It must be freed before m.
func (m *Module) Twin() *Module {
	t := &Module{ModuleSpec: m.ModuleSpec, Chained: m.Chained, dev: m.dev, active: m.active, assemble: m.assemble}
	if m.assemble != nil {
		t.Steps = m.assemble(t, twins())
		return t
	}
	twin := twins()
	for _, step := range m.Steps {
		t.Steps = append(t.Steps, step.of(twin))
	}
	return t
}

// of returns the step made of what get makes of its sites' linears.
func (t Step) of(get func(*Linear) *Linear) Step {
	sites := make([]Site, len(t.Sites))
	for i, site := range t.Sites {
		linears := make([]*Linear, len(site.Linears))
		for k, l := range site.Linears {
			linears[k] = get(l)
		}
		site.Linears = linears
		sites[i] = site
	}
	t.Sites = sites
	return t
}

// twins returns a function that makes one twin of every linear.
func twins() func(*Linear) *Linear {
	made := map[*Linear]*Linear{}
	return func(l *Linear) *Linear {
		if made[l] == nil {
			twin := *l
			twin.sharedW, twin.sharedBias = true, true
			made[l] = &twin
		}
		return made[l]
	}
}

func same(l *Linear) *Linear { return l }
