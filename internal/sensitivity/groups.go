package sensitivity

import "slices"

// groups lists the matrices that are varied together: each alone, but those that
// experts have in the same place.
func (h *half) groups() [][]*matrixWork {
	var list [][]*matrixWork
	at := map[string]int{}
	for _, w := range h.work {
		key := w.table.VariantKey()
		if i, ok := at[key]; ok {
			list[i] = append(list[i], w)
			continue
		}
		at[key] = len(list)
		list = append(list, []*matrixWork{w})
	}
	return list
}

// rareShare is the part of the mean number of tokens that an expert is taken to
// see at least: measurement rows are few, and one that is seldom chosen in them is
// needed elsewhere.
const rareShare = 0.25

// share finds what each matrix of a group contributes to the group's outputs: their
// squares, for as many tokens as its expert sees.
func (h *half) share() {
	tokens := 0
	for _, n := range h.coverage {
		tokens += n
	}
	for _, group := range h.groups() {
		if group[0].table.Group == "" {
			continue
		}
		sum := 0.0
		for _, w := range group {
			seen := float64(h.coverage[w.linear.Expert])
			counted := max(seen, rareShare*float64(tokens)/float64(len(h.coverage)))
			if h.gatheredAll(w) {
				seen = float64(h.rows.Rows * h.Pass.Length)
			}
			w.table.Share = w.square * relative(counted, seen)
			sum += w.table.Share
		}
		for _, w := range group {
			w.table.Share = relative(w.table.Share, sum)
		}
	}
}

// gatheredAll reports whether a matrix's moments are those of all tokens.
func (h *half) gatheredAll(w *matrixWork) bool {
	return slices.ContainsFunc(h.sites, func(s *siteWork) bool { return s.all && slices.Contains(s.work, w) })
}
