package stream

import (
	"context"
	"slices"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/model"
)

// A Pass brings rows of hidden states through modules, one or some at a time. A
// row is Length positions of one sequence.
type Pass struct {
	Dev    device.Device
	State  *model.State
	Length int
	Most   int // rows at a time

	cache *model.Cache
}

// LogitRows is how many positions get logits at a time.
const LogitRows = 256

// Size says what a Pass over rows of the given length, most at a time, allocates.
func Size(length, most int) (model.Size, model.CacheSize) {
	return model.Size{Rows: most * length, Logits: min(LogitRows, length)}, model.CacheSize{Layers: 1, Sequences: most, Positions: length}
}

// NewPass allocates a state for rows of the given length, most at a time.
func NewPass(d device.Device, spec arch.Spec, length, most int) *Pass {
	z, c := Size(length, most)
	p := &Pass{Dev: d, Length: length, Most: most, cache: model.NewCache(d, spec, c)}
	p.State = model.NewState(d, spec, z, p.cache)
	return p
}

// Free frees the state.
func (p *Pass) Free() {
	p.State.Free()
	p.cache.Free()
}

// use prepares the state for n rows.
func (p *Pass) use(n int, ids []int32) {
	runs := make([]model.Run, n)
	for i := range runs {
		runs[i].Sequence = i
	}
	p.State.Use(runs, p.Length, ids)
}

// Embed runs the embedding over rows of tokens and stores the result in dst.
func (p *Pass) Embed(ctx context.Context, e *model.Module, tokens [][]int32, dst *Store) error {
	for row, ids := range tokens {
		if err := ctx.Err(); err != nil {
			return err
		}
		p.use(1, ids)
		e.Forward(p.State)
		if err := p.Keep(dst, row); err != nil {
			return err
		}
	}
	return p.Dev.Sync()
}

// Each loads row after row of src into the state and calls f, which runs what
// it likes there.
func (p *Pass) Each(ctx context.Context, src *Store, f func(s *model.State, row int) error) error {
	for row := range src.Rows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := p.At(src, row, func(s *model.State) error { return f(s, row) }); err != nil {
			return err
		}
	}
	return p.Dev.Sync()
}

// Some loads the n rows of src from row on into the state and calls f.
func (p *Pass) Some(src *Store, row, n int, f func(s *model.State) error) error {
	p.use(n, nil)
	if err := src.Load(p.Dev, p.State.At(model.Stream), row); err != nil {
		return err
	}
	return f(p.State)
}

// At loads a row of src into the state and calls f.
func (p *Pass) At(src *Store, row int, f func(s *model.State) error) error {
	p.use(1, nil)
	if err := src.Load(p.Dev, p.State.At(model.Stream), row); err != nil {
		return err
	}
	return f(p.State)
}

// Forward brings src through a module into dst, which may be src.
func (p *Pass) Forward(ctx context.Context, m *model.Module, src, dst *Store) error {
	return p.Each(ctx, src, func(s *model.State, row int) error {
		m.Forward(s)
		return p.Keep(dst, row)
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
	var counts []int
	err := p.Each(ctx, src, func(s *model.State, _ int) error {
		for i := range m.Steps[:last] {
			m.Steps[i].Run(s)
			m.Steps[i].Multiply(s)
		}
		m.Steps[last].Run(s)
		first := s.Ranges()
		if counts == nil {
			counts = make([]int, len(first)-1)
		}
		for e := range counts {
			counts[e] += int(first[e+1] - first[e])
		}
		return nil
	})
	return counts, err
}

// Keep stores the state's hidden states in a row of dst.
func (p *Pass) Keep(dst *Store, row int) error {
	return dst.Save(p.Dev, p.State.At(model.Stream), row)
}
