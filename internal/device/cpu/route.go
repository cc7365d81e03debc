package cpu

import (
	"math"

	"exl2/internal/device"
	"exl2/internal/parallel"
	"exl2/internal/tensor"
)

// Route chooses experts for rows of logits and sorts the rows by expert.
func (d *Device) Route(to device.Routes, logits, correction, scales, gate tensor.Tensor, r device.Routing) {
	const op = "Route"
	rows, experts := logits.Rows, logits.Cols
	chosen := to.Chosen()
	want(to.Places.Rows == rows && to.Weights.Rows == rows && to.Weights.Cols == to.Places.Cols && to.Rows.Cols == rows*chosen &&
		to.Experts.Cols == rows*chosen && to.First.Cols == experts+1 && (chosen <= experts || rows == 0), op, to.Places, to.Rows, logits)
	want((correction.Nil() || correction.Cols == experts) && (gate.Nil() || gate.Rows == rows && to.Shared()) && (scales.Nil() || scales.Cols == experts), op, correction, gate)
	in, places, weights := rowsOf(op, logits), ints(op, to.Places), floats(op, to.Weights)
	cols := to.Places.Cols
	parallel.Runs(rows, rowTile, func(lo, hi int) {
		c := newChoice(experts, r)
		if !correction.Nil() {
			c.correction = floats(op, correction)
		}
		if !scales.Nil() {
			c.scales = floats(op, scales)
		}
		for row := lo; row < hi; row++ {
			at := row * cols
			c.choose(places[at:at+chosen], weights[at:at+chosen], in.row(row))
			c.rescale(places[at:at+chosen], weights[at:at+chosen])
			if to.Shared() {
				places[at+chosen], weights[at+chosen] = int32(rows*chosen+row), 1
			}
			if !gate.Nil() {
				weights[at+chosen] = float32(1 / (1 + math.Exp(-float64(rowsOf(op, gate).row(row)[0]))))
			}
		}
	})
	sortRoutes(to, rows, chosen)
}

// sortRoutes sorts rows by the experts in Places, in whose stead it leaves where
// each row is.
func sortRoutes(to device.Routes, rows, chosen int) {
	const op = "Route"
	places, cols := ints(op, to.Places), to.Places.Cols
	order, experts, first := ints(op, to.Rows), ints(op, to.Experts), ints(op, to.First)
	clear(first)
	for i := range rows * chosen {
		first[places[i/chosen*cols+i%chosen]+1]++
	}
	for e := 1; e < len(first); e++ {
		first[e] += first[e-1]
	}
	next := append([]int32(nil), first...)
	for i := range rows * chosen {
		p := &places[i/chosen*cols+i%chosen]
		e := *p
		order[next[e]], experts[next[e]], *p = int32(i/chosen), e, next[e]
		next[e]++
	}
}

// A choice is the work on one row.
type choice struct {
	device.Routing
	correction     []float32 // by expert, or nil
	scales         []float32 // likewise
	logits, scores []float64
	by             []float64 // what is chosen by; -∞ of what cannot be chosen
	groups         []float64
}

func newChoice(experts int, r device.Routing) *choice {
	n := experts
	return &choice{Routing: r, logits: make([]float64, n), scores: make([]float64, n), by: make([]float64, n), groups: make([]float64, max(r.Groups, 1))}
}

// choose stores the experts of a row, the best first, and their weights.
func (c *choice) choose(chosen []int32, weights []float32, logits []float32) {
	for e, v := range logits {
		c.logits[e] = float64(v)
	}
	if c.Score == device.SparseMixer {
		c.mix(chosen, weights)
		return
	}
	c.score()
	c.limit()
	sum := 0.0
	for k := range chosen {
		e := c.take()
		chosen[k] = int32(e)
		sum += c.scores[e]
	}
	if c.Score == device.SoftmaxTop {
		sum = c.softmaxOf(chosen)
	}
	factor := 1.0
	if c.Scale != 0 {
		factor = float64(c.Scale)
	}
	switch {
	case c.Score == device.SoftmaxTop:
		factor /= sum
	case c.Renorm:
		factor /= sum + float64(c.RenormEps)
	}
	for k, e := range chosen {
		weights[k] = float32(c.scores[e] * factor)
	}
}

// rescale multiplies weights of experts by their scales, if there are some.
func (c *choice) rescale(chosen []int32, weights []float32) {
	if c.scales == nil {
		return
	}
	for k, e := range chosen {
		weights[k] *= c.scales[e]
	}
}

// take returns the best expert, which is not chosen again.
func (c *choice) take() int {
	e := largest(c.by)
	c.by[e] = math.Inf(-1)
	return e
}

// score turns logits into scores, and into what is chosen by: logits, whose order
// is that of scores, unless these are added to.
func (c *choice) score() {
	most, sum := c.logits[largest(c.logits)], 0.0
	for e, v := range c.logits {
		switch c.Score {
		case device.SoftmaxAll:
			c.scores[e] = math.Exp(v - most)
			sum += c.scores[e]
		case device.Sigmoid:
			c.scores[e] = 1 / (1 + math.Exp(-v))
		default:
			c.scores[e] = v
		}
	}
	copy(c.by, c.logits)
	for e := range c.scores {
		if c.Score == device.SoftmaxAll {
			c.scores[e] /= sum
		}
		if c.correction != nil || c.Groups > 1 {
			c.by[e] = c.scores[e]
		}
		if c.correction != nil {
			c.by[e] += float64(c.correction[e])
		}
	}
}

// softmaxOf makes the chosen's scores exponentials, and returns their sum.
func (c *choice) softmaxOf(chosen []int32) (sum float64) {
	most := c.scores[chosen[0]]
	for _, e := range chosen {
		c.scores[e] = math.Exp(c.scores[e] - most)
		sum += c.scores[e]
	}
	return sum
}

// limit leaves only the experts of the best groups to choose from.
func (c *choice) limit() {
	if c.Groups < 2 {
		return
	}
	size := len(c.by) / c.Groups
	for g := range c.groups {
		group := c.by[g*size : (g+1)*size]
		best := largest(group)
		c.groups[g] = group[best]
		if !c.GroupMax && size > 1 {
			second := math.Inf(-1)
			for e, v := range group {
				if e != best {
					second = max(second, v)
				}
			}
			c.groups[g] += second
		}
	}
	for range c.Groups - c.TopGroups {
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
func (c *choice) mix(chosen []int32, weights []float32) {
	copy(c.by, c.logits)
	for k := range chosen {
		e := largest(c.by)
		most, sum := c.by[e], 0.0
		for i, v := range c.logits {
			left := !math.IsInf(c.by[i], -1)
			if left && (most-v)/max(math.Abs(v), most) <= 2*float64(c.Jitter) {
				sum += math.Exp(v - most)
			}
		}
		chosen[k], weights[k] = int32(e), float32(1/sum)
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
