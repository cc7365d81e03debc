package distill

import "math"

// A Plan says how a model is trained.
type Plan struct {
	Batch, Length int // rows of a step, tokens of a row
	Steps         int
	Rate          float64 // the largest: codes a step, about
	FromCodes     bool    // begin at the codes, not as near to the source's weights as rounds to them
}

// warmUp is the share of the steps in which the rate rises.
const warmUp = 0.05

// rate returns the rate of a step, from 0 on: a straight line up, and half a cosine
// down to 0 (Loshchilov and Hutter 2017).
func (p Plan) rate(step int) float64 {
	up := max(1, int(warmUp*float64(p.Steps)))
	if step < up {
		return p.Rate * float64(step+1) / float64(up)
	}
	return p.Rate * (1 + math.Cos(math.Pi*float64(step-up)/float64(max(1, p.Steps-up)))) / 2
}
