package sensitivity

import (
	"exl2/internal/profile"
)

// stage begins a stage of the way there, or of the way back.
func (h *half) stage(name string, w profile.Work) (end func()) {
	if h.only != nil {
		return h.Profile.On(h.wayBack()+name, w)
	}
	return h.Profile.On("measure: "+name, w)
}

// wayBack is what stages of the way back are called by.
func (m *Measurer) wayBack() string {
	if m.Columns != nil {
		return "trace: "
	}
	return "back: "
}

// forwardCost counts the products of so many rows through the module.
func (h *half) forwardCost(rows int) profile.Work {
	flops := 0.0
	for _, s := range h.sites {
		for _, l := range s.Linears {
			flops += 2 * float64(rows*h.Pass.Length) * float64(l.In) * float64(l.Out)
		}
	}
	return profile.Work{Flops: flops}
}

// momentsCost counts forwardCost and the moments of some sites, of which half.
func (h *half) momentsCost(sites []*siteWork, rows int) profile.Work {
	w := h.forwardCost(rows)
	for _, s := range sites {
		k := float64(s.Linears[0].In)
		w.Flops += float64(rows*h.Pass.Length) * k * k
	}
	return w
}

// factorFlops counts Cholesky's factorization and the inverse of its factor.
func factorFlops(k int) float64 {
	n := float64(k)
	return 4.0 / 3 * n * n * n
}

// candidatesCost counts the products of error feedback; the search for scales, which
// takes longer, is no products.
func candidatesCost(w *matrixWork, count int) profile.Work {
	k, n := float64(w.linear.In), float64(w.linear.Out)
	return profile.Work{Flops: float64(count) * k * k * n}
}
