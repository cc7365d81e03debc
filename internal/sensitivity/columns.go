package sensitivity

import (
	"math"
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
	moments map[string]*[2]*quant.ColumnMoments
}

// gather begins with a module. Experts see too few tokens.
func (m *Measurer) gather(module *model.Module) *gatherer {
	wanted := map[*model.Linear]bool{}
	for _, site := range module.Sites() {
		for _, l := range site.Linears {
			wanted[l] = m.Columns != nil && !site.Routed && site.Packable()
		}
	}
	return &gatherer{Measurer: m, wanted: wanted, moments: map[string]*[2]*quant.ColumnMoments{}}
}

// wave calls f for rows side by side, and adds what it sees, in the order of rows.
func (g *gatherer) wave(w stream.Wave, f func(l *stream.Lane, row int, see *sight) error) error {
	seen := make([]*sight, len(w.Lanes))
	err := w.Each(func(l *stream.Lane, row int) error {
		s := &sight{gatherer: g, half: row % 2, alone: len(w.Lanes) == 1}
		seen[l.Number] = s
		if err := f(l, row, s); err != nil {
			return err
		}
		return s.err
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
	err   error
}

// through passes linears, and sees them.
func (s *sight) through(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
	model.PassBack(d, list, dx, dys, x)
	for i, l := range list {
		if s.wanted[l] && s.err == nil {
			s.see(l, x, dys[i])
		}
	}
}

// see adds what a linear reads and the gradient of what it computes.
func (s *sight) see(l *model.Linear, x, dy tensor.Tensor) {
	scaled := s.Dev.Alloc(tensor.F32, dy.Rows, dy.Cols)
	s.kept = append(s.kept, scaled)
	if s.err = s.scale(scaled, dy, x); s.err != nil {
		return
	}
	s.list = append(s.list, s.of(l)[s.half].Moments(scaled)...)
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

// of returns the moments of a linear's columns, of both halves.
func (g *gatherer) of(l *model.Linear) *[2]*quant.ColumnMoments {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.moments[l.Name] == nil {
		g.names = append(g.names, l.Name)
		g.moments[l.Name] = &[2]*quant.ColumnMoments{quant.NewColumnMoments(g.Dev, l.Out), quant.NewColumnMoments(g.Dev, l.Out)}
	}
	return g.moments[l.Name]
}

// scale adds dy, its rows times the norms of x's, to y.
func (g *gatherer) scale(y, dy, x tensor.Tensor) error {
	d := g.Dev
	wide := d.Alloc(tensor.F32, x.Rows, x.Cols)
	defer d.Free(wide)
	d.Copy(wide, x)
	s := quant.NewScalars(d, x.Rows)
	defer s.Free()
	d.Dot(s.Take(x.Rows), wide, wide)
	if err := s.Fetch(); err != nil {
		return err
	}
	norms, places := make([]float32, x.Rows), make([]int32, x.Rows)
	for i, v := range s.All() {
		norms[i], places[i] = float32(math.Sqrt(v)), int32(i)
	}
	weights, rows := d.Alloc(tensor.F32, x.Rows, 1), d.Alloc(tensor.I32, x.Rows, 1)
	defer func() { d.Free(weights); d.Free(rows) }()
	d.Upload(weights, tensor.BytesOf(norms))
	d.Upload(rows, tensor.BytesOf(places))
	d.Combine(y, dy, rows, weights, 1)
	return nil
}

// pass hands over what is gathered, and frees it.
func (g *gatherer) pass() error {
	defer g.free()
	for _, name := range g.names {
		a, err := g.moments[name][0].Fetch()
		if err != nil {
			return err
		}
		b, err := g.moments[name][1].Fetch()
		if err != nil {
			return err
		}
		g.Columns(name, [2]*quant.Columns{a, b})
	}
	return nil
}

func (g *gatherer) free() {
	for _, m := range g.moments {
		m[0].Free()
		m[1].Free()
	}
	g.moments, g.names = nil, nil
}
