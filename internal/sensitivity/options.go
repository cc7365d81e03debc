package sensitivity

import (
	"math"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
	"exl2/internal/stream"
	"exl2/internal/tensor"
	"exl2/measure"
)

// options scores ExLlamaV2's options on the probe rows: of a parallel block
// those of attention and of the MLP by themselves.
func (h *half) options() (first, second []measure.Option, err error) {
	for i, t := range optionTables {
		var work []*matrixWork
		for _, w := range h.work {
			if slices.Contains(t.roles, w.linear.Role) {
				work = append(work, w)
			}
		}
		list, err := h.optionsOf(work, len(t.options))
		if err != nil {
			return nil, nil, err
		}
		if i > 0 && h.module.Kind == model.Parallel {
			second = list
		} else {
			first = append(first, list...)
		}
	}
	return first, second, nil
}

// optionsOf scores n options of some matrices of the sublayer.
func (h *half) optionsOf(work []*matrixWork, n int) ([]measure.Option, error) {
	if len(work) == 0 {
		return nil, nil
	}
	list, twins := make([]measure.Option, n), make([]*model.Module, n)
	for i := range list {
		o := &list[i]
		twins[i] = h.with(work, func(w *matrixWork) model.Weight {
			l, r := w.linear, optionsFor(w.linear.Role)[i]
			o.Bits += r.Size(l.In, l.Out)
			if l.Biased {
				o.Bits += 16 * exl2.Pad(l.Out)
			}
			add(o, measure.NamedRecipe{Name: OptionName(h.module.Kind, l.LinearSpec), Recipe: r.String()})
			return w.packed[r.String()]
		})
		defer twins[i].Free()
	}
	losses, err := h.losses(twins)
	if err != nil {
		return nil, err
	}
	for i, loss := range losses {
		list[i].Accuracy = 1 - loss
	}
	return list, nil
}

// with returns a twin of the module in which some matrices have other weights.
func (h *half) with(work []*matrixWork, weight func(w *matrixWork) model.Weight) *model.Module {
	twin, at := h.module.Twin(), map[string]*model.Linear{}
	for _, l := range twin.AllLinears() {
		at[l.Name] = l
	}
	for _, w := range work {
		at[w.linear.Name].W = weight(w)
	}
	return twin
}

// add adds a recipe unless matrices of that name, other experts', have it.
func add(o *measure.Option, r measure.NamedRecipe) {
	if !slices.ContainsFunc(o.Recipes, func(x measure.NamedRecipe) bool { return x.Name == r.Name }) {
		o.Recipes = append(o.Recipes, r)
	}
}

// expertNames are what ExLlamaV2 calls the matrices of experts.
var expertNames = map[arch.Role]string{arch.Gate: "w1", arch.Up: "w3", arch.Down: "w2"}

// OptionName returns the name that a matrix of a module has in options.
func OptionName(kind model.Kind, l model.LinearSpec) string {
	if kind == model.Experts {
		return expertNames[l.Role]
	}
	return l.Name[strings.LastIndexByte(l.Name, '.')+1:]
}

// scored is every how many of the probe rows options are scored on: accuracies are
// used where a file has nothing better, and every option takes a pass.
const scored = 2

// losses returns the relative errors of the outputs of variants of the sublayer,
// averaged over the rows that options are scored on.
func (h *half) losses(variants []*model.Module) ([]float64, error) {
	rows, n := (len(h.Probes)+scored-1)/scored, len(variants)
	defer h.stage("options", h.forwardCost(n*rows))()
	runs, run := h.Pass.Rows(rows)
	wanted := h.Pass.Scratch(n*runs, tensor.F32, min(rows, h.Pass.Most)*h.Pass.Length, h.Loader.Spec.Handed())
	defer wanted.Free()
	s := quant.NewScalars(h.Dev, 2*n*rows)
	defer s.Free()
	diffs, squares := s.Take(n*rows), s.Take(n*rows)
	err := h.Pass.Side(h.ctx, n*runs, func(l *stream.Lane, i int) error {
		lo, hi := run(i % runs)
		st, err := l.LoadEvery(h.before, lo*scored, scored, hi-lo)
		if err != nil {
			return err
		}
		variants[i/runs].Forward(st)
		x := st.At(model.Stream)
		want := wanted.Of(l).Slice(0, x.Rows)
		if err := h.after.LoadEvery(h.Dev, want, lo*scored, scored, hi-lo); err != nil {
			return err
		}
		first := i / runs * rows
		hidden := h.Loader.Spec.Hidden // what is handed on beside is not the sublayer's
		h.Dev.Distances(diffs.Columns(first+lo, first+hi), squares.Columns(first+lo, first+hi), x.Columns(0, hidden), want.Columns(0, hidden))
		return nil
	})
	if err == nil {
		err = s.Fetch()
	}
	if err != nil {
		return nil, err
	}
	losses := make([]float64, n)
	for i, d := range s.Values(diffs) {
		losses[i/rows] += math.Sqrt(relative(d, s.Values(squares)[i]))
	}
	for i := range losses {
		losses[i] /= float64(rows)
	}
	return losses, nil
}
