package measure

import (
	"context"
	"fmt"
	"math"
	"strings"

	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/quant"
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
	ctx     context.Context
	module  model.Module
	linears []*model.Linear
	dense   []model.Weight
	tables  []Table
	packed  []map[string]model.Weight // by matrix and recipe: what options need
	after   *stream.Store             // the reference behind the half-block
}

// HalfBlock measures module i, which is a half-block, and moves all hidden
// states behind it.
func (m *Measurer) HalfBlock(ctx context.Context, i int) (*HalfBlock, error) {
	module, err := m.Loader.Load(m.Dev, i)
	if err != nil {
		return nil, err
	}
	defer module.Free()
	h := &half{Measurer: m, ctx: ctx, module: module, linears: model.Linears(module)}
	for _, l := range h.linears {
		h.dense = append(h.dense, l.W)
		h.packed = append(h.packed, map[string]model.Weight{})
	}
	defer h.free()
	out, err := h.run()
	if err != nil {
		return nil, fmt.Errorf("measure %s: %w", module.Name(), err)
	}
	return out, nil
}

func (h *half) run() (*HalfBlock, error) {
	hessians, err := h.hessians()
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, x := range hessians {
			x.Free()
		}
	}()
	for i, s := range h.module.Steps() {
		if err := h.tabulate(hessians, i, s); err != nil {
			return nil, err
		}
	}
	if err := h.vary(); err != nil {
		return nil, err
	}
	out := &HalfBlock{Key: h.module.Name(), Tables: h.tables}
	out.Options, err = h.options()
	if err != nil {
		return nil, err
	}
	h.Reference.X.Close()
	h.Reference.X = h.after
	h.after = nil
	return out, nil
}

// hessians runs the base rows through the source's half-block, gathers the
// moments of each step, and leaves the base rows behind it.
func (h *half) hessians() ([]*quant.Hessian, error) {
	steps := h.module.Steps()
	list := make([]*quant.Hessian, 0, len(steps))
	for _, s := range steps {
		if len(s.Linears) > 0 {
			list = append(list, quant.NewHessian(h.Dev, s.Linears[0].In))
		}
	}
	return list, h.Pass.Each(h.ctx, h.Base, func(s *model.State, row, n int) error {
		for i, step := range steps {
			step.Run(s)
			if len(step.Linears) > 0 {
				list[i].Add(step.Reads(s))
			}
		}
		if err := h.finite(s.X); err != nil {
			return err
		}
		return h.Pass.Keep(h.Base, row)
	})
}

// finite refuses hidden states that are NaN or infinite.
func (h *half) finite(x tensor.Tensor) error {
	if v := h.Dev.Dot(x, x); math.IsNaN(v) || math.IsInf(v, 0) {
		return fmt.Errorf("hidden states are NaN or infinite behind this module")
	}
	return nil
}

// tabulate measures every candidate of the linears of one step.
func (h *half) tabulate(hessians []*quant.Hessian, step int, s model.Step) error {
	if len(s.Linears) == 0 {
		return nil
	}
	f, err := hessians[step].Factor()
	if err != nil {
		return err
	}
	defer f.Free()
	if f.Plain {
		h.Warn(PlainWarning(s.Linears))
	}
	for _, l := range s.Linears {
		if err := h.table(f, l); err != nil {
			return fmt.Errorf("%s: %w", l.Name, err)
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

// table measures every candidate of one linear.
func (h *half) table(f *quant.Factor, l *model.Linear) error {
	i := len(h.tables)
	target := f.Target(h.dense[i].(model.Dense).Tensor)
	defer target.Free()
	t := Table{Key: l.Name, In: l.In, Out: l.Out}
	square := target.Square()
	for _, r := range Recipes(i, len(h.linears)) {
		if err := h.ctx.Err(); err != nil {
			return err
		}
		q := target.Quantize(r)
		t.Candidates = append(t.Candidates, Candidate{r, r.Size(l.In, l.Out), relative(q.Error, square)})
		if h.needed(i, r) {
			packed, err := q.Pack()
			if err != nil {
				return err
			}
			h.packed[i][r.String()] = model.Quantized{Matrix: h.Dev.LoadEXL2(packed, l.Out)}
		}
		q.Free()
	}
	h.tables = append(h.tables, t)
	return h.Dev.Sync()
}

// relative divides an error by what it is relative to; a matrix whose outputs
// are all zero has none.
func relative(err, square float64) float64 {
	if square == 0 {
		return 0
	}
	return err / square
}

// needed reports whether options or the variant use matrix i stored by r.
func (h *half) needed(i int, r exl2.Recipe) bool {
	name := r.String()
	if name == probe.String() {
		return true
	}
	for _, o := range optionsFor(len(h.linears)) {
		if o[i].String() == name {
			return true
		}
	}
	return false
}

// vary moves the variants behind the half-block, and starts one for each of
// its matrices.
func (h *half) vary() error {
	for _, v := range h.Variants {
		if err := h.Pass.Forward(h.ctx, h.module, v.X, v.X); err != nil {
			return err
		}
	}
	for i, l := range h.linears {
		e, err := h.tables[i].ProbeError()
		if err != nil {
			return err
		}
		v := &Variant{Key: l.Name, Error: e}
		l.W = h.packed[i][probe.String()]
		if v.X, err = h.forward(); err != nil {
			return err
		}
		l.W = h.dense[i]
		h.Variants = append(h.Variants, v)
	}
	var err error
	h.after, err = h.forward()
	return err
}

// ProbeError returns the error of the recipe that sensitivities are found with,
// which a table that was read from a file may lack.
func (t Table) ProbeError() (float64, error) {
	for _, c := range t.Candidates {
		if c.Recipe.String() == probe.String() {
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
	return x, h.Pass.Forward(h.ctx, h.module, h.Reference.X, x)
}

// options scores ExLlamaV2's options on the reference rows.
func (h *half) options() ([]Option, error) {
	var list []Option
	for _, recipes := range optionsFor(len(h.linears)) {
		var o Option
		for i, l := range h.linears {
			r := recipes[i]
			l.W = h.packed[i][r.String()]
			o.Bits += r.Size(l.In, l.Out)
			if !l.Bias.Nil() {
				o.Bits += 16 * exl2.Pad(l.Out)
			}
			o.Recipes = append(o.Recipes, NamedRecipe{l.Name[strings.LastIndexByte(l.Name, '.')+1:], r})
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
	want := h.Dev.Alloc(tensor.F32, h.Pass.State.X.Rows, h.Pass.State.X.Cols)
	defer h.Dev.Free(want)
	sum := 0.0
	err := h.Pass.Each(h.ctx, h.Reference.X, func(s *model.State, row, n int) error {
		h.module.Forward(s)
		y := want.Slice(0, s.X.Rows)
		if err := h.after.Load(h.Dev, y, row); err != nil {
			return err
		}
		h.Dev.AddScaled(s.X, y, -1)
		for r := range n {
			lo, hi := r*h.Pass.Length, (r+1)*h.Pass.Length
			d, y := s.X.Slice(lo, hi), y.Slice(lo, hi)
			sum += math.Sqrt(relative(h.Dev.Dot(d, d), h.Dev.Dot(y, y)))
		}
		return nil
	})
	return sum / float64(h.Reference.X.Rows), err
}

// free frees what is packed and puts the source's weights back.
func (h *half) free() {
	for i, l := range h.linears {
		l.W = h.dense[i]
		for _, w := range h.packed[i] {
			h.Dev.FreeEXL2(w.(model.Quantized).Matrix)
		}
	}
	if h.after != nil {
		h.after.Close()
	}
}
