package infer

import (
	"math"
	"slices"
)

// A candidate is a token and its probability. Filters work on candidates
// sorted by falling probability, ties by rising token; the probabilities need
// not sum to one. A filter keeps a beginning of the list, or, typical, a part
// of it in the same order; it never keeps nothing.
type candidate struct {
	token int32
	p     float64
}

// distribution turns logits into sorted candidates. Tokens whose logit is NaN
// or minus infinity are left out; infinite ones share all probability.
func distribution(logits []float32, temperature float64) []candidate {
	top := math.Inf(-1)
	for _, v := range logits {
		if float64(v) > top {
			top = float64(v)
		}
	}
	list := make([]candidate, 0, len(logits))
	for i, v := range logits {
		p := 0.0
		switch {
		case math.IsInf(top, 1):
			if math.IsInf(float64(v), 1) {
				p = 1
			}
		case !math.IsNaN(float64(v)):
			p = math.Exp((float64(v) - top) / temperature)
		}
		if p > 0 {
			list = append(list, candidate{int32(i), p})
		}
	}
	slices.SortFunc(list, func(a, b candidate) int {
		switch {
		case a.p > b.p:
			return -1
		case a.p < b.p:
			return 1
		}
		return int(a.token - b.token)
	})
	return list
}

func total(list []candidate) float64 {
	sum := 0.0
	for _, c := range list {
		sum += c.p
	}
	return sum
}

// topK keeps the k most likely tokens; 0 keeps all.
func topK(list []candidate, k int) []candidate {
	if k <= 0 || k >= len(list) {
		return list
	}
	return list[:k]
}

// topP keeps the most likely tokens up to the first with which their share of
// the probability reaches p (nucleus sampling, Holtzman et al. 2020); 0 and 1
// keep all.
func topP(list []candidate, p float64) []candidate {
	if p <= 0 || p >= 1 {
		return list
	}
	limit, sum := p*total(list), 0.0
	for i, c := range list {
		if sum += c.p; sum >= limit {
			return list[:i+1]
		}
	}
	return list
}

// minP keeps the tokens at least p times as likely as the most likely one; 0
// keeps all.
func minP(list []candidate, p float64) []candidate {
	for i, c := range list {
		if i > 0 && c.p < p*list[0].p {
			return list[:i]
		}
	}
	return list
}

// typical keeps the tokens whose surprise is nearest to the distribution's
// entropy, up to the first with which their share of the probability reaches p
// (locally typical sampling, Meister et al. 2023); 0 and 1 keep all.
func typical(list []candidate, p float64) []candidate {
	if p <= 0 || p >= 1 {
		return list
	}
	sum, entropy := total(list), 0.0
	for _, c := range list {
		entropy -= c.p / sum * math.Log(c.p/sum)
	}
	order := make([]int, len(list))
	distance := make([]float64, len(list))
	for i, c := range list {
		order[i], distance[i] = i, math.Abs(-math.Log(c.p/sum)-entropy)
	}
	slices.SortStableFunc(order, func(a, b int) int {
		switch {
		case distance[a] < distance[b]:
			return -1
		case distance[a] > distance[b]:
			return 1
		}
		return 0
	})
	share := 0.0
	for n, i := range order {
		if share += list[i].p / sum; share >= p {
			order = order[:n+1]
			break
		}
	}
	slices.Sort(order)
	kept := make([]candidate, len(order))
	for n, i := range order {
		kept[n] = list[i]
	}
	return kept
}
