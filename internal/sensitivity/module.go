// Package sensitivity finds what quantizing each part of a model costs.
//
// A [Measurer] works through the half-blocks and makes what package measure
// holds: tables of candidates with their errors, ExLlamaV2's options, and the
// sensitivities that turn errors into divergence of the model's output.
package sensitivity

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/measure"
)

// A Measurer works through the half-blocks of a model in order.
//
// It carries three kinds of hidden states from module to module: Base, the
// rows whose moments make the Hessians; the reference, a few probe rows of the
// source model; and for every matrix measured so far a variant: the probe rows
// of a model in which only that matrix is quantized. At the head each variant's
// divergence from the reference gives the matrix's sensitivity.
type Measurer struct {
	Dev    device.Quantize
	Loader *model.Loader
	Pass   *stream.Pass
	Base   *stream.Store
	Spill  string            // folder for hidden states, "" for memory
	Warn   func(text string) // called when something is done less well

	Reference *Variant
	Variants  []*Variant
}

// A Variant is the hidden states of the probe rows in a model with one
// quantized matrix.
type Variant struct {
	Key   string  // of the matrix
	Error float64 // of the matrix, as in Candidate
	X     *stream.Store
}

// half is the work on one half-block.
type half struct {
	*Measurer
	ctx    context.Context
	module *model.Module
	sites  []*siteWork
	work   []*matrixWork // by matrix, in the order they run
	after  *stream.Store // the reference behind the half-block
}

// siteWork is what is gathered at one site.
type siteWork struct {
	model.Site
	hessian *quant.Hessian
	work    []*matrixWork
}

// matrixWork is the work on one matrix.
type matrixWork struct {
	linear *model.Linear
	dense  model.Dense
	table  measure.Table
	packed map[string]model.Weight // by recipe: what options need
}

// HalfBlock measures the module that is specified, which is a half-block, and
// moves all hidden states behind it.
func (m *Measurer) HalfBlock(ctx context.Context, spec model.ModuleSpec) (*measure.HalfBlock, error) {
	module, err := m.Loader.Load(m.Dev, spec)
	if err != nil {
		return nil, err
	}
	defer module.Free()
	h := &half{Measurer: m, ctx: ctx, module: module}
	h.prepare()
	defer h.free()
	out, err := h.run()
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", module.Name, err)
	}
	return out, nil
}

// prepare lists the sites and matrices.
func (h *half) prepare() {
	for _, t := range h.module.Steps {
		for _, s := range t.Sites {
			w := &siteWork{Site: s, hessian: quant.NewHessian(h.Dev, s.Linears[0].In)}
			for _, l := range s.Linears {
				w.work = append(w.work, &matrixWork{
					linear: l, dense: l.W.(model.Dense), packed: map[string]model.Weight{},
					table: measure.Table{Key: l.Name, In: l.In, Out: l.Out},
				})
			}
			h.sites, h.work = append(h.sites, w), append(h.work, w.work...)
		}
	}
}

func (h *half) run() (*measure.HalfBlock, error) {
	if err := h.moments(); err != nil {
		return nil, err
	}
	for _, s := range h.sites {
		if err := h.tabulate(s); err != nil {
			return nil, err
		}
	}
	if err := h.vary(); err != nil {
		return nil, err
	}
	out := &measure.HalfBlock{Key: h.module.Name}
	for _, w := range h.work {
		out.Tables = append(out.Tables, w.table)
	}
	var err error
	if out.Options, err = h.options(); err != nil {
		return nil, err
	}
	h.Reference.X.Close()
	h.Reference.X, h.after = h.after, nil
	return out, nil
}

// moments runs the base rows through the source's half-block, gathers the
// moments of each site, and leaves the base rows behind it.
func (h *half) moments() error {
	squares := quant.NewScalars(h.Dev, h.Base.Rows)
	defer squares.Free()
	err := h.Pass.Each(h.ctx, h.Base, func(s *model.State, row int) error {
		site := 0
		for i := range h.module.Steps {
			t := &h.module.Steps[i]
			t.Run(s)
			for range t.Sites {
				h.sites[site].hessian.Add(s.At(h.sites[site].Reads))
				site++
			}
			t.Multiply(s)
		}
		x := s.At(model.Stream)
		h.Dev.Dot(squares.Take(1), x, x)
		return h.Pass.Keep(h.Base, row)
	})
	if err != nil {
		return err
	}
	return finite(squares)
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

// tabulate measures every candidate of the linears of one site.
func (h *half) tabulate(s *siteWork) error {
	f, err := s.hessian.Factor()
	if err != nil {
		return err
	}
	defer f.Free()
	if f.Plain {
		h.Warn(PlainWarning(s.Linears))
	}
	for _, w := range s.work {
		if err := h.measure(f, w); err != nil {
			return fmt.Errorf("%s: %w", w.linear.Name, err)
		}
	}
	return nil
}

// PlainWarning names linears whose common Hessian made a [quant.Factor] Plain.
func PlainWarning(ls []*model.Linear) string {
	var list []string
	for _, l := range ls {
		list = append(list, l.Name)
	}
	return strings.Join(list, ", ") + ": rounded plainly, as no damping makes the Hessian positive definite, or it overflows"
}

// Batch is how many candidates of a matrix are quantized at once.
const Batch = 8

// measure measures every candidate of one matrix.
func (h *half) measure(f *quant.Factor, w *matrixWork) error {
	target := f.Target(w.dense.Tensor)
	defer target.Free()
	recipes := Recipes(w.linear.Role)
	s := quant.NewScalars(h.Dev, len(recipes)+1)
	defer s.Free()
	square, losses := s.Take(1), s.Take(len(recipes))
	target.Square(square)
	for lo := 0; lo < len(recipes); lo += Batch {
		if err := h.ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+Batch, len(recipes))
		h.quantize(target, w, recipes[lo:hi], losses.Columns(lo, hi))
	}
	if err := s.Fetch(); err != nil {
		return err
	}
	l := w.linear
	for i, r := range recipes {
		w.table.Candidates = append(w.table.Candidates, measure.Candidate{Recipe: r.String(), Bits: r.Size(l.In, l.Out), Error: relative(s.Values(losses)[i], -s.Values(square)[0])})
	}
	return nil
}

// quantize stores a target by some recipes, and packs what is needed again.
func (h *half) quantize(target *quant.Target, w *matrixWork, recipes []exl2.Recipe, losses tensor.Tensor) {
	targets := make([]*quant.Target, len(recipes))
	for i := range targets {
		targets[i] = target
	}
	for i, r := range quant.Quantize(targets, recipes, losses) {
		if needed(w.linear.Role, recipes[i]) {
			w.packed[recipes[i].String()] = model.Quantized{Matrix: r.Matrix()}
		}
		r.Free()
	}
}

// relative divides an error by what it is relative to; a matrix whose outputs
// are all zero has none.
func relative(err, square float64) float64 {
	if square == 0 {
		return 0
	}
	return err / square
}

// needed reports whether options or the variant use a matrix stored by r.
func needed(role arch.Role, r exl2.Recipe) bool {
	name := r.String()
	return name == probe.String() || slices.ContainsFunc(optionsFor(role), func(o exl2.Recipe) bool { return o.String() == name })
}

// vary moves the variants behind the half-block, and starts one for each of
// its matrices.
func (h *half) vary() error {
	for _, v := range h.Variants {
		if err := h.Pass.Forward(h.ctx, h.module, v.X, v.X); err != nil {
			return err
		}
	}
	for _, w := range h.work {
		e, err := ProbeError(w.table)
		if err != nil {
			return err
		}
		v := &Variant{Key: w.linear.Name, Error: e}
		w.linear.W = w.packed[probe.String()]
		if v.X, err = h.forward(); err != nil {
			return err
		}
		w.linear.W = w.dense
		h.Variants = append(h.Variants, v)
	}
	var err error
	h.after, err = h.forward()
	return err
}

// ProbeError returns the error of the recipe that sensitivities are found with,
// which a table that was read from a file may lack.
func ProbeError(t measure.Table) (float64, error) {
	for _, c := range t.Candidates {
		if c.Recipe == probe.String() {
			return c.Error, nil
		}
	}
	return 0, fmt.Errorf("table of %s: no candidate %v", t.Key, probe)
}

// forward brings the reference rows through the half-block as it is now, into
// a new store.
func (h *half) forward() (*stream.Store, error) {
	x, err := stream.NewStore(h.Reference.X.Rows, h.Reference.X.Floats, h.Spill)
	if err != nil {
		return nil, err
	}
	if err := h.Pass.Forward(h.ctx, h.module, h.Reference.X, x); err != nil {
		x.Close()
		return nil, err
	}
	return x, nil
}

// options scores ExLlamaV2's options on the reference rows.
func (h *half) options() ([]measure.Option, error) {
	var list []measure.Option
	for i := range optionsFor(h.work[0].linear.Role) {
		var o measure.Option
		for _, w := range h.work {
			l, r := w.linear, optionsFor(w.linear.Role)[i]
			l.W = w.packed[r.String()]
			o.Bits += r.Size(l.In, l.Out)
			if l.Biased {
				o.Bits += 16 * exl2.Pad(l.Out)
			}
			o.Recipes = append(o.Recipes, measure.NamedRecipe{Name: l.Name[strings.LastIndexByte(l.Name, '.')+1:], Recipe: r.String()})
		}
		loss, err := h.loss()
		if err != nil {
			return nil, err
		}
		o.Accuracy = 1 - loss
		list = append(list, o)
	}
	return list, nil
}

// loss returns the relative error of the half-block's output as it is now,
// averaged over the reference rows.
func (h *half) loss() (float64, error) {
	rows := h.Reference.X.Rows
	want := h.Dev.Alloc(tensor.F32, h.Pass.Length, h.Loader.Spec.Hidden)
	defer h.Dev.Free(want)
	s := quant.NewScalars(h.Dev, 2*rows)
	defer s.Free()
	diffs, squares := s.Take(rows), s.Take(rows)
	err := h.Pass.Each(h.ctx, h.Reference.X, func(st *model.State, row int) error {
		h.module.Forward(st)
		if err := h.after.Load(h.Dev, want, row); err != nil {
			return err
		}
		x := st.At(model.Stream)
		h.Dev.AddScaled(x, want, -1)
		h.Dev.Dot(diffs.Columns(row, row+1), x, x)
		h.Dev.Dot(squares.Columns(row, row+1), want, want)
		return nil
	})
	if err == nil {
		err = s.Fetch()
	}
	if err != nil {
		return 0, err
	}
	sum := 0.0
	for i, d := range s.Values(diffs) {
		sum += math.Sqrt(relative(d, s.Values(squares)[i]))
	}
	return sum / float64(rows), nil
}

// free frees what is packed and puts the source's weights back.
func (h *half) free() {
	for _, s := range h.sites {
		s.hessian.Free()
	}
	for _, w := range h.work {
		w.linear.W = w.dense
		for _, p := range w.packed {
			h.Dev.FreeEXL2(p.(model.Quantized).Matrix)
		}
	}
	if h.after != nil {
		h.after.Close()
	}
}
