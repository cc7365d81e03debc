package distill

import (
	"math"
	"math/rand/v2"
)

// A Plan says how a model is trained.
type Plan struct {
	Batch, Length int // rows of a step, tokens of a row
	Steps         int
	Rate          float64 // the largest: codes a step, about
	FromCodes     bool    // begin at the codes, not as near to the source's weights as rounds to them
	Fit

	Rows    [][]int32 // that are trained on, all of them before any a second time
	HeldOut [][]int32 // that judge
}

// A Fit says what is kept where. It changes nothing of what comes out.
type Fit struct {
	Keep   bool // the student's activations, for the way back, which else computes them again
	Recall int  // of how many of the first rows the teacher's streams in front of its head, for when they are seen again
	Lean   bool // the student's weights are made of latents whenever a module needs them
	Away   int  // how many of the first modules behind the embedding have their weights and latents in the host's memory; Lean then
}

// warmUp is the share of the steps in which the rate rises.
const warmUp = 0.05

// rate returns the rate of a step, from 0 on: a straight line up, and half a cosine
// down to 0 (Loshchilov and Hutter 2017).
func (p *Plan) rate(step int) float64 {
	up := max(1, int(warmUp*float64(p.Steps)))
	if step < up {
		return p.Rate * float64(step+1) / float64(up)
	}
	return p.Rate * (1 + math.Cos(math.Pi*float64(step-up)/float64(max(1, p.Steps-up)))) / 2
}

// An order is the rows of steps: in another order every time that all have been seen.
type order struct {
	plan  *Plan
	epoch int
	perm  []int
}

// orderSeed is the seed of the order of rows: "exl2" in ASCII.
const orderSeed = 0x65786c32

// rows returns those of a step.
func (o *order) rows(step int) [][]int32 {
	p := o.plan
	list := make([][]int32, p.Batch)
	for i := range list {
		at := step*p.Batch + i
		if epoch := at / len(p.Rows); o.perm == nil || epoch != o.epoch {
			o.epoch, o.perm = epoch, rand.New(rand.NewPCG(orderSeed, uint64(epoch))).Perm(len(p.Rows))
		}
		list[i] = p.Rows[o.perm[at%len(p.Rows)]]
	}
	return list
}
