package sensitivity

import (
	"math"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/quant"
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
	var list []measure.Option
	for i := range n {
		var o measure.Option
		for _, w := range work {
			l, r := w.linear, optionsFor(w.linear.Role)[i]
			l.W = w.packed[r.String()]
			o.Bits += r.Size(l.In, l.Out)
			if l.Biased {
				o.Bits += 16 * exl2.Pad(l.Out)
			}
			add(&o, measure.NamedRecipe{Name: OptionName(h.module.Kind, l.LinearSpec), Recipe: r.String()})
		}
		loss, err := h.loss()
		if err != nil {
			return nil, err
		}
		o.Accuracy = 1 - loss
		list = append(list, o)
	}
	for _, w := range work {
		w.linear.W = w.dense
	}
	return list, nil
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

// loss returns the relative error of the sublayer's output as it is now, averaged over
// the rows that options are scored on.
func (h *half) loss() (float64, error) {
	rows := (len(h.Probes) + scored - 1) / scored
	defer h.stage("options", h.forwardCost(rows))()
	want := h.Dev.Alloc(tensor.F32, h.Pass.Length, h.Loader.Spec.Hidden)
	defer h.Dev.Free(want)
	s := quant.NewScalars(h.Dev, 2*rows)
	defer s.Free()
	diffs, squares := s.Take(rows), s.Take(rows)
	err := h.Pass.Each(h.ctx, h.before, func(st *model.State, probe int) error {
		if probe%scored != 0 {
			return nil
		}
		h.module.Forward(st)
		if err := h.after.Load(h.Dev, want, probe); err != nil {
			return err
		}
		x, row := st.At(model.Stream), probe/scored
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
