package sensitivity

import (
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
	moments map[string]*quant.ColumnMoments
	half    int // of the rows
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

// through passes linears, and sees them.
func (g *gatherer) through(d device.Backward, list []*model.Linear, dx tensor.Tensor, dys []tensor.Tensor, x tensor.Tensor) {
	model.PassBack(d, list, dx, dys, x)
	for i, l := range list {
		g.see(l, x, dys[i])
	}
}

// see adds what a linear reads and the gradient of what it computes.
func (g *gatherer) see(l *model.Linear, x, dy tensor.Tensor) {
	if !g.wanted[l] {
		return
	}
	if g.moments[l.Name] == nil {
		g.names = append(g.names, l.Name)
		g.moments[l.Name] = quant.NewColumnMoments(g.Dev, l.Out)
	}
	scaled := g.Dev.Alloc(tensor.F32, dy.Rows, dy.Cols)
	defer g.Dev.Free(scaled)
	g.Dev.ByNorms(scaled, dy, x)
	g.moments[l.Name].Add(g.half, scaled)
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
