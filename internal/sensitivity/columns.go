package sensitivity

import (
	"sync"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
)

// gatherer gathers the moments of columns (quant.Columns) of a module's linears.
type gatherer struct {
	*Measurer
	wanted  map[*model.Linear]bool
	mu      sync.Mutex // of names and moments
	names   []string
	moments map[string]*quant.ColumnMoments
}

// gather begins with a module. Experts see too few tokens.
func (m *Measurer) gather(module *model.Module) *gatherer {
	wanted := map[*model.Linear]bool{}
	for _, site := range module.Sites() {
		for _, l := range site.Linears {
			wanted[l] = m.Columns != nil && !site.Routed && site.Packable()
		}
	}
	return &gatherer{Measurer: m, wanted: wanted, moments: map[string]*quant.ColumnMoments{}}
}

// wave calls f for rows side by side, and adds what it sees, in the order of rows.
func (g *gatherer) wave(w stream.Wave, f func(l *stream.Lane, row int, see *sight) error) error {
	seen := make([]*sight, len(w.Lanes))
	err := w.Each(func(l *stream.Lane, row int) error {
		s := &sight{gatherer: g, half: row % 2, alone: len(w.Lanes) == 1}
		seen[l.Number] = s
		return f(l, row, s)
	})
	var list []device.Moment
	for _, s := range seen {
		if s != nil {
			list = append(list, s.list...)
			defer s.free()
		}
	}
	if err == nil {
		quant.AddMoments(g.Dev, list)
	}
	return err
}

// A sight is what a row's way back shows.
type sight struct {
	*gatherer
	half  int  // of the rows
	alone bool // no other row is on its way: what is seen can be added at once
	list  []device.Moment
	kept  []tensor.Tensor // that list is of
}

// through passes linears, and sees them.
func (s *sight) through(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
	model.PassBack(d, list, dx, dys, x)
	for i, l := range list {
		if s.wanted[l] {
			s.see(l, x, dys[i])
		}
	}
}

// see adds what a linear reads and the gradient of what it computes.
func (s *sight) see(l *model.Linear, x, dy tensor.Tensor) {
	m := s.of(l)
	scaled := s.Dev.Alloc(tensor.F32, dy.Rows, dy.Cols)
	s.kept = append(s.kept, scaled)
	s.Dev.ByNorms(scaled, dy, x)
	s.list = append(s.list, m.Moments(s.half, scaled)...)
	if s.alone {
		quant.AddMoments(s.Dev, s.list)
		s.free()
	}
}

func (s *sight) free() {
	for _, t := range s.kept {
		s.Dev.Free(t)
	}
	s.list, s.kept = nil, nil
}

// of returns the moments of a linear's columns.
func (g *gatherer) of(l *model.Linear) *quant.ColumnMoments {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.moments[l.Name] == nil {
		g.names = append(g.names, l.Name)
		g.moments[l.Name] = quant.NewColumnMoments(g.Dev, l.Out)
	}
	return g.moments[l.Name]
}

// pass hands over what is gathered, and frees it.
func (g *gatherer) pass() error {
	defer g.free()
	for _, name := range g.names {
		c, err := g.moments[name].Fetch()
		if err != nil {
			return err
		}
		g.Columns(name, c)
	}
	return nil
}

func (g *gatherer) free() {
	for _, m := range g.moments {
		m.Free()
	}
	g.moments, g.names = nil, nil
}
