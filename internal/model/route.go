package model

import (
	"math"

	"exl2/internal/arch"
	"exl2/internal/parallel"
)

// A Route says which experts see the rows of a pass. Rows are sorted by expert:
// those of expert e are Rows[First[e]:First[e+1]].
type Route struct {
	Rows    []int32   // of the pass
	First   []int     // by expert, and the end
	Places  []int32   // [rows, chosen]: where in Rows
	Weights []float32 // [rows, chosen]
}

// routeTile is the rows that one goroutine routes.
const routeTile = 16

// A router chooses experts.
type router struct {
	arch.MoE
	correction []float32 // by expert, or nil
}

// route chooses experts for rows of logits, one per expert.
func (r router) route(logits []float32) *Route {
	rows := len(logits) / r.Experts
	chosen := make([]int, rows*r.TopK)
	out := &Route{Rows: make([]int32, rows*r.TopK), First: make([]int, r.Experts+1), Places: make([]int32, rows*r.TopK), Weights: make([]float32, rows*r.TopK)}
	parallel.Runs(rows, routeTile, func(lo, hi int) {
		c := r.newChoice()
		for row := lo; row < hi; row++ {
			at := row * r.TopK
			c.choose(chosen[at:at+r.TopK], out.Weights[at:at+r.TopK], logits[row*r.Experts:(row+1)*r.Experts])
		}
	})
	for _, e := range chosen {
		out.First[e+1]++
	}
	for e := range r.Experts {
		out.First[e+1] += out.First[e]
	}
	next := append([]int(nil), out.First...)
	for i, e := range chosen {
		out.Rows[next[e]], out.Places[i] = int32(i/r.TopK), int32(next[e])
		next[e]++
	}
	return out
}

// A choice is the work on one row.
type choice struct {
	router
	logits, scores []float64
	by             []float64 // scores to choose by; -∞ of what cannot be chosen
	groups         []float64
}

func (r router) newChoice() *choice {
	n := r.Experts
	return &choice{router: r, logits: make([]float64, n), scores: make([]float64, n), by: make([]float64, n), groups: make([]float64, max(r.Routing.Groups, 1))}
}

// choose stores the experts of a row, the best first, and their weights.
func (c *choice) choose(chosen []int, weights []float32, logits []float32) {
	for e, v := range logits {
		c.logits[e] = float64(v)
	}
	if c.Routing.Score == arch.SparseMixer {
		c.mix(chosen, weights)
		return
	}
	c.score()
	c.limit()
	sum := 0.0
	for k := range chosen {
		e := largest(c.by)
		c.by[e] = math.Inf(-1)
		chosen[k] = e
		sum += c.scores[e]
	}
	if c.Routing.Score == arch.SoftmaxTop {
		sum = c.softmaxOf(chosen)
	}
	factor := 1.0
	if c.Routing.Scale != 0 {
		factor = float64(c.Routing.Scale)
	}
	switch {
	case c.Routing.Score == arch.SoftmaxTop:
		factor /= sum
	case c.Routing.Renorm:
		factor /= sum + float64(c.Routing.RenormEps)
	}
	for k, e := range chosen {
		weights[k] = float32(c.scores[e] * factor)
	}
}

// score turns logits into scores, and into what is chosen by.
func (c *choice) score() {
	most, sum := c.logits[largest(c.logits)], 0.0
	for e, v := range c.logits {
		switch c.Routing.Score {
		case arch.SoftmaxAll:
			c.scores[e] = math.Exp(v - most)
			sum += c.scores[e]
		case arch.Sigmoid:
			c.scores[e] = 1 / (1 + math.Exp(-v))
		default:
			c.scores[e] = v
		}
	}
	for e := range c.scores {
		if c.Routing.Score == arch.SoftmaxAll {
			c.scores[e] /= sum
		}
		c.by[e] = c.scores[e]
		if c.correction != nil {
			c.by[e] += float64(c.correction[e])
		}
	}
}

// softmaxOf makes the chosen's scores exponentials, and returns their sum.
func (c *choice) softmaxOf(chosen []int) (sum float64) {
	most := c.scores[chosen[0]]
	for _, e := range chosen {
		c.scores[e] = math.Exp(c.scores[e] - most)
		sum += c.scores[e]
	}
	return sum
}

// limit leaves only the experts of the best groups to choose from.
func (c *choice) limit() {
	r := c.Routing
	if r.Groups < 2 {
		return
	}
	size := c.Experts / r.Groups
	for g := range c.groups {
		group := c.by[g*size : (g+1)*size]
		best := largest(group)
		c.groups[g] = group[best]
		if !r.GroupMax && size > 1 {
			second := math.Inf(-1)
			for e, v := range group {
				if e != best {
					second = max(second, v)
				}
			}
			c.groups[g] += second
		}
	}
	for range r.Groups - r.TopGroups {
		worst := 0 // the last among equals
		for g, v := range c.groups {
			if v <= c.groups[worst] {
				worst = g
			}
		}
		c.groups[worst] = math.Inf(1)
		for e := range size {
			c.by[worst*size+e] = math.Inf(-1)
		}
	}
}

// mix is SparseMixer's choice.
func (c *choice) mix(chosen []int, weights []float32) {
	copy(c.by, c.logits)
	for k := range chosen {
		e := largest(c.by)
		most, sum := c.by[e], 0.0
		for i, v := range c.logits {
			left := !math.IsInf(c.by[i], -1)
			if left && (most-v)/max(math.Abs(v), most) <= 2*float64(c.Routing.Jitter) {
				sum += math.Exp(v - most)
			}
		}
		chosen[k], weights[k] = e, float32(1/sum)
		c.by[e] = math.Inf(-1)
	}
}

// largest returns the index of the largest element, the first among equals.
func largest(v []float64) int {
	at := 0
	for i, x := range v {
		if x > v[at] {
			at = i
		}
	}
	return at
}
