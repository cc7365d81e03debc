// Package score measures how well logits predict tokens (likelihood,
// perplexity) and how far they are from a reference's (Kullback-Leibler
// divergence, agreement of the most likely token).
//
// All logarithms are natural. Sums are in float64 and in the order of the
// rows, so results do not depend on the number of cores that find them.
package score

import (
	"math"
	"slices"
)

// A Row is a row of logits and what normalizes it.
type Row struct {
	logits []float32
	sum    float64 // log Σ exp(logits)
}

// NewRow returns the Row of logits, which it keeps.
func NewRow(logits []float32) Row { return Row{logits, logSum(logits)} }

// LogLikelihood returns the logarithm of the probability that a row of logits
// gives to token.
func (r Row) LogLikelihood(token int32) float64 { return float64(r.logits[token]) - r.sum }

// logSum returns log Σ exp(x).
func logSum(x []float32) float64 {
	top := float64(slices.Max(x))
	if math.IsInf(top, 0) || math.IsNaN(top) {
		return math.NaN()
	}
	sum := 0.0
	for _, v := range x {
		sum += math.Exp(float64(v) - top)
	}
	return top + math.Log(sum)
}

// Divergence returns KL(reference ‖ q) in nats.
func Divergence(reference, q Row) float64 {
	kl := 0.0
	for i, r := range reference.logits {
		lr := float64(r) - reference.sum
		kl += math.Exp(lr) * (lr - float64(q.logits[i]) + q.sum)
	}
	return max(kl, 0) // rounding can leave -1e-16 for equal rows
}

// ArgMax returns the index of the largest element, the first among equals. NaN
// is never the largest.
func ArgMax(x []float32) int {
	best, top := 0, float32(math.Inf(-1))
	for i, v := range x {
		if v > top {
			best, top = i, v
		}
	}
	return best
}

// Likelihood accumulates log-likelihoods.
type Likelihood struct {
	sum float64
	n   int
}

// Add counts one predicted token.
func (l *Likelihood) Add(logProb float64) { l.sum, l.n = l.sum+logProb, l.n+1 }

// Tokens returns how many tokens were counted.
func (l *Likelihood) Tokens() int { return l.n }

// Perplexity returns exp(-mean log-likelihood), 1 if nothing was predicted.
func (l *Likelihood) Perplexity() float64 { return math.Exp(-l.sum / float64(max(l.n, 1))) }

// Comparison accumulates divergences from a reference.
type Comparison struct {
	kl    []float64
	agree int
}

// Add counts one row: its divergence and whether the most likely tokens agree.
func (c *Comparison) Add(kl float64, agrees bool) {
	c.kl = append(c.kl, kl)
	if agrees {
		c.agree++
	}
}

// Distribution summarizes divergences, in nats.
type Distribution struct {
	Mean   float64 `json:"mean"`
	Median float64 `json:"median"`
	P90    float64 `json:"p90"`
	P99    float64 `json:"p99"`
	Max    float64 `json:"max"`
}

// KL summarizes the divergences; quantiles interpolate linearly between ranks.
func (c *Comparison) KL() Distribution {
	if len(c.kl) == 0 {
		return Distribution{}
	}
	sorted := slices.Sorted(slices.Values(c.kl))
	sum := 0.0
	for _, v := range c.kl {
		sum += v
	}
	return Distribution{
		Mean: sum / float64(len(sorted)), Median: quantile(sorted, 0.5),
		P90: quantile(sorted, 0.9), P99: quantile(sorted, 0.99), Max: sorted[len(sorted)-1],
	}
}

// Agreement returns the share of rows whose most likely tokens agree.
func (c *Comparison) Agreement() float64 { return float64(c.agree) / float64(max(len(c.kl), 1)) }

func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	if i+1 == len(sorted) {
		return sorted[i]
	}
	return sorted[i] + (at-float64(i))*(sorted[i+1]-sorted[i])
}
