package sensitivity

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/tensor"
)

// gatherer gathers the moments of columns (quant.Columns) of a module's linears.
type gatherer struct {
	*Measurer
	wanted  map[*model.Linear]bool
	names   []string
	moments map[string]*[2]*quant.ColumnMoments
	half    int // of the rows
	err     error
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

// through passes linears, and sees them.
func (g *gatherer) through(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
	model.PassBack(d, list, dx, dys, x)
	for i, l := range list {
		g.see(l, x, dys[i])
	}
}

// see adds what a linear reads and the gradient of what it computes.
func (g *gatherer) see(l *model.Linear, x, dy tensor.Tensor) {
	if !g.wanted[l] || g.err != nil {
		return
	}
	if g.moments[l.Name] == nil {
		g.names = append(g.names, l.Name)
		g.moments[l.Name] = &[2]*quant.ColumnMoments{quant.NewColumnMoments(g.Dev, l.Out), quant.NewColumnMoments(g.Dev, l.Out)}
	}
	scaled := g.Dev.Alloc(tensor.F32, dy.Rows, dy.Cols)
	defer g.Dev.Free(scaled)
	if g.err = g.scale(scaled, dy, x); g.err == nil {
		g.moments[l.Name][g.half].Add(scaled)
	}
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
		if g.err != nil {
			return g.err
		}
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
	return g.err
}

func (g *gatherer) free() {
	for _, m := range g.moments {
		m[0].Free()
		m[1].Free()
	}
	g.moments, g.names = nil, nil
}
