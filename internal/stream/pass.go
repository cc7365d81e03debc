package stream

import (
	"context"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
)

// A Pass brings rows of hidden states through modules. A row is Length positions of
// one sequence. On devices that several goroutines may use at once, lanes bring rows
// through a module side by side; what is added up over rows is added in their order.
type Pass struct {
	Dev    device.Device
	Length int
	Most   int // rows at a time in a lane

	spec  arch.Spec
	most  int // lanes
	lanes []*Lane
}

// LogitRows is how many positions get logits at a time.
const LogitRows = 256

// Size says what a Pass over rows of the given length, most at a time, allocates.
func Size(spec arch.Spec, length, most int) (model.Size, model.CacheSize) {
	return model.Size{Rows: most * length, Logits: min(LogitRows, length)}, model.SharedCache(spec, most, length)
}

// NewPass allocates a lane for rows of the given length, most at a time. More come
// when there is work for them.
func NewPass(d device.Device, spec arch.Spec, length, most int) *Pass {
	p := &Pass{Dev: d, Length: length, Most: most, spec: spec}
	p.most = lanesFor(d, laneOf(d, spec, length, most))
	p.grow(1)
	return p
}

// State is the first lane's.
func (p *Pass) State() *model.State { return p.lanes[0].State }

// Free frees the lanes.
func (p *Pass) Free() {
	for _, l := range p.lanes {
		l.free()
	}
	p.lanes = nil
}

// Embed runs the embedding over rows of tokens and stores the result in dst.
func (p *Pass) Embed(ctx context.Context, e *model.Module, tokens [][]int32, dst *Store) error {
	return p.Side(ctx, len(tokens), func(l *Lane, row int) error {
		l.use(1, tokens[row])
		e.Forward(l.State)
		return l.Keep(dst, row)
	})
}

// Each loads the rows of src into the states of lanes and calls f, which runs what it
// likes there, side by side.
func (p *Pass) Each(ctx context.Context, src *Store, f func(l *Lane, row int) error) error {
	return p.Side(ctx, src.Rows, func(l *Lane, row int) error {
		if _, err := l.Load(src, row, 1); err != nil {
			return err
		}
		return f(l, row)
	})
}

// Forward brings src through a module into dst, which may be src.
func (p *Pass) Forward(ctx context.Context, m *model.Module, src, dst *Store) error {
	return p.Each(ctx, src, func(l *Lane, row int) error {
		m.Forward(l.State)
		return l.Keep(dst, row)
	})
}

// Coverage counts the positions of src that each expert of a module sees; of a
// module without experts it is nil.
func (p *Pass) Coverage(ctx context.Context, m *model.Module, src *Store) ([]int, error) {
	last := slices.IndexFunc(m.Steps, func(t model.Step) bool {
		return slices.ContainsFunc(t.Sites, func(s model.Site) bool { return s.Routed })
	})
	if last < 0 {
		return nil, nil
	}
	firsts := make([][]int32, src.Rows)
	err := p.Each(ctx, src, func(l *Lane, row int) error {
		s := l.State
		for i := range m.Steps[:last] {
			m.Steps[i].Run(s)
			m.Steps[i].Multiply(s)
		}
		m.Steps[last].Run(s)
		firsts[row] = slices.Clone(s.Ranges())
		return nil
	})
	if err != nil {
		return nil, err
	}
	counts := make([]int, len(firsts[0])-1)
	for _, first := range firsts {
		for e := range counts {
			counts[e] += int(first[e+1] - first[e])
		}
	}
	return counts, nil
}
