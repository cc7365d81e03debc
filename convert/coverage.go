package convert

import (
	"slices"

	"exl2/internal/model"
	"exl2/internal/sensitivity"
)

// A Coverage says how many calibration tokens the experts of a mixture have seen.
type Coverage struct {
	Key     string `json:"key"` // of the mixture
	Experts int    `json:"experts"`
	Least   int    `json:"least"`
	Median  int    `json:"median"`
	Most    int    `json:"most"`
	OnAll   int    `json:"on_all"` // experts that were calibrated on all tokens
}

// coverage reports on the mixtures of experts, in the order of the layers.
func (b *build) coverage() ([]Coverage, error) {
	var list []Coverage
	for _, m := range b.run.src.loader.Decoder() {
		if !m.Mixture() {
			continue
		}
		var e moduleError
		if err := b.run.job.MustReadJSON(b.file(m.Name+".json"), &e); err != nil {
			return nil, err
		}
		if len(e.Coverage) > 0 {
			list = append(list, b.run.covers(m, e.Coverage))
		}
	}
	return list, nil
}

// covers reports on one mixture; tokens are those that each expert has seen.
func (r *run) covers(m model.ModuleSpec, tokens []int) Coverage {
	sorted := slices.Sorted(slices.Values(tokens))
	n := len(sorted)
	c := Coverage{Key: m.Name, Experts: n, Least: sorted[0], Median: sorted[n/2], Most: sorted[n-1]}
	for _, seen := range tokens {
		if r.opts.AllExperts || sensitivity.TooFew(seen, r.src.loader.Spec.Hidden) {
			c.OnAll++
		}
	}
	return c
}
