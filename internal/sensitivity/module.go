package sensitivity

import (
	"context"
	"fmt"
	"math"
	"slices"

	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/measure"
)

// half is the work on one sublayer.
type half struct {
	*Measurer
	ctx      context.Context
	module   *model.Module
	sites    []*siteWork
	work     []*matrixWork // by matrix, in the order they run
	coverage []int         // of experts

	rows          *stream.Store // whose moments are gathered
	moves         bool          // the rows behind the sublayer, too
	only          []exl2.Recipe // of candidates, if not all
	before, after *stream.Store // the probe rows on both sides
}

// siteWork is what is gathered at one site.
type siteWork struct {
	model.Site
	hessian *quant.Hessian // while moments are gathered
	all     bool           // every token is gathered, whatever expert sees it
	work    []*matrixWork
}

// matrixWork is the work on one matrix.
type matrixWork struct {
	linear *model.Linear
	dense  model.Dense
	table  measure.Table
	square float64                 // of the outputs, as in Table.Share
	packed map[string]model.Weight // by recipe: what options need
}

// open loads a module and lists its sites and matrices.
func (m *Measurer) open(ctx context.Context, spec model.ModuleSpec) (*half, error) {
	end := m.Profile.On("measure: load", profile.Work{})
	module, err := m.Load(spec)
	end()
	if err != nil {
		return nil, err
	}
	h := &half{Measurer: m, ctx: ctx, module: module}
	for _, s := range module.Sites() {
		w := &siteWork{Site: s}
		h.sites = append(h.sites, w)
		if !s.Packable() {
			continue
		}
		for _, l := range s.Linears {
			w.work = append(w.work, &matrixWork{
				linear: l, dense: l.W.(model.Dense), packed: map[string]model.Weight{},
				table: measure.Table{Key: l.Name, Module: module.Name, Group: h.group(s, l), In: l.In, Out: l.Out},
			})
		}
		h.work = append(h.work, w.work...)
	}
	return h, nil
}

// group returns the name that matrices of experts share with those in the same
// place, "" for any other.
func (h *half) group(s model.Site, l *model.Linear) string {
	if !s.Routed {
		return ""
	}
	return h.Loader.Spec.Names.Layer(h.module.Layer, l.Part)
}

// run measures on the way to the head.
func (h *half) run() (*measure.Sublayer, error) {
	var err error
	if h.after, err = h.store(len(h.Probes)); err != nil {
		return nil, err
	}
	defer func() {
		if h.after != nil {
			h.after.Close()
		}
	}()
	if err := h.tables(); err != nil {
		return nil, err
	}
	out := &measure.Sublayer{Key: h.module.Name, Coverage: h.coverage}
	for _, w := range h.work {
		out.Tables = append(out.Tables, w.table)
	}
	if out.Options, out.MLP, err = h.options(); err != nil {
		return nil, err
	}
	h.Inputs, h.after = append(h.Inputs, h.after), nil
	return out, nil
}

// tables measures the candidates of all matrices.
func (h *half) tables() error {
	if err := h.cover(); err != nil {
		return err
	}
	for lo := 0; lo < len(h.sites); {
		hi := Together(len(h.sites), lo, h.Moments, func(i int) int { return h.sites[i].Linears[0].In })
		if err := h.moments(h.sites[lo:hi], hi == len(h.sites)); err != nil {
			return err
		}
		if err := h.tabulate(h.sites[lo:hi]); err != nil {
			return err
		}
		lo = hi
	}
	h.share()
	return nil
}

// Together returns the end of the sites, from lo on, whose moments are gathered in
// one pass: of one at least, and of as many as take up to most bytes; inputs says how
// wide site i of n is.
func Together(n, lo, most int, inputs func(i int) int) int {
	bytes, hi := 0, lo
	for hi < n {
		bytes += 4 * inputs(hi) * inputs(hi)
		if hi > lo && bytes > most {
			break
		}
		hi++
	}
	return hi
}

// cover counts what experts see, and says which are given more.
func (h *half) cover() (err error) {
	if h.coverage, err = h.Pass.Coverage(h.ctx, h.module, h.rows); err != nil {
		return err
	}
	for _, s := range h.sites {
		s.all = s.Routed && (h.AllExperts || TooFew(h.coverage[s.Expert], s.Linears[0].In))
	}
	return nil
}

// TooFew reports whether so many tokens are too few for the moments of inputs: a
// sum of fewer squares than inputs has no full rank, and what it does not know of,
// quantizing is free to get wrong.
func TooFew(tokens, inputs int) bool { return tokens < inputs }

// moments runs the rows through the source's sublayer and gathers the moments of
// some sites. The last of such passes leaves the rows behind the sublayer, if
// they are to move.
func (h *half) moments(sites []*siteWork, last bool) error {
	for _, s := range sites {
		if len(s.work) == 0 {
			continue
		}
		s.hessian = quant.NewHessian(h.Dev, s.Linears[0].In)
	}
	sums := quant.NewScalars(h.Dev, h.rows.Rows)
	defer sums.Free()
	squares := sums.Take(h.rows.Rows)
	defer h.stage("forward and moments", h.momentsCost(sites, h.rows.Rows))()
	err := h.Pass.Waves(h.ctx, h.rows, func(w stream.Wave) error {
		h.forward(w)
		return w.Each(func(l *stream.Lane, row int) error {
			x := l.State.At(model.Stream)
			h.Dev.Dot(squares.Columns(row, row+1), x, x)
			if !last || !h.moves {
				return nil
			}
			return h.keep(l, row)
		})
	})
	if err != nil {
		return err
	}
	return finite(sums)
}

// forward runs rows through the source's sublayer, and gathers what sites read.
func (h *half) forward(w stream.Wave) {
	site := 0
	for i := range h.module.Steps {
		t := &h.module.Steps[i]
		w.Do(t.Run)
		for range t.Sites {
			h.sites[site].gather(w)
			site++
		}
		if h.module.Kind == model.Head {
			return // logits are computed in parts, by others
		}
		w.Do(t.Multiply)
	}
}

// keep stores a row behind the sublayer, and among the probe rows if it is one.
func (h *half) keep(l *stream.Lane, row int) error {
	if probe, ok := slices.BinarySearch(h.Probes, row); ok {
		if err := l.Keep(h.after, probe); err != nil {
			return err
		}
	}
	return l.Keep(h.rows, row)
}

// gather adds what the site reads to its moments, if they are being gathered.
func (s *siteWork) gather(w stream.Wave) {
	if s.hessian == nil {
		return
	}
	s.hessian.Add(w.Inputs(s.Site, s.all)...)
}

// finite refuses hidden states whose squares are NaN or infinite.
func finite(squares *quant.Scalars) error {
	if err := squares.Fetch(); err != nil {
		return err
	}
	for _, v := range squares.All() {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("hidden states are NaN or infinite behind this module")
		}
	}
	return nil
}

// free frees the module and what is packed.
func (h *half) free() {
	for _, s := range h.sites {
		if s.hessian != nil {
			s.hessian.Free()
		}
	}
	for _, w := range h.work {
		w.linear.W = w.dense
		for _, p := range w.packed {
			h.Dev.FreeEXL2(p.(model.Quantized).Matrix)
		}
	}
	h.module.Free()
}
