package distill

import (
	"context"
	"errors"
	"fmt"
	"math"

	"exl2/internal/device"
	"exl2/internal/tensor"
)

// Training is judged checks times. One that is worse than harmful times what it began
// with after a share of earlyShare of its steps begins again with a rate of lessRate
// of the one before, up to attempts times in all.
const (
	checks     = 10
	earlyShare = 0.25
	harmful    = 1.25
	lessRate   = 1.0 / 3
	attempts   = 4
)

// A Report says how training went.
type Report struct {
	Steps         int     // that were taken
	Rate          float64 // with which
	Before, After float64 // divergence of the held-out rows, nats a token
	Kept          bool    // the codes are those from before: trained ones were worse
}

// A Follower is told of the progress of training.
type Follower struct {
	// Checked is called after every check.
	Checked func(step int, divergence float64)
	// Pause is called after every step: the state may be saved.
	Pause func() error
}

// Place is how far training has come.
type Place struct {
	Begun   bool    `json:"begun"`
	Before  float64 `json:"before"`  // divergence of the codes from before
	Step    int     `json:"step"`    // steps that have been taken
	Attempt int     `json:"attempt"` // from 0 on
}

// Train takes the steps that are left, and judges what they have made: codes that are
// worse than those from before are not kept.
func (t *Trainer) Train(ctx context.Context, f Follower) (*Report, error) {
	if err := t.begin(f); err != nil {
		return nil, err
	}
	r := &Report{Before: t.Place.Before}
	r.After = r.Before
	var err error
	order, steps, every := order{plan: &t.plan}, t.plan.Steps, t.plan.every()
	for t.Place.Step < steps {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		t.step(order.rows(t.Place.Step), t.rate(), t.Place.Step+1)
		t.Place.Step++
		if t.Place.Step%every == 0 || t.Place.Step == steps {
			if r.After, err = t.Divergence(t.plan.HeldOut); err != nil {
				return nil, fmt.Errorf("training, step %d: %w", t.Place.Step, err)
			}
			f.Checked(t.Place.Step, r.After)
			t.reconsider(r)
		}
		if err := f.Pause(); err != nil {
			return nil, err
		}
	}
	r.Steps, r.Rate = t.Place.Step, t.plan.Rate*t.less()
	if !(r.After < r.Before) {
		r.Kept, r.After = true, r.Before
		t.reset(false)
	}
	return r, t.dev.Sync()
}

// every is how many steps are taken between checks.
func (p *Plan) every() int { return max(1, p.Steps/checks) }

// Checks returns how often training is judged behind its steps, and Done how often it
// has been.
func (t *Trainer) Checks() int { return (t.plan.Steps + t.plan.every() - 1) / t.plan.every() }

// Done is documented with Checks.
func (t *Trainer) Done() int { return t.Place.Step / t.plan.every() }

// begin judges the codes from before, unless an earlier run has.
func (t *Trainer) begin(f Follower) error {
	if t.Place.Begun {
		return nil
	}
	before, err := t.Divergence(t.plan.HeldOut)
	if err == nil && math.IsNaN(before) {
		err = errors.New("training: logits are NaN or infinite")
	}
	if err == nil {
		t.Place = Place{Begun: true, Before: before}
		f.Checked(0, before)
	}
	return err
}

// reconsider begins again, with a lower rate, if training does harm.
func (t *Trainer) reconsider(r *Report) {
	early := float64(t.Place.Step) <= earlyShare*float64(t.plan.Steps)
	bad := math.IsNaN(r.After) || float64(t.Place.Step) >= earlyShare/2*float64(t.plan.Steps) && r.After > harmful*r.Before
	if early && bad && t.Place.Attempt+1 < attempts {
		t.reset(!t.plan.FromCodes)
		t.Place.Step, t.Place.Attempt = 0, t.Place.Attempt+1
	}
}

// less is what the plan's rate is multiplied by.
func (t *Trainer) less() float64 { return math.Pow(lessRate, float64(t.Place.Attempt)) }

// rate returns that of the next step.
func (t *Trainer) rate() float64 { return t.plan.rate(t.Place.Step) * t.less() }

// reset brings all latents to where they begin.
func (t *Trainer) reset(drawn bool) {
	t.settle()
	for _, x := range t.latents {
		x.reset(t.dev, drawn)
	}
	t.Restored()
}

// States calls f for every tensor that the next steps depend on, with a name for it.
// Restored tells that they have been changed.
func (t *Trainer) States(f func(name string, x tensor.Tensor) error) error {
	t.settle()
	for _, x := range t.latents {
		for _, s := range []struct {
			name string
			tensor.Tensor
		}{{"latent", x.kept.v}, {"first", x.kept.first}, {"second", x.kept.second}} {
			if err := f(x.linear.Name+"."+s.name, s.Tensor); err != nil {
				return err
			}
		}
	}
	return nil
}

// Restored makes weights of latents that were changed from outside.
func (t *Trainer) Restored() {
	for _, x := range t.layers {
		if x.made {
			continue
		}
		for _, y := range x.latents {
			t.dev.RoundLatent(y.weight(), y.Latent)
		}
	}
}

// adam returns the parameters of step number at, with gradients of sums over so many
// tokens. A latent that is drawn to and fro is at the edge between two codes, where its
// weight changes every step or two at any rate: the longer training takes, the more
// strongly latents are drawn to their codes, in the end by settling rates.
func (p *Plan) adam(rate float64, at, tokens int) device.Adam {
	const beta1, beta2, eps, settling = 0.9, 0.95, 1e-8, 0.3
	return device.Adam{
		Rate: float32(rate), Beta1: beta1, Beta2: beta2, Eps: float32(eps * float64(tokens)),
		First: float32(1 / (1 - math.Pow(beta1, float64(at)))), Second: float32(1 / (1 - math.Pow(beta2, float64(at)))),
		Pull: float32(settling * rate * float64(at) / float64(max(1, p.Steps))),
	}
}
