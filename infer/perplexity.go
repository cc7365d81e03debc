package infer

import (
	"context"
	"fmt"

	"exl2/internal/parallel"
	"exl2/internal/score"
)

// A Score is how well a model predicts rows of tokens, and, with a reference,
// how far its predictions are from the reference's.
type Score struct {
	likelihood score.Likelihood
	comparison score.Comparison
}

// Perplexity returns exp of the mean negative log-likelihood of the tokens, 1 if
// nothing was predicted.
func (s *Score) Perplexity() float64 { return s.likelihood.Perplexity() }

// Tokens returns how many tokens were predicted.
func (s *Score) Tokens() int { return s.likelihood.Tokens() }

// A Divergence summarizes Kullback-Leibler divergences from the reference, one a
// token, in nats; quantiles interpolate linearly between ranks.
type Divergence struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// KL returns the divergence from the reference, zeros without one.
func (s *Score) KL() Divergence { return Divergence(s.comparison.KL()) }

// Agreement returns the share of tokens before which the model and the reference
// find the same one the most likely.
func (s *Score) Agreement() float64 { return s.comparison.Agreement() }

// Perplexity scores rows of tokens, each a sequence of its own whose first
// token is not predicted. reference, which may be nil, has the same tokens. step
// is called after every row.
func (e *Engine) Perplexity(ctx context.Context, reference *Engine, rows [][]int32, step func(s *Score)) (*Score, error) {
	if reference != nil && reference.Vocab() != e.Vocab() {
		return nil, fmt.Errorf("a vocabulary of %d tokens, the reference's has %d", e.Vocab(), reference.Vocab())
	}
	s := &Score{}
	for _, ids := range rows {
		if err := e.scoreRow(ctx, s, reference, ids); err != nil {
			return nil, err
		}
		step(s)
	}
	return s, nil
}

// scoreRow scores one row. The reference's logits of the whole row are kept.
func (e *Engine) scoreRow(ctx context.Context, s *Score, reference *Engine, ids []int32) error {
	var want [][]float32
	if reference != nil {
		if err := reference.all(ctx, ids, func(_ int, rows [][]float32) { want = append(want, rows...) }); err != nil {
			return fmt.Errorf("reference: %w", err)
		}
	}
	return e.all(ctx, ids, func(first int, rows [][]float32) {
		n := min(len(rows), len(ids)-1-first) // the last position predicts nothing that is known
		got := make([]position, n)
		parallel.For(n, func(i int) {
			at, row := first+i, score.NewRow(rows[i])
			got[i].logProb = row.LogLikelihood(ids[at+1])
			if reference != nil {
				got[i].kl = score.Divergence(score.NewRow(want[at]), row)
				got[i].agrees = score.ArgMax(want[at]) == score.ArgMax(rows[i])
			}
		})
		for _, p := range got {
			s.likelihood.Add(p.logProb)
			if reference != nil {
				s.comparison.Add(p.kl, p.agrees)
			}
		}
	})
}

// all processes ids as a sequence of their own and calls f with the logits of all
// positions, some at a time: first is the position of the first row.
func (e *Engine) all(ctx context.Context, ids []int32, f func(first int, rows [][]float32)) error {
	return e.step(ctx, []Run{{IDs: ids, Logits: len(ids)}}, func(_, first int, rows [][]float32) { f(first, rows) })
}

// position is what is found at one position of a row.
type position struct {
	logProb, kl float64
	agrees      bool
}
