package sensitivity

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"exl2/internal/arch"
	"exl2/internal/device"
	"exl2/internal/exl2"
	"exl2/internal/model"
	"exl2/internal/profile"
	"exl2/internal/quant"
	"exl2/internal/tensor"
	"exl2/measure"
)

// tabulate measures every candidate of the linears of some sites, whose moments are
// there.
func (h *half) tabulate(sites []*siteWork) error {
	ahead := 1
	if device.Goroutines(h.Dev) > 1 {
		ahead = len(sites)
	}
	for lo := 0; lo < len(sites); lo += ahead {
		some := sites[lo:min(lo+ahead, len(sites))]
		factors, err := h.factors(some)
		if err == nil {
			err = h.measureSites(some, factors)
		}
		for _, f := range factors {
			if f != nil {
				f.Free()
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// factors factors the moments of sites, nil for those without.
func (h *half) factors(sites []*siteWork) ([]*quant.Factor, error) {
	cost := profile.Work{}
	for _, s := range sites {
		if s.hessian != nil {
			cost.Flops += factorFlops(s.Linears[0].In)
		}
	}
	if cost.Flops == 0 {
		return nil, nil
	}
	defer h.stage("factor", cost)()
	list, errs := make([]*quant.Factor, len(sites)), make([]error, len(sites))
	device.SideBySide(h.Dev, len(sites), func(i int) {
		if m := sites[i].hessian; m != nil {
			list[i], errs[i] = m.Factor()
			sites[i].hessian = nil
		}
	})
	return list, errors.Join(errs...)
}

// measureSites measures the linears of sites, by their factors.
func (h *half) measureSites(sites []*siteWork, factors []*quant.Factor) error {
	var list []*matrixWork
	var by []*quant.Factor
	for i, f := range factors {
		if f == nil {
			continue
		}
		if f.Nearest && h.only == nil {
			h.Warn(NearestWarning(sites[i].Linears))
		}
		for _, w := range sites[i].work {
			list, by = append(list, w), append(by, f)
		}
	}
	if h.sideBySide(list) {
		return h.measureAtOnce(list, by)
	}
	for i, w := range list {
		if err := h.measure(by[i], w); err != nil {
			return fmt.Errorf("%s: %w", w.linear.Name, err)
		}
	}
	return nil
}

// sideBytes is what matrices may take that are measured at once.
const sideBytes = 256 << 20

// sideBySide reports whether matrices are measured at once: those of small models with one
// candidate each, which alone keeps few cores busy.
func (h *half) sideBySide(list []*matrixWork) bool {
	bytes := 0
	for _, w := range list {
		k, n := w.linear.In, exl2.Pad(w.linear.Out)
		bytes += 5*k*n + h.Dev.QuantizeWorkspace(k, n, 1)
	}
	return device.Goroutines(h.Dev) > 1 && len(h.only) == 1 && bytes <= sideBytes
}

// measureAtOnce measures matrices side by side, as one stage.
func (h *half) measureAtOnce(list []*matrixWork, by []*quant.Factor) error {
	cost := profile.Work{}
	for _, w := range list {
		cost.Flops += candidatesCost(w, 1).Flops
	}
	defer h.stage("gptq", cost)()
	quiet, m := *h, *h.Measurer
	m.Profile, quiet.Measurer = nil, &m
	errs := make([]error, len(list))
	device.SideBySide(h.Dev, len(list), func(i int) {
		if err := quiet.measure(by[i], list[i]); err != nil {
			errs[i] = fmt.Errorf("%s: %w", list[i].linear.Name, err)
		}
	})
	return errors.Join(errs...)
}

// NearestWarning names linears whose common Hessian made a [quant.Factor] Nearest.
func NearestWarning(ls []*model.Linear) string {
	var list []string
	for _, l := range ls {
		list = append(list, l.Name)
	}
	return strings.Join(list, ", ") + ": rounded to nearest, as no damping makes the Hessian positive definite, or it overflows"
}

// BatchFor returns how many candidates of a k x n matrix are quantized at once: as many
// as take up to so many bytes, for their codes and for the work on them, and one at
// least.
func BatchFor(d device.Quantize, bytes, k, n int) int {
	count := 1
	for count < most && (count+1)*k*n+d.QuantizeWorkspace(k, n, count+1) <= bytes {
		count++
	}
	return count
}

// most is more candidates than any matrix has.
const most = 128

// measure measures every candidate of one matrix.
func (h *half) measure(f *quant.Factor, w *matrixWork) error {
	end := h.stage("target", profile.Work{})
	target := f.Target(w.dense.Tensor)
	end()
	defer target.Free()
	recipes := h.only
	if recipes == nil {
		recipes = Recipes(w.linear.Role)
	}
	s := quant.NewScalars(h.Dev, len(recipes)+1)
	defer s.Free()
	square, losses := s.Take(1), s.Take(len(recipes))
	end = h.stage("square", profile.Work{Flops: 2 * float64(w.linear.In) * float64(w.linear.In) * float64(w.linear.Out)})
	target.Square(square)
	end()
	batch := BatchFor(h.Dev, h.Work, w.linear.In, exl2.Pad(w.linear.Out))
	for lo := 0; lo < len(recipes); lo += batch {
		if err := h.ctx.Err(); err != nil {
			return err
		}
		hi := min(lo+batch, len(recipes))
		h.quantize(target, w, recipes[lo:hi], losses.Columns(lo, hi))
	}
	if err := s.Fetch(); err != nil {
		return err
	}
	l := w.linear
	w.square = -s.Values(square)[0]
	for i, r := range recipes {
		w.table.Candidates = append(w.table.Candidates, measure.Candidate{Recipe: r.String(), Bits: r.Size(l.In, l.Out), Error: relative(s.Values(losses)[i], w.square)})
	}
	return nil
}

// quantize stores a target by some recipes, and packs what is needed again.
func (h *half) quantize(target *quant.Target, w *matrixWork, recipes []exl2.Recipe, losses tensor.Tensor) {
	targets := make([]*quant.Target, len(recipes))
	for i := range targets {
		targets[i] = target
	}
	end := h.stage("gptq", candidatesCost(w, len(recipes)))
	list := quant.Quantize(targets, recipes, losses)
	end()
	defer h.stage("pack", profile.Work{})()
	packed := make([]device.Matrix, len(list))
	device.SideBySide(h.Dev, len(list), func(i int) {
		if h.needed(w.linear.Role, recipes[i]) {
			packed[i] = list[i].Matrix()
		}
		list[i].Free()
	})
	for i, m := range packed {
		if m != nil {
			w.packed[recipes[i].String()] = model.Quantized{Matrix: m}
		}
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

// needed reports whether a matrix that is stored by r is used: by options, or by
// what there is no choice of.
func (h *half) needed(role arch.Role, r exl2.Recipe) bool {
	name := r.String()
	return h.only != nil || slices.ContainsFunc(optionsFor(role), func(o exl2.Recipe) bool { return o.String() == name })
}
