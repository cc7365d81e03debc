package infer

import (
	"context"
	"fmt"

	"exl2/internal/score"
)

// A Score is how well a model predicts rows of tokens, and, with a reference,
// how far its predictions are from the reference's.
type Score struct {
	Likelihood score.Likelihood
	Comparison score.Comparison
}

// Perplexity scores rows of tokens, each a sequence of its own whose first
// token is not predicted. reference may be nil. step is called after every row.
func (e *Engine) Perplexity(ctx context.Context, reference *Engine, rows [][]int32, step func(s *Score)) (*Score, error) {
	s := &Score{}
	for _, ids := range rows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err := e.scoreRow(s, reference, ids); err != nil {
			return nil, err
		}
		step(s)
	}
	return s, nil
}

// scoreRow scores one row. The reference's logits of the whole row are kept.
func (e *Engine) scoreRow(s *Score, reference *Engine, ids []int32) error {
	var want [][]float32
	if reference != nil {
		if err := reference.all(ids, func(_ int, rows [][]float32) { want = append(want, rows...) }); err != nil {
			return fmt.Errorf("reference: %w", err)
		}
	}
	return e.all(ids, func(first int, rows [][]float32) {
		n := min(len(rows), len(ids)-1-first) // the last position predicts nothing that is known
		got := make([]position, n)
		score.Each(n, func(i int) {
			at, row := first+i, score.NewRow(rows[i])
			got[i].logProb = row.LogLikelihood(ids[at+1])
			if reference != nil {
				got[i].kl = score.Divergence(score.NewRow(want[at]), row)
				got[i].agrees = score.ArgMax(want[at]) == score.ArgMax(rows[i])
			}
		})
		for _, p := range got {
			s.Likelihood.Add(p.logProb)
			if reference != nil {
				s.Comparison.Add(p.kl, p.agrees)
			}
		}
	})
}

// all processes ids as a sequence of their own and calls f with the logits of all
// positions, some at a time: first is the position of the first row.
func (e *Engine) all(ids []int32, f func(first int, rows [][]float32)) error {
	return e.Step([]Run{{IDs: ids, Logits: len(ids)}}, func(_, first int, rows [][]float32) { f(first, rows) })
}

// position is what is found at one position of a row.
type position struct {
	logProb, kl float64
	agrees      bool
}
