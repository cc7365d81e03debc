package distill

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
)

// A Plan says how a model is trained.
type Plan struct {
	Batch, Length int // rows of a step, tokens of a row
	Steps         int
	Rate          float64 // the largest: codes a step, about
	FromCodes     bool    // begin at the codes, not as near to the source's weights as rounds to them

	Rows    [][]int32 // that are trained on, all of them before any a second time
	HeldOut [][]int32 // that judge
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

// rows returns the rows of a step: in another order every time that all have been seen.
func (p *Plan) rows(step int) [][]int32 {
	list := make([][]int32, p.Batch)
	for i := range list {
		at := step*p.Batch + i
		epoch, place := at/len(p.Rows), at%len(p.Rows)
		list[i] = p.Rows[rand.New(rand.NewPCG(orderSeed, uint64(epoch))).Perm(len(p.Rows))[place]]
	}
	return list
}

// orderSeed is the seed of the order of rows: "exl2" in ASCII.
const orderSeed = 0x65786c32

// checks is how often training is judged.
const checks = 20

// A Report says how training went.
type Report struct {
	Steps         int     // that were taken
	Before, After float64 // divergence of the held-out rows, nats a token
}

// Train takes all steps. said is called after every check.
func (t *Trainer) Train(ctx context.Context, said func(step int, divergence float64)) (*Report, error) {
	p := &t.plan
	r := &Report{}
	var err error
	if r.Before, err = t.Divergence(p.HeldOut); err != nil {
		return nil, err
	}
	said(0, r.Before)
	every := max(1, p.Steps/checks)
	for ; r.Steps < p.Steps; r.Steps++ {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.step(p.rows(r.Steps), p.rate(r.Steps), r.Steps+1)
		if (r.Steps+1)%every != 0 && r.Steps+1 < p.Steps {
			continue
		}
		if r.After, err = t.Divergence(p.HeldOut); err != nil {
			return nil, fmt.Errorf("training, step %d: %w", r.Steps, err)
		}
		said(r.Steps+1, r.After)
	}
	return r, nil
}
